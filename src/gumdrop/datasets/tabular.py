"""Read a table from a CSV file, and refuse one that is no table, in words that help."""

import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

__all__ = ["MISSING", "TableError", "check_unique", "listed", "read_table"]

MISSING = ""
"""The label of missing cells; no cell that holds something has it."""
MISSING_SPELLINGS = ["?", "-", ".", "na", "Na", "N.A.", "n.a.", "NONE", "none"]
"""What counts as missing, beside the spellings of pandas."""


class TableError(ValueError):
    """A table that cannot be used as asked; the message says which column and what to do."""


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a CSV file, plain or gzipped.

    The separator (comma, semicolon or tab) is the commonest of the three in the header line. Blanks around
    names and values are dropped; empty cells and the usual spellings (NA, NaN, None, null, ?, -) are missing.
    Booleans stay text, in the spelling of the file. A column without a name is called `Unnamed: POSITION`.

    Args:
        path: File in UTF-8, with a header line; a name that ends in `.gz` is decompressed.

    Returns:
        Columns of numbers and of text, rows in the order of the file.

    Raises:
        TableError: There is no such file, or it has no rows, repeats a column name, has a row with too many
            or too few cells, or is not UTF-8 text.
    """
    path = Path(path)
    if not path.is_file():
        raise TableError(f"{path} is {'a folder' if path.is_dir() else 'not there'}: name a CSV file")
    try:
        separator, names = _survey(path)
        frame = _parse_file(path, separator, names)
        # pandas makes one value of TRUE, True and true; such columns are read again as they are spelled.
        spelled = [name for name in names if frame[name].dtype in (bool, object)]
        if spelled:
            frame[spelled] = _parse_file(path, separator, names, usecols=spelled, dtype=str)
    except UnicodeError as error:
        raise TableError(f"{path} is not UTF-8 text ({error}): save it as UTF-8 and try again") from error
    except (csv.Error, pd.errors.ParserError, OSError, EOFError, zlib.error) as error:
        raise TableError(f"{path} cannot be read ({error}): save it as CSV again") from error
    for name in names:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            text = frame[name].str.strip()
            frame[name] = text.mask(text.isin([MISSING, *MISSING_SPELLINGS]))
    return frame


def _open(path: Path) -> TextIO:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _parse_file(path: Path, separator: str, names: list[str], **options: Any) -> pd.DataFrame:
    with _open(path) as file:
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


def _survey(path: Path) -> tuple[str, list[str]]:
    # Separator and column names; every row has one cell per name, or this raises.
    with _open(path) as file:
        header = next((line for line in file if line.strip()), "")
        unquoted = re.sub(r'"[^"]*"', "", header)
        separator = max(",;\t", key=unquoted.count)
        file.seek(0)
        reader = csv.reader(file, delimiter=separator, skipinitialspace=True)
        rows = (row for row in reader if len(row) > 1 or any(cell.strip() for cell in row))
        names = [name.strip() or f"Unnamed: {i}" for i, name in enumerate(next(rows, []))]
        check_unique(names)
        count = 0
        for row in rows:
            count += 1
            if len(row) != len(names):
                raise TableError(
                    f"line {reader.line_num} of {path} has {len(row)} cells, its header {len(names)}: "
                    "correct that line, or put quotes around values that hold the separator"
                )
    if not count:
        raise TableError(f"{path} is empty or has no rows: it needs a header line and rows below it")
    return separator, names


def check_unique(names: Sequence[str]) -> None:
    """Refuse column names that occur twice."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"the table has several columns named {listed(repeated)}: rename or remove them")


def listed(words: Sequence[str]) -> str:
    """Enumerate words, of many the first twenty."""
    return ", ".join(words[:20]) + (f", ... ({len(words)} in all)" if len(words) > 20 else "")
