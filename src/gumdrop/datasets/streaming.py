"""Tables larger than memory: Parquet and Arrow files, read in pieces, shuffled in a window, shared among processes.

References:
    Chan, Golub & LeVeque 1983, "Algorithms for Computing the Sample Variance" (The American Statistician 37), for the
    statistics of one pass.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from gumdrop.datasets.dates import order_of
from gumdrop.datasets.schema import TableSchema, check_present
from gumdrop.datasets.tabular import LABELS_NOTE, ROW_LABELS, TableError, check_unique, tidy
from gumdrop.training.distributed import ranks

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SAMPLE_ROWS", "STREAMED", "Moments", "StreamedRows", "Survey", "TableStream", "survey"]

STREAMED = (".parquet", ".pq", ".arrow", ".feather")
"""Endings of files that can be read in pieces."""
ROWS_AT_ONCE = 65536
SAMPLE_ROWS = 20_000
"""Rows that decide on the columns, test and watch."""
MOST_LABELS, MOST_CODES = 1000, 50
"""Different texts of a column, and numbers of a target, that are all to be in the sample."""
WINDOW_ROWS = 2**18
ROWS_OF_AN_EPOCH = 2**20
PIECES_OF_A_PROCESS = 4


@dataclass(frozen=True)
class Piece:
    """Rows that lie together in a file: a row group of Parquet, a record batch of Arrow."""

    path: Path
    index: int
    first_row: int
    """Number of its first row in the whole table, from 0."""
    num_rows: int


class TableStream:
    """A table in one or several files, of which a piece is in memory at a time.

    Args:
        path: A Parquet or Arrow file, or a folder of such files, which are read in the order of their names.

    Raises:
        TableError: If there is no such file, one is cut short, or columns differ from file to file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows.parquet"
        >>> pd.DataFrame({"x": range(10)}).to_parquet(path, row_group_size=4)
        >>> stream = TableStream(path)
        >>> stream.num_rows, [piece.num_rows for piece in stream.pieces]
        (10, [4, 4, 2])
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        files = (
            sorted(each for each in self.path.iterdir() if each.suffix in STREAMED)
            if self.path.is_dir()
            else ([self.path])
        )
        if not files or not all(file.is_file() for file in files):
            raise TableError(f"{path} is no file, nor a folder with files that end in {', '.join(STREAMED)}")
        if strange := next((file.name for file in files if file.suffix not in STREAMED), None):
            raise TableError(
                f"{strange} is neither Parquet nor Arrow by its ending ({', '.join(STREAMED)}), and only these can be "
                "read in pieces: write it in one of these formats, or read it as a whole"
            )
        self.pieces: list[Piece] = []
        self._types: dict[str, str] = {}
        self._whole: set[str] = set()
        first_row = 0
        for file in files:
            schema, sizes = _layout(file)
            self._check_types(file, files[0], schema)
            for index, size in enumerate(sizes):
                self.pieces.append(Piece(file, index, first_row, size))
                first_row += size
        self.num_rows = first_row
        if not self.num_rows:
            raise TableError(f"{path} has no rows")

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [name for name in self._types if not ROW_LABELS.fullmatch(name)]

    @property
    def notes(self) -> list[str]:
        """What a reader should know: whether something is left out."""
        return [LABELS_NOTE] * (len(self.names) < len(self._types))

    def dtype(self, name: str) -> str:
        """Find the type of pandas that holds a column, missing cells and all, whichever piece they are in.

        Args:
            name: Name of the column.

        Returns:
            ``"Int64"``, ``"float64"`` or ``"string"``.
        """
        if self._types[name] != "numbers":
            return "string"
        return "Int64" if name in self._whole else "float64"

    def _check_types(self, file: Path, first: Path, schema: pa.Schema) -> None:
        check_unique(schema.names)
        types = {field.name: _kind(field.type) for field in schema}
        whole = {field.name for field in schema if _is_whole(field.type)}
        self._whole = self._whole & whole if self._types else whole
        self._types = self._types or types
        for name in self._types | types:
            here, before = types.get(name), self._types.get(name)
            if here != before:
                raise TableError(
                    f"column {name!r} is {here or 'absent'} in {file.name} and {before or 'absent'} in {first.name}: "
                    "write the files again with one type for each column"
                )

    def read(self, piece: Piece, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pd.DataFrame]]:
        """Read a piece.

        Args:
            piece: One of `pieces`.
            columns: Columns to read; all of `names` if None.

        Yields:
            Number of the first row in the whole table, and some rows, numbered as there; what is no number is text,
            tidied as in a table that is read as a whole.

        Raises:
            TableError: If the file cannot be read, or has not as many rows as it says.
        """
        row = piece.first_row
        with _readable(piece.path):
            for batch in _batches(piece, self.names if columns is None else list(columns)):
                frame = batch.to_pandas(date_as_object=False, ignore_metadata=True)
                for name in frame.columns:
                    if self._types[name] == "numbers":
                        if frame[name].dtype == object:  # decimal numbers
                            frame[name] = frame[name].astype(float)
                    else:
                        frame[name] = frame[name].astype(object).map(str, na_action="ignore")
                frame.index = pd.RangeIndex(row, row + len(frame))
                yield row, tidy(frame)
                row += len(frame)
            if row != piece.first_row + piece.num_rows:
                raise TableError(
                    f"{piece.path} has {row - piece.first_row:,} rows in part {piece.index + 1}, and by its header "
                    f"{piece.num_rows:,}: copy it or write it again"
                )


