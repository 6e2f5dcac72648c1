"""Where a table is read from, and its first line, which tells of an absent column before anything slow is imported."""

import contextlib
import csv
import gzip
import hashlib
import io
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from gumdrop.machine.files import check_name
from gumdrop.tables.errors import STDIN, TableError, check_present, is_unnamed, listed

GZIP, PARQUET, ZIP = b"\x1f\x8b", b"PAR1", b"PK\x03\x04"
"""How files of these kinds begin."""


def first_bytes(source: Path | bytes) -> bytes:
    """The four bytes that tell the kind of a file."""
    if isinstance(source, bytes):
        return source[:4]
    with source.open("rb") as file:
        return file.read(4)


@contextlib.contextmanager
def opened(source: Path | bytes) -> Iterator[TextIO]:
    """Open text, gzipped or not."""
    gzipped = first_bytes(source).startswith(GZIP)
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(io.BytesIO(source) if isinstance(source, bytes) else source.open("rb"))
        file: Any = stack.enter_context(gzip.open(raw)) if gzipped else raw
        yield stack.enter_context(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""))


def sha256(source: Path | bytes) -> str:
    """Checksum of a file."""
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_pipe(path: str | os.PathLike[str]) -> bool:
    """Return whether a table can be read only once: from standard input or a pipe, as of `<(zcat rows.csv.gz)`."""
    return str(path) == STDIN or Path(path).is_fifo()


def check_file(path: str | Path) -> None:
    """Refuse a table that is neither a file nor a pipe, or whose name is no text."""
    check_name(path)
    file = Path(path)
    if not file.is_file() and not file.is_fifo():
        raise TableError(f"{path} is {'a folder' if file.is_dir() else 'not there'}: name a CSV or Parquet file")


def check_early(path: str | Path, columns: Sequence[str] = ()) -> None:
    """Refuse a table that is absent, or whose first line lacks columns, before anything slow is imported."""
    if names := _early_names(path):
        check_present(names, columns)


def check_named(path: str | Path, target: str) -> None:
    """Refuse to fit without a target, with the columns that there are."""
    if not target:
        names = [] if Path(path).is_dir() else _early_names(path)
        choices = f", one of {listed(names)}" if names else ""
        raise TableError(f"--target is missing: name the column to predict{choices}")


def _early_names(path: str | Path) -> list[str]:
    """Columns of a table, none where only reading it tells them."""
    if str(path) != STDIN:
        check_file(path)
    if is_pipe(path):
        return []
    source = Path(path)
    try:
        return [] if first_bytes(source) in {ZIP, PARQUET} else csv_header(source)[1]
    except (UnicodeError, csv.Error, OSError, EOFError, zlib.error):
        return []


def csv_header(source: Path | bytes) -> tuple[str, list[str]]:
    """Find the separator of a CSV file, and the names of its columns."""
    with opened(source) as file:
        header = next((line for line in file if line.strip()), "")
    unquoted = re.sub(r'"[^"]*"', "", header)
    separator = max(",;\t", key=unquoted.count)
    with opened(source) as file:
        rows = csv.reader(file, delimiter=separator, skipinitialspace=True)
        first = next((row for row in rows if is_row(row)), [])
    return separator, [cell.strip() or f"Unnamed: {i}" for i, cell in enumerate(first)]


def is_as_wide(cells: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a row has a cell for each name, but for empty cells and unnamed columns at the end of lines."""
    return not any(map(str.strip, cells[len(names) :])) and all(map(is_unnamed, names[len(cells) :]))


def is_row(cells: list[str]) -> bool:
    """Whether a line of a CSV file is one, and not blank."""
    return len(cells) > 1 or any(cell.strip() for cell in cells)
