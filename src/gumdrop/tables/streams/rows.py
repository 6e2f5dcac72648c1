"""A table that does not fit into memory: a sample of it decides, tests and watches, and all other rows train."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from gumdrop.tables.errors import TableError
from gumdrop.tables.notes import without_target
from gumdrop.tables.reading.frame import read_texts
from gumdrop.tables.reading.source import sha256
from gumdrop.tables.reading.spelling import Decimal
from gumdrop.tables.reading.table import Table
from gumdrop.tables.schema.schema import TableSchema
from gumdrop.tables.streams.pieces import Piece, TableStream
from gumdrop.tables.streams.survey import SAMPLE_ROWS, Survey, is_in, survey
from gumdrop.training.processes.group import process_group

ROWS_OF_AN_EPOCH = 2**20
PIECES_OF_A_PROCESS = 4


class StreamedRows(IterableDataset[tuple[Tensor, Tensor]]):
    """Encoded batches of a table, in an order of its own for each pass, for `gumdrop.training.fit`.

    Pieces are read in random order, and rows are shuffled within a window of some hundred thousand. Under torchrun
    each process reads pieces of its own, or its share of each piece where there are few. A pass is cut into epochs of
    about a million rows, so that a long one can be watched and continued. The sample of the survey is left out.
    """

    def __init__(
        self,
        stream: TableStream,
        schema: TableSchema,
        summary: Survey,
        *,
        batch_size: int = 1024,
        window: int = 2**18,
        seed: int = 0,
    ) -> None:
        self._stream, self._schema, self._left_out = stream, schema, summary.rows
        self.num_rows, self._window, self._seed = summary.num_known, window, seed
        self._group = process_group()
        self._batch_size = max(1, batch_size // self._group.world_size)
        self._by_piece = len(stream.pieces) >= PIECES_OF_A_PROCESS * self._group.world_size
        most = len(stream.pieces) // (PIECES_OF_A_PROCESS * self._group.world_size) if self._by_piece else 1
        self.epochs_of_a_pass = max(1, min(self.num_rows // ROWS_OF_AN_EPOCH, most))
        self._epoch = 0

    def __len__(self) -> int:
        """Number of batches of an epoch; rows that do not fill one are left to the next pass."""
        rows = self.num_rows / self.epochs_of_a_pass / self._group.world_size
        return max(1, int(rows / self._batch_size))

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, from 1, that the next iteration gives."""
        self._epoch = epoch - 1

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Give the batches of this process."""
        order, rng = self._order()
        batches = _windowed(map(self._encode, self._frames(order)), self._batch_size, self._window, rng)
        for _, batch in zip(range(len(self)), batches, strict=False):
            yield batch

    def _order(self) -> tuple[list[Piece], np.random.Generator]:
        number, part = divmod(self._epoch, self.epochs_of_a_pass)
        shuffled = np.random.default_rng([self._seed, number]).permutation(len(self._stream.pieces))
        order = np.array_split(shuffled, self.epochs_of_a_pass)[part]
        if self._by_piece:
            order = order[self._group.rank :: self._group.world_size]
        rng = np.random.default_rng([self._seed, self._epoch, self._group.rank])
        return [self._stream.pieces[i] for i in order], rng

    def _frames(self, order: Sequence[Piece]) -> Iterator[pd.DataFrame]:
        columns = [*(column.name for column in self._schema.columns), self._schema.target.name]
        for piece in order:
            for first_row, frame in self._stream.read(piece, columns):
                wanted = ~is_in(self._left_out, first_row, len(frame)) & frame[columns[-1]].notna().to_numpy()
                if not self._by_piece:
                    wanted &= np.arange(len(frame)) % self._group.world_size == self._group.rank
                if wanted.any():
                    yield read_texts(frame[wanted], **self._schema.reading)[0]

    def _encode(self, frame: pd.DataFrame) -> tuple[Tensor, Tensor]:
        x = torch.from_numpy(self._schema.encode_inputs(frame).x)
        y = torch.from_numpy(self._schema.encode_target(frame))
        return x, y.float() if y.is_floating_point() else y


def _windowed(
    parts: Iterator[tuple[Tensor, Tensor]], batch_size: int, window: int, rng: np.random.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Gather rows, shuffle them, and give all but the last half of the window, which is mixed with what follows."""
    held: list[tuple[Tensor, Tensor]] = []
    count = 0
    for part in parts:
        held.append(part)
        count += len(part[0])
        if count >= max(window, 2 * batch_size):
            x, y = _shuffled(held, rng)
            given = count // 2 // batch_size * batch_size
            yield from zip(x[:given].split(batch_size), y[:given].split(batch_size), strict=True)
            held, count = [(x[given:].clone(), y[given:].clone())], count - given
    if held:
        x, y = _shuffled(held, rng)
        yield from zip(x.split(batch_size), y.split(batch_size), strict=True)


def _shuffled(held: list[tuple[Tensor, Tensor]], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    x, y = (torch.cat(columns) for columns in zip(*held, strict=True))
    order = torch.from_numpy(rng.permutation(len(x)))
    return x[order], y[order]


@dataclass(frozen=True, eq=False)
class StreamedTable:
    """A table that is read in pieces, and what one pass over it found."""

    stream: TableStream
    """The pieces."""
    survey: Survey
    """Statistics, and the sample."""
    table: Table
    """The sample, as a table of its own."""


def open_stream(
    path: Path,
    target: str,
    *,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    decimal: Decimal | None = None,
    seed: int = 0,
) -> StreamedTable:
    """Read a table once, in pieces."""
    stream = TableStream(path, [target])
    summary = survey(stream, target, drop=drop, categories=categories, sample_rows=SAMPLE_ROWS, seed=seed)
    if summary.num_known < 10:
        raise TableError(
            f"{path} has {stream.num_rows:,} rows, of which a sample of {len(summary.sample):,} decides on the columns "
            f"and tests, and {summary.num_known:,} are left to train on: read it as a whole, without --stream"
        )
    checksum = hashlib.sha256()
    for file in dict.fromkeys(piece.path for piece in stream.pieces):
        checksum.update(bytes.fromhex(sha256(file)))
    rows = f"{summary.num_known:,} rows train, as they are read in pieces"
    sample = f"a sample of {len(summary.sample):,} others decides on the columns, tests and watches"
    missing = without_target(summary.num_known + len(summary.sample), stream.num_rows, target)
    frame, marks = read_texts(summary.sample, decimal, categories)
    notes = [*stream.notes, *marks.notes, *missing, f"{rows}; {sample}"]
    table = Table(frame, marks.decimal, notes, checksum.hexdigest(), marks=marks.columns)
    return StreamedTable(stream, summary, table)
