"""The first line of a table, which tells of an absent column before anything slow is imported."""

import csv
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

from gumdrop.tables.errors import STDIN, TableError, check_present
from gumdrop.tables.reading.source import PARQUET, ZIP, first_bytes, opened


def check_file(path: str | Path) -> None:
    """Refuse a table that is no file."""
    place = Path(path)
    if not place.is_file():
        raise TableError(f"{path} is {'a folder' if place.is_dir() else 'not there'}: name a CSV or Parquet file")


def check_early(path: str | Path, columns: Sequence[str] = ()) -> None:
    """Refuse a table that is absent, or whose first line lacks columns, before anything slow is imported."""
    if str(path) == STDIN:
        return
    check_file(path)
    source = Path(path)
    try:
        if first_bytes(source) in {ZIP, PARQUET}:
            return
        _, names = csv_header(source)
    except (UnicodeError, csv.Error, OSError, EOFError, zlib.error):
        return
    if names:
        check_present(names, columns)


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


def is_row(cells: list[str]) -> bool:
    """Whether a line of a CSV file is one, and not blank."""
    return len(cells) > 1 or any(cell.strip() for cell in cells)
