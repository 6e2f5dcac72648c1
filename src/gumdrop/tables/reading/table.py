"""Read a table from a file, from standard input or from memory, and refuse one that is no table, in words that help."""

import csv
import os
import sys
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from gumdrop.tables.errors import STDIN, TableError
from gumdrop.tables.reading.csv import read_csv
from gumdrop.tables.reading.frames import FRAME, frame_sha256, read_frame, read_parquet
from gumdrop.tables.reading.source import PARQUET, ZIP, check_file, first_bytes, sha256
from gumdrop.tables.reading.spelling import Decimal

STANDARD_INPUT = "standard input"


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
    """Checksum of the file, or of what a data frame holds."""


def read_table(path: object, *, decimal: Decimal | None = None, words: Collection[str] = ()) -> Table:
    """Read a table from a CSV file, plain or gzipped, from a Parquet file, from standard input, or from a data frame.

    The separator of a CSV file (comma, semicolon or tab) is the commonest of the three in the header line. Blanks
    around names and values are dropped; empty cells and the usual spellings (NA, NaN, None, null, ?, -) are missing.
    Booleans stay text, in the spelling of the file. A column without a name is called `Unnamed: POSITION`. Numbers
    with decimal commas, thousands marks, currencies or per cent signs are read where the file leaves no doubt; a
    column that leaves one stays text. A data frame is read as the CSV file that pandas writes of it without row labels.

    Args:
        path: File, with a header line in UTF-8 if it is CSV; `-` for standard input. What is gzip or Parquet is
            known by its first bytes. Or a data frame of pandas, of polars, of Arrow or of another library whose frames
            have a method ``to_pandas``, or a dict of columns.
        decimal: The decimal mark of columns that fit both marks, such as one that holds 1,234 alone; if None that of
            the other columns, where these agree.
        words: Columns that stay as they are spelled, though all of their cells may look like numbers.

    Returns:
        The table.

    Raises:
        TableError: There is no such file, or it has no rows, repeats a column name, has a row with too many
            or too few cells, is not UTF-8 text, or is Parquet and the library for it is not installed.
        TypeError: It is neither a file nor a table.

    Example:
        >>> table = read_table({"size": [48, 51], "price": ["1,200.50", "980.00"]})
        >>> table.frame.dtypes.astype(str).to_dict()
        {'size': 'int64', 'price': 'float64'}
    """
    if not isinstance(path, str | os.PathLike):
        frame, decimal, notes = read_frame(path, decimal, words)
        return Table(frame, decimal, notes, frame_sha256(frame))
    name = STANDARD_INPUT if str(path) == STDIN else str(path)
    source = sys.stdin.buffer.read() if str(path) == STDIN else Path(path)
    if isinstance(source, Path):
        check_file(source)
    start = first_bytes(source)
    try:
        if start.startswith(ZIP):
            raise TableError(f"{name} is a spreadsheet or a zip archive: save it as CSV (UTF-8) and try again")
        if start.startswith(PARQUET):
            frame, notes = read_parquet(source, name)
            return Table(frame, None, notes, sha256(source))
        frame, decimal, notes = read_csv(source, name, decimal, words)
        return Table(frame, decimal, notes, sha256(source))
    except UnicodeError as error:
        code = "utf-16" if start[:2] in {b"\xff\xfe", b"\xfe\xff"} else "latin1"
        raise TableError(
            f"{name} is not UTF-8 text ({error}): save it as UTF-8 (in Excel: CSV UTF-8), or convert it: "
            f"iconv -f {code} -t utf-8 OLD.csv > NEW.csv"
        ) from error
    except (csv.Error, pd.errors.ParserError, OSError, EOFError, zlib.error) as error:
        raise TableError(f"{name} cannot be read ({error}): save it as CSV again") from error


def read_rows(path: object, *, decimal: Decimal | None = None, words: Collection[str] = ()) -> pd.DataFrame:
    """Read a table as `read_table` does, without its checksum, which takes longer than the prediction of a few rows."""
    if isinstance(path, str | os.PathLike):
        return read_table(path, decimal=decimal, words=words).frame
    return read_frame(path, decimal, words)[0]


def name_of(table: object) -> str:
    """What results call a table: its file without the folder, or what it is."""
    if not isinstance(table, str | os.PathLike):
        return FRAME
    return STANDARD_INPUT if str(table) == STDIN else Path(table).name
