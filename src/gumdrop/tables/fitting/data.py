"""The data of a fit: rows in memory, encoded and in two parts; of a stream a sample, beside all others, which train."""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gumdrop.ensembles import EnsembleFit, Rows
from gumdrop.ensembles.fitting import stream_schedule
from gumdrop.machine.picking import evenly
from gumdrop.tables.cells import imputer, mark_unknown
from gumdrop.tables.errors import TableError, check_present
from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.tables.fitting.split import (
    OwnTest,
    Parts,
    SplitColumn,
    advice,
    at_random,
    check_known,
    check_parts,
    read_own_test,
    split_column,
)
from gumdrop.tables.notes import encoding_notes, repeated_note, table_notes, without_target
from gumdrop.tables.reading.declared import Reading
from gumdrop.tables.reading.table import Table, name_of, read_table
from gumdrop.tables.results import TableFacts
from gumdrop.tables.schema.cells import with_ends
from gumdrop.tables.schema.inference import infer_schema, is_class, is_words, with_statistics
from gumdrop.tables.schema.schema import LABELS, Labels, TableSchema, Target
from gumdrop.tables.streams.rows import StreamedTable, open_stream
from gumdrop.tables.task import task_of


@dataclass(frozen=True, kw_only=True)
class TableData:
    """Data to fit."""

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
    train: np.ndarray
    """Which of them train, or in a stream are watched, ascending."""
    test: np.ndarray
    """Which of them test, ascending."""
    x: np.ndarray
    """Encoded inputs of all."""
    unknown: np.ndarray
    """Which cells have a stand-in in `x`."""
    notes: list[str]
    """What a reader should know."""
    unit: str
    """Unit of the target."""
    words: str | None
    """Which rows test, in words; None where they were drawn at random."""
    together: np.ndarray | None
    """For each row that trains the number of the group with which it is held out of a network; None if there are no
    groups."""
    streamed: StreamedTable | None
    """The rows that train, of a table that is read in pieces."""

    @property
    def left_out(self) -> list[str]:
        """Which note says that rows are left out whose target is a word for missing, if some are."""
        name = self.schema.target.name
        return _left_out(self.table, name) if _words_for_none(self.table, name) else []

    @property
    def num_rows(self) -> int:
        """Rows of the whole table."""
        return len(self.table.frame) if self.streamed is None else self.streamed.stream.num_rows

    @property
    def num_train(self) -> int:
        """Rows that train."""
        return len(self.train) if self.streamed is None else self.streamed.survey.num_known

    def schedule(self, settings: FitSettings) -> tuple[int, int]:
        """Batch size and passes."""
        if self.streamed is None:
            return settings.ensemble().schedule(self.num_train, task_of(self.schema.target).likelihood)
        return stream_schedule(self.num_train, batch_size=settings.batch_size, passes=settings.epochs)

    def passes(self, settings: FitSettings, fitted: EnsembleFit) -> int:
        """Passes that were made; a long one over a stream is several epochs."""
        return len(fitted.members[0].history) if self.streamed is None else self.schedule(settings)[1]

    def facts(self, watched_rows: list[int]) -> TableFacts:
        """What the results say of the table."""
        return TableFacts(
            name=self.name,
            sha256=self.table.sha256,
            rows=self.num_rows,
            train_rows=self.num_train,
            watched_rows=watched_rows,
            test_rows=len(self.test),
            split=self.words,
            features=self.schema.names,
            encoded_features=self.schema.num_features,
        )

    def part(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some rows, as the network takes them."""
        targets = self.frame[[self.schema.target.name]].iloc[rows]  # no copy of the other columns
        return torch.from_numpy(self.x[rows]), torch.from_numpy(self.schema.encode_target(targets))

    def marked(self, rows: np.ndarray, donors: Tensor) -> Tensor:
        """Inputs of some rows, with NaN in the cells that predictions draw from donors."""
        return mark_unknown(self.schema, self.x[rows], self.unknown[rows], donors)

    def background(self, count: int) -> Tensor:
        """Some encoded training rows, spread evenly over the order of the table."""
        return torch.from_numpy(self.x[self.train[evenly(len(self.train), count)]])

    def training_rows(self, num_background: int) -> Rows:
        """Rows of the training part; noise is beside what is drawn for unknown cells."""
        groups, imputations = None if self.together is None else torch.from_numpy(self.together), None
        if self.unknown[self.train].any():
            donors = self.background(num_background)
            imputations = imputer(self.marked(self.train, donors), donors)
        return Rows(*self.part(self.train), groups=groups, imputations=imputations)


def read_data(path: object, target: str, reading: Reading, settings: FitSettings) -> TableData:
    """Read a table, split and encode it."""
    if not settings.stream:
        table = read_table(path, decimal=reading.decimal, words=reading.categories, spelled=[target])
        return split_and_encode(path, table, target, reading, settings)
    if reading.known:
        raise TableError("`stream` does not read targets that are known in part: leave `stream` away, or take a sample")
    if not isinstance(path, str | os.PathLike):
        raise TableError("`stream` reads files in pieces, and a data frame is in memory already: leave `stream` away")
    said: dict[str, Any] = {"drop": reading.drop, "categories": reading.categories, "decimal": reading.decimal}
    streamed = open_stream(Path(path), target, **said, seed=settings.seed)
    return split_and_encode(path, streamed.table, target, reading, settings, streamed)


def split_and_encode(
    path: object,
    table: Table,
    target: str,
    reading: Reading,
    settings: FitSettings,
    streamed: StreamedTable | None = None,
) -> TableData:
    """Split and encode rows of a table."""
    table, reading = _with_labels(table, target, reading)
    table = dataclasses.replace(table, frame=with_ends(table.frame, target, reading.known))
    frame, known = _with_target(table.frame, target)
    rows = (np.arange(len(known)) if streamed is None else streamed.survey.rows)[known] + 1
    column = None if settings.split_by is None else split_column(frame, rows, target, settings, reading.dates)
    if column is not None and column.kind == "groups":
        reading = dataclasses.replace(reading, drop=(*reading.drop, column.name))
    whole = _whole_schema(frame, table, target, reading)
    other = None if settings.test is None else read_own_test(settings.test, whole)
    parts = _parts(frame, whole, column, other, settings)
    notes = [*table.notes, *_left_out(table, target), *check_parts(parts, whole, frame)]
    schema = with_statistics(whole, frame.iloc[parts.train]) if streamed is None else streamed.survey.exact(whole)
    encoded = schema.encode_inputs(frame)
    notes += table_notes(frame, whole, rows, table.padded, table.missing)
    notes += [*encoding_notes(schema, encoded), *advice(whole, settings, column)]
    notes, x, unknown = notes + task_of(schema.target).notes, encoded.x, encoded.unknown
    if other is not None:
        frame, rows, beside = other.below(frame), np.concatenate([rows, other.rows]), other.encoded(schema)
        x, unknown = np.concatenate([x, beside.x]), np.concatenate([unknown, beside.unknown])
        notes += other.notes_on(schema, beside)
    return TableData(
        name=name_of(path),
        table=table,
        frame=frame,
        rows=rows,
        schema=schema,
        x=x,
        unknown=unknown,
        notes=[*notes, *repeated_note(frame)],
        unit=reading.unit,
        streamed=streamed,
        **vars(parts),
    )


def _with_labels(table: Table, target: str, reading: Reading) -> tuple[Table, Reading]:
    """Take the cells of a target that is a class as they are spelled, and numbers among them for classes as well."""
    cells = table.frame.get(target)
    if cells is None or reading.known or not is_class(cells, reading.task):
        return table, reading
    is_named = reading.task is None and is_words(cells)
    return table.with_labels(target), reading if is_named else dataclasses.replace(reading, task="classification")


def _whole_schema(frame: pd.DataFrame, table: Table, target: str, reading: Reading) -> TableSchema:
    """Infer the schema of all rows."""
    schema = infer_schema(frame, target, reading)
    goal = dataclasses.replace(schema.target, labels=_type_of_labels(table, schema.target))
    return dataclasses.replace(schema, target=goal, decimal=table.decimal, marks=table.marks)


def _type_of_labels(table: Table, target: Target) -> Labels | None:
    """Find what the classes are in the table, where they are no texts."""
    cells = table.spelled.get(target.name)
    if cells is None or not target.classes:
        return None
    held = cells.cat.categories if isinstance(cells.dtype, pd.CategoricalDtype) else cells
    kind = pd.api.types.infer_dtype(held, skipna=True)
    return cast(Labels, kind) if kind in LABELS else None


def _left_out(table: Table, target: str) -> list[str]:
    """Say how many rows have no target, and the words that stand there for none."""
    cells = table.frame[target]
    return without_target(int(cells.count()), len(cells), target, _words_for_none(table, target))


def _words_for_none(table: Table, target: str) -> list[str]:
    """Texts that the target has in rows where it is not known."""
    cells = table.spelled.get(target)
    if cells is None:
        return []
    words = cells[table.frame[target].isna()].dropna().astype(str).str.strip()
    return [*words[words != ""].unique()]


def _with_target(frame: pd.DataFrame, target: str) -> tuple[pd.DataFrame, np.ndarray]:
    """The rows whose target is known, and which these are."""
    check_present(frame.columns, [target])
    known = frame[target].notna().to_numpy()
    check_known(known, target)
    return (frame if known.all() else frame[known]).reset_index(drop=True), known  # a selection is a copy


def _parts(
    frame: pd.DataFrame, schema: TableSchema, column: SplitColumn | None, other: OwnTest | None, settings: FitSettings
) -> Parts:
    """Tell the rows that train from those that test: of a table of the user's own, by a column, or at random."""
    if other is not None:
        return Parts(np.arange(len(frame)), np.arange(len(other.frame)) + len(frame), other.words)
    return at_random(frame, schema, settings) if column is None else column.parts(settings)
