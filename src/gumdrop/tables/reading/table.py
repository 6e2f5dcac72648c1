"""Read a table from a file or from standard input, and refuse one that is no table, in words that help."""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import io
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd

from gumdrop.tables.errors import MISSING, STDIN, TableError, check_unique
from gumdrop.tables.reading.numbers import Decimal, Spelling, spelled_numbers, spelling_of

__all__ = ["LABELS_NOTE", "ROW_LABELS", "Table", "read_table", "tidy", "without_row_labels"]


MISSING_SPELLINGS = ["?", "-", ".", "na", "Na", "N.A.", "n.a.", "NONE", "none"]
"""What counts as missing, beside the spellings of pandas."""
MOST_CELLS = 2**31
"""Cells of a Parquet file that are read at once, some 16 GB; its header may claim any number."""
ROW_LABELS = re.compile(r"__index_level_\d+__")
"""Columns in which pandas writes row labels without a name."""
LABELS_NOTE = "the row labels that pandas wrote are left out, as they have no name"
EXACT = 2**53
"""From here on, a float64 does not hold every integer."""
_GZIP, _PARQUET, _ZIP = b"\x1f\x8b", b"PAR1", b"PK\x03\x04"


@dataclass(frozen=True, eq=False)
class Table:
    """A table that was read."""

    frame: pd.DataFrame
    """Columns of numbers and of text, rows in the order of the file."""
    decimal: Decimal | None
    """The decimal mark that the numbers with marks were read with; None if there were none."""
    notes: list[str]
    """A sentence for each column whose numbers have marks."""
    sha256: str
    """Checksum of the file."""


def read_table(path: str | Path, *, decimal: Decimal | None = None) -> Table:
    """Read a table from a CSV file, plain or gzipped, from a Parquet file, or from standard input.

    The separator of a CSV file (comma, semicolon or tab) is the commonest of the three in the header line. Blanks
    around names and values are dropped; empty cells and the usual spellings (NA, NaN, None, null, ?, -) are missing.
    Booleans stay text, in the spelling of the file. A column without a name is called `Unnamed: POSITION`. Numbers
    with decimal commas, thousands marks, currencies or per cent signs are read where the file leaves no doubt; a
    column that leaves one stays text.

    Args:
        path: File, with a header line in UTF-8 if it is CSV; `-` for standard input. What is gzip or Parquet is
            known by its first bytes.
        decimal: The decimal mark of columns that fit both marks, such as one that holds 1,234 alone; if None that of
            the other columns, where these agree.

    Returns:
        The table.

    Raises:
        TableError: There is no such file, or it has no rows, repeats a column name, has a row with too many
            or too few cells, is not UTF-8 text, or is Parquet and the library for it is not installed.
    """
    name = "standard input" if str(path) == STDIN else str(path)
    source = sys.stdin.buffer.read() if str(path) == STDIN else Path(path)
    if isinstance(source, Path) and not source.is_file():
        raise TableError(f"{path} is {'a folder' if source.is_dir() else 'not there'}: name a CSV or Parquet file")
    start = _start(source)
    try:
        if start.startswith(_ZIP):
            raise TableError(f"{name} is a spreadsheet or a zip archive: save it as CSV (UTF-8) and try again")
        if start.startswith(_PARQUET):
            frame, notes = _read_parquet(source, name)
            return Table(tidy(frame), None, notes, _sha256(source))
        return _read_csv(source, name, decimal)
    except UnicodeError as error:
        code = "utf-16" if start[:2] in {b"\xff\xfe", b"\xfe\xff"} else "latin1"
        raise TableError(
            f"{name} is not UTF-8 text ({error}): save it as UTF-8, or convert it: "
            f"iconv -f {code} -t utf-8 OLD.csv > NEW.csv"
        ) from error
    except (csv.Error, pd.errors.ParserError, OSError, EOFError, zlib.error) as error:
        raise TableError(f"{name} cannot be read ({error}): save it as CSV again") from error


def _start(source: Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source[:4]
    with source.open("rb") as file:
        return file.read(4)


@contextlib.contextmanager
def _open(source: Path | bytes) -> Iterator[TextIO]:
    gzipped = _start(source).startswith(_GZIP)
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(io.BytesIO(source) if isinstance(source, bytes) else source.open("rb"))
        file: Any = stack.enter_context(gzip.open(raw)) if gzipped else raw
        yield stack.enter_context(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""))


