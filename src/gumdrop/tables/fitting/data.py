"""The two kinds of data that a fit trains on: a table in memory, and one that is read in pieces."""

import functools
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from gumdrop.ensembles import Architecture, Build, EnsembleFit, Rows, choose, fit, schedule
from gumdrop.ensembles.streaming import STREAMED
from gumdrop.tables.cells import completer
from gumdrop.tables.errors import TableError
from gumdrop.tables.fitting.encoding import Split, split_and_encode
from gumdrop.tables.fitting.settings import FitSettings, Reading
from gumdrop.tables.reading.table import read_table
from gumdrop.tables.schema.inference import with_statistics
from gumdrop.tables.streams.table import MOST_WATCHED, StreamedTable, open_stream
from gumdrop.tables.task import task_of


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
        """Train an ensemble on the training part; noise is beside what is drawn for unknown cells."""
        task = task_of(self.schema.target)
        return fit(
            build,
            self._rows(settings),
            settings.ensemble(),
            task.likelihood,
            architecture=architecture,
            scale=task.scale,
            checkpoint=checkpoint,
            progress=progress,
        )

    def choose(self, build: Build, settings: FitSettings, progress: bool | str) -> Architecture:
        """Find the kind of networks by held-out rows of the training part."""
        task = task_of(self.schema.target)
        return choose(
            build, self._rows(settings), settings.ensemble(), task.likelihood, scale=task.scale, progress=progress
        )

    def _rows(self, settings: FitSettings) -> Rows:
        groups, versions = None if self.together is None else torch.from_numpy(self.together), None
        if self.unknown[self.train].any():
            donors = self.background(settings.num_background)
            versions = completer(self.marked(self.train, donors), donors)
        return Rows(*self.part(self.train), groups=groups, versions=versions)


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
        x, y = self.part(self.train[:MOST_WATCHED])
        watched = Rows(x, y.float() if y.is_floating_point() else y)
        return self.streamed.fit(make, self.schema, watched, settings, checkpoint=checkpoint, progress=progress)

    def choose(self, build: Build, settings: FitSettings, progress: bool | str) -> Architecture:
        """Give the kind that all streams have."""
        return Architecture(STREAMED)


def read_data(path: object, target: str, reading: Reading, settings: FitSettings) -> TableData:
    """Read a table, split and encode it."""
    if not settings.stream:
        table = read_table(path, decimal=reading.decimal)
        numbers = np.arange(1, len(table.frame) + 1)
        return MemoryData(**vars(split_and_encode(path, table, numbers, target, reading, settings, with_statistics)))
    if not isinstance(path, str | os.PathLike):
        raise TableError("`stream` reads files in pieces, and a data frame is in memory already: leave `stream` away")
    streamed = open_stream(os.fspath(path), target, settings, drop=reading.drop)
    numbers, exact = streamed.survey.rows + 1, streamed.survey.exact
    found = split_and_encode(path, streamed.table, numbers, target, reading, settings, lambda schema, _: exact(schema))
    return StreamedData(**vars(found), streamed=streamed)