def _kind(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    return str(kind)


def _is_whole(kind: pa.DataType) -> bool:
    """Whether all numbers of a type are whole, and fit into 64 bits with a sign."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) and kind != pa.uint64())


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say in our words what a file lacks."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        raise TableError(f"{path} needs pyarrow: pip install 'gumdrop[parquet]'") from error
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise TableError(
            f"{path} is of a kind that pyarrow {pa.__version__} cannot read ({error}): update it"
        ) from error
    except TableError:
        raise
    except Exception as error:  # whatever pyarrow raises for a damaged file
        raise TableError(f"{path} is cut short or damaged ({error}): copy it or write it again") from error


def _is_parquet(path: Path) -> bool:
    return path.suffix in {".parquet", ".pq"}


def _layout(path: Path) -> tuple[pa.Schema, list[int]]:
    """Columns of a file, and the rows of its pieces."""
    with _readable(path):
        import pyarrow as pa
        import pyarrow.parquet as pq

        if _is_parquet(path):
            with pq.ParquetFile(path) as file:
                groups = file.metadata
                sizes = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
                if min(sizes, default=0) < 0 or sum(sizes) != groups.num_rows:
                    raise OSError(f"its header says {groups.num_rows:,} rows, and those of its parts {sum(sizes):,}")
                return file.schema_arrow, sizes
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            return reader.schema, [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]


def _batches(piece: Piece, columns: list[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if _is_parquet(piece.path):
        with pq.ParquetFile(piece.path) as file:
            yield from file.iter_batches(ROWS_AT_ONCE, [piece.index], columns)
        return
    with pa.memory_map(str(piece.path)) as source, pa.ipc.open_file(source) as reader:
        batch = reader.get_batch(piece.index).select(columns)
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield batch.slice(start, ROWS_AT_ONCE)


@dataclass(frozen=True)
class Moments:
    """Count, mean, sum of squared deviations and range of numbers, which those of other numbers can be added to.

    Example:
        >>> both = Moments.of(np.array([1.0, 2.0])) + Moments.of(np.array([6.0, np.nan]))
        >>> both.count, both.mean, both.squares, both.most
        (3, 3.0, 14.0, 6.0)
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    least: float = math.inf
    most: float = -math.inf

    @classmethod
    def of(cls, values: np.ndarray) -> Moments:
        """Take those of an array, without what is missing."""
        known = values[~np.isnan(values)]
        if not len(known):
            return cls()
        mean = float(known.mean())
        return cls(len(known), mean, float(np.square(known - mean).sum()), float(known.min()), float(known.max()))

    def __add__(self, other: Moments) -> Moments:
        """Those of all numbers together."""
        count = self.count + other.count
        if not self.count or not other.count:
            return self if self.count else other
        apart = other.mean - self.mean
        mean = self.mean + apart * other.count / count
        squares = self.squares + other.squares + apart**2 * self.count * other.count / count
        return Moments(count, mean, squares, min(self.least, other.least), max(self.most, other.most))

    @property
    def statistics(self) -> dict[str, float]:
        """Mean, standard deviation (1 where all are the same) and range, by the names that a column has for them."""
        std = math.sqrt(self.squares / self.count) if self.least < self.most else 1.0
        return {"mean": self.mean, "std": std, "least": self.least, "most": self.most}


@dataclass(frozen=True, eq=False)
class Survey:
    """What one pass over a table finds."""

    sample: pd.DataFrame
    """Rows drawn at random, and the first with each label of each column of text."""
    rows: np.ndarray
    """Their numbers in the table, from 0, ascending."""
    moments: dict[str, Moments]
    """Of the columns of numbers, over the rows that are not in the sample."""
    num_known: int
    """Rows outside the sample whose target is known."""

    def exact(self, schema: TableSchema) -> TableSchema:
        """Give a schema that was inferred from the sample the statistics of all rows.

        Args:
            schema: Schema of the sample. Medians, dates, and categories beyond the first thousand of
                a column, stay those of the sample.

        Returns:
            The schema to train with.
        """
        target = schema.target
        if target.task == "regression":
            target = _with_statistics(target, self.moments[target.name])
        columns = [
            _with_statistics(column, self.moments.get(column.name, Moments())) if hasattr(column, "median") else column
            for column in schema.columns
        ]
        return dataclasses.replace(schema, columns=tuple(columns), target=target)


def _with_statistics(column: Any, moments: Moments) -> Any:
    known = {field.name for field in dataclasses.fields(column)}
    found = moments.statistics if moments.count else {}
    return dataclasses.replace(column, **{name: value for name, value in found.items() if name in known})


def survey(
    stream: TableStream,
    target: str,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    sample_rows: int = SAMPLE_ROWS,
    seed: int = 0,
) -> Survey:
    """Read a table once, for its statistics and a sample to decide on its columns and to test with.

    Args:
        stream: The table.
        target: Column to predict; rows that lack it are left out.
        columns: Columns to look at beside the target; all if None.
        drop: Columns whose labels nobody needs in the sample.
        sample_rows: Rows of the sample, at most half of the table.
        seed: Seed of the sample.

    Returns:
        What was found.

    Raises:
        TableError: If there is no such column, or a file cannot be read.
    """
    wanted = None if columns is None else [*columns, target]
    check_present(pd.DataFrame(columns=stream.names), wanted or [target])
    count = min(sample_rows, stream.num_rows // 2)
    drawn = np.sort(np.random.default_rng(seed).choice(stream.num_rows, count, replace=False))
    seen: dict[str, set[Any]] = {}
    moments: dict[str, Moments] = {}
    parts, rows, num_known = [], [], 0
    for piece in stream.pieces:
        for first_row, frame in stream.read(piece, wanted):
            known = frame[target].notna().to_numpy()
            sampled = known & _is_in(drawn, first_row, len(frame))
            for name in frame.columns:
                if name == target or not (name in drop or pd.api.types.is_numeric_dtype(frame[name])):
                    most = MOST_CODES if pd.api.types.is_numeric_dtype(frame[name]) else MOST_LABELS
                    sampled |= known & _first_of_their_kind(frame[name], seen.setdefault(name, set()), most)
            parts.append(frame[sampled])
            rows.append(first_row + np.flatnonzero(sampled))
            rest = frame[known & ~sampled]
            num_known += len(rest)
            for name in rest.columns:
                if pd.api.types.is_numeric_dtype(rest[name]):
                    values = rest[name].to_numpy(dtype=np.float64, na_value=np.nan)
                    moments[name] = moments.get(name, Moments()) + Moments.of(values)
    return Survey(pd.concat(parts, ignore_index=True), np.concatenate(rows), moments, num_known)


def _is_in(chosen: np.ndarray, first_row: int, count: int) -> np.ndarray:
    """Which of some rows that follow each other are chosen."""
    start, stop = np.searchsorted(chosen, [first_row, first_row + count])
    mask = np.zeros(count, dtype=bool)
    mask[chosen[start:stop] - first_row] = True
    return mask


def _first_of_their_kind(column: pd.Series, seen: set[Any], most: int) -> np.ndarray:
    """Rows with a value that no earlier row has, as long as there are not too many values."""
    fresh = np.zeros(len(column), dtype=bool)
    if len(seen) <= most and (pd.api.types.is_numeric_dtype(column) or order_of(column) is None):  # dates have none
        known = column.notna().to_numpy()
        values = column[known].drop_duplicates()
        new = values[~values.isin(list(seen))]
        fresh[column.index.get_indexer(new.index[: most + 1 - len(seen)])] = True
        seen.update(new)
    return fresh


class StreamedRows(IterableDataset[tuple[Tensor, Tensor]]):
    """Encoded batches of a table, in an order of its own for each pass, for `gumdrop.training.fit`.

    Pieces are read in random order, and rows are shuffled within a window of some hundred thousand. Under torchrun
    each process reads pieces of its own, or its share of each piece where there are few. A pass is cut into epochs of
    about a million rows, so that a long one can be watched and continued.

    Args:
        stream: The table.
        schema: How its rows are encoded.
        left_out: Numbers of rows to leave out, ascending: those that test.
        num_rows: Rows that are left, for the length of an epoch.
        batch_size: Rows of a batch, over all processes.
        window: Rows that are shuffled together.
        seed: Seed of the order.
    """

    def __init__(
        self,
        stream: TableStream,
        schema: TableSchema,
        *,
        left_out: np.ndarray,
        num_rows: int,
        batch_size: int = 1024,
        window: int = WINDOW_ROWS,
        seed: int = 0,
    ) -> None:
        self._stream, self._schema, self._left_out = stream, schema, left_out
        self.num_rows, self._window, self._seed = num_rows, window, seed
        self._group = ranks()
        self._batch_size = max(1, batch_size // self._group.size)
        self._by_piece = len(stream.pieces) >= PIECES_OF_A_PROCESS * self._group.size
        most = len(stream.pieces) // (PIECES_OF_A_PROCESS * self._group.size) if self._by_piece else 1
        self.epochs_of_a_pass = max(1, min(num_rows // ROWS_OF_AN_EPOCH, most))
        self._epoch = 0

    def __len__(self) -> int:
        """Number of batches of an epoch; rows that do not fill one are left to the next pass."""
        rows = self.num_rows / self.epochs_of_a_pass / self._group.size
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
            order = order[self._group.rank :: self._group.size]
        rng = np.random.default_rng([self._seed, self._epoch, self._group.rank])
        return [self._stream.pieces[i] for i in order], rng

    def _frames(self, order: Sequence[Piece]) -> Iterator[pd.DataFrame]:
        columns = [*(column.name for column in self._schema.columns), self._schema.target.name]
        for piece in order:
            for first_row, frame in self._stream.read(piece, columns):
                wanted = ~_is_in(self._left_out, first_row, len(frame)) & frame[columns[-1]].notna().to_numpy()
                if not self._by_piece:
                    wanted &= np.arange(len(frame)) % self._group.size == self._group.rank
                if wanted.any():
                    yield frame[wanted]

    def _encode(self, frame: pd.DataFrame) -> tuple[Tensor, Tensor]:
        x = torch.from_numpy(self._schema.encode_inputs(frame).x)
        return x, torch.from_numpy(self._schema.encode_target(frame))


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