def _read_parquet(source: Path | bytes, name: str) -> tuple[pd.DataFrame, list[str]]:
    try:
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise TableError(
            f"{name} is a Parquet file, which needs pyarrow: pip install 'gumdrop[parquet]', or save it as CSV"
        ) from error
    try:
        with pq.ParquetFile(io.BytesIO(source) if isinstance(source, bytes) else source) as file:
            frame = _columns_of(file, name)
    except TableError:
        raise
    except Exception as error:  # whatever pyarrow and pandas raise for a damaged file
        raise TableError(f"{name} cannot be read ({error}): write the Parquet file again") from error
    frame.columns = [str(column).strip() for column in frame.columns]
    frame, notes = without_row_labels(frame)
    check_unique(list(frame.columns))
    if frame.empty:
        raise TableError(f"{name} has no rows or no columns")
    for column in frame.columns:
        held = frame[column].dtype == object and frame[column].map(pd.api.types.is_list_like)
        if np.any(held):  # lists become texts, which are refused where the column is used
            frame[column] = frame[column].map(str, na_action="ignore")
    return frame, notes


def _columns_of(file: Any, name: str) -> pd.DataFrame:
    """Read all columns of a Parquet file, also those that pandas keeps as row labels."""
    import pyarrow as pa

    rows, cells = file.metadata.num_rows, file.metadata.num_rows * file.metadata.num_columns
    if not 0 <= cells <= MOST_CELLS:
        raise TableError(
            f"{name} has {rows:,} rows of {file.metadata.num_columns} columns by its header, too many to read at once: "
            "read it in pieces with --stream, or write the Parquet file again"
        )
    table = file.read()
    if len(table) != rows:
        raise TableError(f"{name} has {len(table):,} rows, and {rows:,} by its header: write the Parquet file again")
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    for column, held in zip(table.schema, table.columns, strict=True):
        if pa.types.is_integer(column.type) and held.null_count:  # which would be floats
            kind = pd.UInt64Dtype() if column.type == pa.uint64() else pd.Int64Dtype()
            frame[column.name] = held.to_pandas(types_mapper={column.type: kind}.get)
    return frame


