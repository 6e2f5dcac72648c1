"""The two kinds of data that a fit trains on: a table in memory, and one that is read in pieces."""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gumdrop.ensembles import Architecture, Build, EnsembleFit, schedule
from gumdrop.ensembles.streaming import STREAMED
from gumdrop.tables.cells import completer, mark_unknown
from gumdrop.tables.errors import TableError, check_present
from gumdrop.tables.fitting.own_test import read_own_test
from gumdrop.tables.fitting.settings import FitSettings, Reading
from gumdrop.tables.fitting.split import Parts, advice, at_random, check_known, check_parts, split_column
from gumdrop.tables.prediction import encoding_notes, without_target
from gumdrop.tables.reading.table import Table, name_of, read_table
from gumdrop.tables.schema.inference import infer_schema, table_notes, with_statistics
from gumdrop.tables.schema.schema import TableSchema
from gumdrop.tables.streams.table import StreamedTable, open_stream
from gumdrop.tables.task import task_of
from gumdrop.tables.task.base import Completed

__all__ = ["MemoryData", "StreamedData", "TableData", "read_data"]


@dataclass(frozen=True, kw_only=True)
class Split:
    """Rows of a table in memory, encoded, in two parts."""

    name: str
    """The table, for the reader."""
    table: Table
    """What was read; of a stream a sample."""
    frame: pd.DataFrame
    """Rows whose target is known."""
    rows: np.ndarray
    """Their numbers in the table, from 1."""
    schema: TableSchema
    """How they are encoded."""
    train: list[int]
    """Which of them train, or in a stream are watched."""
    test: list[int]
    """Which of them test."""
    x: np.ndarray
    """Encoded inputs of all."""
    unknown: np.ndarray
    """Which cells have a stand-in in `x`."""
    notes: list[str]
    """What a reader should know."""
    unit: str
    """Unit of the target."""
    words: str | None = None
    """Which rows test, in words; None where they were drawn at random."""
    together: np.ndarray | None = None
    """For each row that trains the number of the group with which it is held out of a network; None if there are no
    groups."""

    def part(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some rows, as the network takes them."""
        return torch.from_numpy(self.x[rows]), torch.from_numpy(self.schema.encode_target(self.frame.iloc[rows]))

    def marked(self, rows: list[int], donors: Tensor) -> Tensor:
        """Inputs of some rows, with NaN in the cells that predictions draw from donors."""
        return mark_unknown(self.schema, self.x[rows], self.unknown[rows], donors)

    def background(self, count: int) -> Tensor:
        """Some encoded training rows, spread evenly over the order of the table."""
        pick = np.linspace(0, len(self.train) - 1, min(count, len(self.train))).round().astype(int)
        return torch.from_numpy(self.x[np.asarray(self.train)[pick]])


class TableData(Split, ABC):
    """Data to fit."""

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Rows of the whole table."""

    @property
    @abstractmethod
    def num_train(self) -> int:
        """Rows that train."""

    @property
    @abstractmethod
    def has_twins(self) -> bool:
        """Whether the same ensemble is trained with other dropout to compare with."""

    @abstractmethod
    def schedule(self, settings: FitSettings) -> tuple[int, int]:
        """Batch size and passes."""

    @abstractmethod
    def passes(self, settings: FitSettings, fitted: EnsembleFit) -> int:
        """Passes that were made."""

    @abstractmethod
    def fit(
        self,
        build: Build,
        architecture: Architecture,
        settings: FitSettings,
        checkpoint: Path,
        progress: bool | str,
    ) -> EnsembleFit:
        """Train an ensemble, with that strength of dropout which held-out rows prefer."""

    @abstractmethod
    def choose(self, build: Build, settings: FitSettings, progress: bool | str) -> Architecture:
        """Find the kind of networks that suits the training part."""


class MemoryData(TableData):
    """A table in memory."""

    has_twins = True

    @property
    def num_rows(self) -> int:
        """Rows of the whole table."""
        return len(self.table.frame)

    @property
    def num_train(self) -> int:
        """Rows that train."""
        return len(self.train)

    def schedule(self, settings: FitSettings) -> tuple[int, int]:
        """Batch size and passes."""
        return schedule(len(self.train), batch_size=settings.batch_size, epochs=settings.epochs)

    def passes(self, settings: FitSettings, fitted: EnsembleFit) -> int:
        """Passes that were made."""
        return len(fitted.members[0].history)

    def fit(
        self,
        build: Build,
        architecture: Architecture,
        settings: FitSettings,
        checkpoint: Path,
        progress: bool | str,
    ) -> EnsembleFit:
        """Train an ensemble on the training part."""
        task, completed = task_of(self.schema.target), self._completed(settings)
        return task.fit(
            build, architecture, self.part(self.train), completed, settings, checkpoint, progress, self._groups
        )

    def choose(self, build: Build, settings: FitSettings, progress: bool | str) -> Architecture:
        """Find the kind of networks by held-out rows of the training part."""
        task, completed = task_of(self.schema.target), self._completed(settings)
        return task.choose(build, self.part(self.train), completed, settings, progress, self._groups)

    @property
    def _groups(self) -> Tensor | None:
        return None if self.together is None else torch.from_numpy(self.together)

    def _completed(self, settings: FitSettings) -> Completed:
        donors = self.background(settings.num_background)
        return completer(self.marked(self.train, donors), donors)


@dataclass(frozen=True, kw_only=True)
class StreamedData(TableData):
    """A table that is read in pieces: all rows train but a sample, of which some test and the others are watched."""

    has_twins = False
    streamed: StreamedTable
    """The rows that train."""

    @property
    def num_rows(self) -> int:
        """Rows of the whole table."""
        return self.streamed.stream.num_rows

    @property
    def num_train(self) -> int:
        """Rows that train."""
        return self.streamed.survey.num_known

    def schedule(self, settings: FitSettings) -> tuple[int, int]:
        """Batch size and passes."""
        return self.streamed.schedule(settings)

    def passes(self, settings: FitSettings, fitted: EnsembleFit) -> int:
        """Passes that were made; a long one is several epochs."""
        return self.schedule(settings)[1]

    def fit(
        self,
        build: Build,
        architecture: Architecture,
        settings: FitSettings,
        checkpoint: Path,
        progress: bool | str,
    ) -> EnsembleFit:
        """Train an ensemble on all rows but the sample, with the strength of the ELBO: each costs passes of its own."""
        make = functools.partial(build, architecture, None)
        watched = self.part(self.train)
        return self.streamed.fit(make, self.schema, watched, settings, checkpoint=checkpoint, progress=progress)

    def choose(self, build: Build, settings: FitSettings, progress: bool | str) -> Architecture:
        """Give the kind that all streams have."""
        return Architecture(STREAMED)


def read_data(path: object, target: str, reading: Reading, settings: FitSettings) -> TableData:
    """Read a table, split and encode it.

    Args:
        path: The table, as `read_table` takes it.
        target: Column to predict.
        reading: What the columns are, where the table does not tell.
        settings: Choices; among them whether it is read in pieces.

    Returns:
        The data.

    Raises:
        TableError: If the table cannot be used.
    """
    if not settings.stream:
        table = read_table(path, decimal=reading.decimal)
        numbers = np.arange(1, len(table.frame) + 1)
        return MemoryData(**vars(_split_and_encode(path, table, numbers, target, reading, settings, with_statistics)))
    if not isinstance(path, str | os.PathLike):
        raise TableError("`stream` reads files in pieces, and a data frame is in memory already: leave `stream` away")
    streamed = open_stream(os.fspath(path), target, settings, drop=reading.drop)
    numbers, exact = streamed.survey.rows + 1, streamed.survey.exact
    found = _split_and_encode(path, streamed.table, numbers, target, reading, settings, lambda schema, _: exact(schema))
    return StreamedData(**vars(found), streamed=streamed)


def _split_and_encode(
    path: object,
    table: Table,
    numbers: np.ndarray,
    target: str,
    reading: Reading,
    settings: FitSettings,
    trained: Callable[[TableSchema, pd.DataFrame], TableSchema],
) -> Split:
    """Split and encode rows with these numbers; `trained` gives a schema the statistics of rows to train on."""
    check_present(table.frame.columns, [target])
    known = table.frame[target].notna().to_numpy()
    check_known(known, target)
    frame, rows = table.frame[known].reset_index(drop=True), numbers[known]
    notes = [*table.notes, *without_target(known, target)]
    column = None if settings.split_by is None else split_column(frame, rows, target, settings, reading.dates)
    grouped = [column.name] if column is not None and column.kind == "groups" else []
    whole = infer_schema(
        frame, target, task=reading.task, drop=[*reading.drop, *grouped], dates=reading.dates, decimal=table.decimal
    )
    other = None if settings.test is None else read_own_test(settings.test, whole)
    if other is not None:
        parts = Parts(list(range(len(frame))), list(range(len(frame), len(frame) + len(other.frame))), other.words)
    else:
        parts = column.parts(settings) if column is not None else at_random(frame, whole, settings)
    notes += check_parts(parts, whole, frame)
    schema = trained(whole, frame.iloc[parts.train])
    encoded = schema.encode_inputs(frame)
    notes += [*table_notes(frame, whole, rows), *encoding_notes(schema, encoded), *advice(whole, settings, column)]
    notes += task_of(schema.target).notes
    x, unknown = encoded.x, encoded.unknown
    if other is not None:
        frame, rows = other.below(frame), np.concatenate([rows, other.rows])
        beside = other.encoded(schema)
        x, unknown = np.concatenate([x, beside.x]), np.concatenate([unknown, beside.unknown])
        notes += other.notes_on(schema, beside)
    return Split(
        name=name_of(path),
        table=table,
        frame=frame,
        rows=rows,
        schema=schema,
        train=parts.train,
        test=parts.test,
        x=x,
        unknown=unknown,
        notes=[*notes, *_repeated(frame)],
        unit=reading.unit,
        words=parts.words,
        together=parts.together,
    )


def _repeated(frame: pd.DataFrame) -> list[str]:
    repeated = int(frame.duplicated().sum())
    are = "rows equal earlier ones" if repeated > 1 else "row equals an earlier one"
    note = f"{repeated} {are}: where they are copies, test rows were trained on and scores look too good"
    return [note] if repeated else []
