"""Tables larger than memory: Parquet and Arrow files, read in pieces, shuffled in a window, shared among processes.

References:
    Chan, Golub & LeVeque 1983, "Algorithms for Computing the Sample Variance" (The American Statistician 37), for the
    statistics of one pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from gumdrop.tables.errors import TableError, check_unique
from gumdrop.tables.reading.parquet import LABELS_NOTE, ROW_LABELS, as_pandas, whole_kind
from gumdrop.tables.reading.spelling import tidy

if TYPE_CHECKING:
    import pyarrow as pa

STREAMED = (".parquet", ".pq", ".arrow", ".feather")
"""Endings of files that can be read in pieces, in small or capital letters."""
ROWS_AT_ONCE = 65536


@dataclass(frozen=True)
class Piece:
    """Rows that lie together in a file: a row group of Parquet, a record batch of Arrow."""

    path: Path
    index: int
    first_row: int
    """Number of its first row in the whole table, from 0."""
    num_rows: int


class TableStream:
    """A table in a Parquet or Arrow file, or in a folder of them by name, of which a piece is in memory at a time.

    Texts in the columns of `labels` are never taken for missing.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows.parquet"
        >>> pd.DataFrame({"x": range(10)}).to_parquet(path, row_group_size=4)
        >>> stream = TableStream(path)
        >>> stream.num_rows, [piece.num_rows for piece in stream.pieces]
        (10, [4, 4, 2])
    """

    def __init__(self, path: str | Path, labels: Sequence[str] = ()) -> None:
        self.path, self._labels = Path(path), labels
        files = (
            sorted(each for each in self.path.iterdir() if _ending(each) in STREAMED)
            if self.path.is_dir()
            else ([self.path])
        )
        if not files or not all(file.is_file() for file in files):
            raise TableError(f"{path} is no file, nor a folder with files that end in {', '.join(STREAMED)}")
        if strange := next((file.name for file in files if _ending(file) not in STREAMED), None):
            raise TableError(
                f"{strange} is neither Parquet nor Arrow by its ending ({', '.join(STREAMED)}), and only these can be "
                "read in pieces: write it in one of these formats, or read it as a whole"
            )
        self.pieces: list[Piece] = []
        self._types: dict[str, str] = {}
        self._whole: dict[str, str] = {}
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
        """Find the type of pandas that holds a column, missing cells and all, whichever piece they are in."""
        if self._types[name] != "numbers":
            return "string"
        return self._whole.get(name, "float64")

    def _check_types(self, file: Path, first: Path, schema: pa.Schema) -> None:
        check_unique(schema.names)
        types = {field.name: _kind(field.type) for field in schema}
        whole = {field.name: str(kind) for field in schema if (kind := whole_kind(field.type))}
        self._whole = dict(self._whole.items() & whole.items()) if self._types else whole
        self._types = self._types or types
        for name in self._types | types:
            here, before = types.get(name), self._types.get(name)
            if here != before:
                raise TableError(
                    f"column {name!r} is {here or 'absent'} in {file.name} and {before or 'absent'} in {first.name}: "
                    "write the files again with one type for each column"
                )

    def read(
        self, piece: Piece, columns: Sequence[str] | None = None, *, as_written: bool = False
    ) -> Iterator[tuple[int, pd.DataFrame]]:
        """Read a piece, with blanks around texts and words for missing only as they are written."""
        row = piece.first_row
        with _readable(piece.path):
            for batch in _batches(piece, self.names if columns is None else list(columns)):
                frame = as_pandas(batch, date_as_object=False)
                for name in frame.columns:
                    if self._types[name] == "numbers":
                        if frame[name].dtype == object:  # decimal numbers
                            frame[name] = frame[name].astype(float)
                    else:
                        frame[name] = frame[name].astype(object).map(str, na_action="ignore")
                frame.index = pd.RangeIndex(row, row + len(frame))
                yield row, frame if as_written else tidy(frame, self._labels)
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


def _ending(path: Path) -> str:
    return path.suffix.lower()


def _is_parquet(path: Path) -> bool:
    return _ending(path) in {".parquet", ".pq"}


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