def without_row_labels(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Leave out the row labels without a name that pandas writes beside the columns; with a name they are columns.

    Args:
        frame: All columns of a Parquet or Arrow file.

    Returns:
        The table, and a note if something was left out.
    """
    labels = [name for name in frame.columns if ROW_LABELS.fullmatch(name)]
    return frame.drop(columns=labels), [LABELS_NOTE] * bool(labels)


def _read_csv(source: Path | bytes, name: str, decimal: Decimal | None) -> Table:
    separator, names = _survey(source, name)
    frame = _parse(source, separator, names)
    # pandas makes one value of TRUE, True and true; such columns are read again as they are spelled.
    spelled = [column for column in names if not _is_numeric(frame[column])]
    if spelled:
        frame[spelled] = _parse(source, separator, names, usecols=spelled, dtype=str)
    frame = tidy(frame)
    for column in _long_numbers(frame):
        integers = _integers(_parse(source, separator, names, usecols=[column], dtype=str)[column].str.strip())
        frame[column] = frame[column] if integers is None else integers
    spellings = {column: _spelling(frame[column]) for column in spelled}
    marked = {column: spelling for column, spelling in spellings.items() if spelling is not None}
    decimal = decimal or _decimal_of(marked.values())
    frame, notes = _with_numbers(frame, marked, decimal)
    if decimal == ",":  # then 1.234 is a thousand and more, which pandas took for a number near one
        floats = [column for column in names if frame[column].dtype == float and column not in marked]
        again = tidy(_parse(source, separator, names, usecols=floats, dtype=str)) if floats else frame[[]]
        grouped = {c: s for c in floats if (s := _spelling(again[c])) and "," in s.decimals and not s.same}
        read, more = _with_numbers(again, grouped, decimal)
        frame[list(grouped)], notes = read[list(grouped)], notes + more
    return Table(frame, decimal, notes, _sha256(source))


def _long_numbers(frame: pd.DataFrame) -> list[str]:
    """Columns of floats so large that integers may have lost digits: missing cells make pandas take floats."""
    return [name for name in frame.columns if frame[name].dtype == float and frame[name].abs().max() >= EXACT]


def _integers(text: pd.Series) -> Any:
    """Read texts, stripped, as integers of 64 bits that may be missing; None unless all of them are such."""
    known = text.dropna()
    if not (known.str.fullmatch(r"[+-]?\d+").all() and known.map(int).between(-(2**63), 2**63 - 1).all()):
        return None
    return pd.array([None if pd.isna(cell) else int(cell) for cell in text], dtype="Int64")


def _sha256(source: Path | bytes) -> str:
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_numeric(column: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def tidy(frame: pd.DataFrame) -> pd.DataFrame:
    """Take blanks from around texts, and those that say that they are missing for missing.

    Args:
        frame: A table; changed in place.

    Returns:
        The table.
    """
    for name in frame.columns:
        if frame[name].dtype == object or pd.api.types.is_string_dtype(frame[name]):
            if all(isinstance(value, str) for value in frame[name].dropna().unique()):
                text = frame[name].str.strip()
                frame[name] = text.mask(text.isin([MISSING, *MISSING_SPELLINGS]))
    return frame


def _spelling(column: pd.Series) -> Spelling | None:
    return spelling_of(map(str, column.dropna().unique()))


def _decimal_of(spellings: Any) -> Decimal | None:
    """The decimal mark that some column proves; None if none does, or if they contradict each other."""
    proven: set[Decimal] = {next(iter(each.decimals)) for each in spellings if len(each.decimals) == 1}
    return proven.pop() if len(proven) == 1 else None


def _with_numbers(
    frame: pd.DataFrame, marked: dict[str, Spelling], decimal: Decimal | None
) -> tuple[pd.DataFrame, list[str]]:
    """Read the columns whose numbers have marks, where the mark is known."""
    notes = []
    for name, spelling in marked.items():
        mark = next(iter(spelling.decimals)) if len(spelling.decimals) == 1 else "." if spelling.same else decimal
        if mark is None:
            continue
        values = spelled_numbers(frame[name], mark)
        texts = frame[name].dropna()
        changed = texts[pd.Series(pd.to_numeric(texts, errors="coerce"), index=texts.index).isna()]
        example = changed.index[0] if len(changed) else values.first_valid_index()
        notes.append(f"numbers of '{name}' are read as in {frame[name].loc[example]!r} = {values.loc[example]:.12g}")
        frame = frame.assign(**{name: values})
    return frame, notes


def _parse(source: Path | bytes, separator: str, names: list[str], **options: Any) -> pd.DataFrame:
    with _open(source) as file:
        frame: pd.DataFrame = pd.read_csv(
            file,
            sep=separator,
            header=0,
            names=names,
            index_col=False,
            skipinitialspace=True,
            na_values=MISSING_SPELLINGS,
            low_memory=False,  # one type per column, not one per chunk of it
            **options,
        )
    return frame


def _survey(source: Path | bytes, name: str) -> tuple[str, list[str]]:
    """Separator and column names; every row has one cell per name, or this raises."""
    with _open(source) as file:
        header = next((line for line in file if line.strip()), "")
    unquoted = re.sub(r'"[^"]*"', "", header)
    separator = max(",;\t", key=unquoted.count)
    with _open(source) as file:
        reader = csv.reader(file, delimiter=separator, skipinitialspace=True)
        rows = (row for row in reader if len(row) > 1 or any(cell.strip() for cell in row))
        names = [cell.strip() or f"Unnamed: {i}" for i, cell in enumerate(next(rows, []))]
        check_unique(names)
        count = 0
        for row in rows:
            count += 1
            if len(row) != len(names):
                raise TableError(
                    f"line {reader.line_num} of {name} has {len(row)} cells, its header {len(names)}: "
                    "correct that line, or put quotes around values that hold the separator"
                )
    if not count:
        raise TableError(f"{name} is empty or has no rows: it needs a header line and rows below it")
    return separator, names
