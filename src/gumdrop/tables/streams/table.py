"""Fit a table that does not fit into memory: a sample of it decides, tests and watches, and all other rows train."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from gumdrop.ensembles import EnsembleFit, Rows
from gumdrop.ensembles.streaming import fit_streamed_ensemble, stream_schedule
from gumdrop.tables.errors import TableError
from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.tables.reading.table import Table
from gumdrop.tables.schema.schema import TableSchema
from gumdrop.tables.streams.pieces import TableStream
from gumdrop.tables.streams.rows import StreamedRows
from gumdrop.tables.streams.survey import SAMPLE_ROWS, Survey, survey
from gumdrop.tables.task import task_of

MOST_WATCHED = 4096
FEWEST_ROWS = 10


@dataclass(frozen=True, eq=False)
class StreamedTable:
    """A table that is read in pieces, and what one pass over it found."""

    stream: TableStream
    """The pieces."""
    survey: Survey
    """Statistics, and the sample."""
    table: Table
    """The sample, as a table of its own."""

    def schedule(self, settings: FitSettings) -> tuple[int, int]:
        """Batch size and passes."""
        return stream_schedule(self.survey.num_known, batch_size=settings.batch_size, passes=settings.epochs)

    def fit(
        self,
        make: Callable[[], nn.Module],
        schema: TableSchema,
        watched: Rows,
        settings: FitSettings,
        *,
        checkpoint: Path,
        progress: bool | str,
    ) -> EnsembleFit:
        """Train an ensemble on all rows but the sample."""
        batch_size, _ = self.schedule(settings)
        rows = StreamedRows(
            self.stream,
            schema,
            left_out=self.survey.rows,
            num_rows=self.survey.num_known,
            batch_size=batch_size,
            seed=settings.seed,
        )
        task = task_of(schema.target)
        return fit_streamed_ensemble(
            make,
            rows,
            watched,
            settings.ensemble(),
            task.likelihood,
            scale=task.scale,
            checkpoint=checkpoint,
            progress=progress,
        )


def open_stream(path: str, target: str, settings: FitSettings, *, drop: Sequence[str] = ()) -> StreamedTable:
    """Read a table once, in pieces."""
    stream = TableStream(path)
    found = survey(stream, target, drop=drop, sample_rows=SAMPLE_ROWS, seed=settings.seed)
    if found.num_known < FEWEST_ROWS:
        raise TableError(
            f"{path} has {stream.num_rows:,} rows, of which a sample of {len(found.sample):,} decides on the columns "
            f"and tests, and {found.num_known:,} are left to train on: read it as a whole, without --stream"
        )
    checksum = hashlib.sha256()
    for place in dict.fromkeys(piece.path for piece in stream.pieces):
        with place.open("rb") as file:
            checksum.update(hashlib.file_digest(file, "sha256").digest())
    rows = f"{found.num_known:,} rows train, as they are read in pieces"
    sample = f"a sample of {len(found.sample):,} others decides on the columns, tests and watches"
    notes = [*stream.notes, f"{rows}; {sample}"]
    return StreamedTable(stream, found, Table(found.sample, None, notes, checksum.hexdigest()))
