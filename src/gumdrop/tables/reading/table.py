"""Read a table from a file, from standard input or from memory, and refuse one that is no table, in words that help."""

import csv
import os
import sys
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from gumdrop.tables.errors import STDIN, TableError
from gumdrop.tables.reading.csv import read_csv, verbatim
from gumdrop.tables.reading.frame import frame_sha256, is_kept, named, read_frame, read_texts, spelled_cells
from gumdrop.tables.reading.parquet import read_parquet
from gumdrop.tables.reading.source import PARQUET, ZIP, check_file, first_bytes, is_pipe, sha256
from gumdrop.tables.reading.spelling import Decimal, Mark, tidy, words_for_missing

FRAME = "data frame"
"""What messages and results call a table that is no file."""
STANDARD_INPUT, PIPE = "standard input", "pipe"


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
    padded: Sequence[str] = ()
    """Columns of numbers that are written with leading zeros, as those are that are names."""
    marks: dict[str, Mark] = field(default_factory=dict)
    """How the numbers of columns are written that have a decimal mark or a unit."""
    spelled: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Columns that were asked for as they stand in the table."""
    typed: bool = True
    """Whether missing cells differ from all texts, as in a data frame and in Parquet."""
    missing: Mapping[str, list[str]] = field(default_factory=dict)
    """Words that were taken for missing, by column of texts."""

    def with_labels(self, name: str) -> "Table":
        """Read a column again as labels, which are spelled as in the table; in what is typed each text is one."""
        cells = self.spelled.get(name)
        if cells is None or is_kept(cells.dtype):
            return self
        labels = tidy(spelled_cells(cells).to_frame(), [name] if self.typed else [])
        return replace(self, frame=self.frame.assign(**{name: labels[name]}))


def read_table(
    path: object,
    *,
    decimal: Decimal | None = None,
    words: Collection[str] = (),
    known: Mapping[str, Mark] | None = None,
    labels: Collection[str] = (),
    spelled: Collection[str] = (),
) -> Table:
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
        known: How columns of numbers were written in training: another decimal mark or unit is refused.
        labels: Columns of classes, which stay as they are spelled; in a data frame and in Parquet only cells without a
            text are missing there.
        spelled: Columns that are given beside as they stand in the table.

    Returns:
        The table.

    Raises:
        TableError: There is no such file, or it has no rows, repeats a column name, has a row with too many
            or too few cells, is not UTF-8 text, has numbers that are written otherwise, or is Parquet and the library
            for it is not installed.
        TypeError: It is neither a file nor a table.

    Example:
        >>> table = read_table({"size": [48, 51], "price": ["1,200.50", "980.00"]})
        >>> table.frame.dtypes.astype(str).to_dict()
        {'size': 'int64', 'price': 'float64'}
    """
    if not isinstance(path, str | os.PathLike):
        frame, marks, padded = read_frame(path, decimal, words, known, labels)
        beside = _some(named(path), spelled) if spelled else pd.DataFrame()
        facts = (marks.decimal, marks.notes, frame_sha256(frame), padded, marks.columns, beside)
        return Table(frame, *facts, missing=marks.missing)
    name = STANDARD_INPUT if str(path) == STDIN else str(path)
    source = _source(path)
    start = first_bytes(source)
    try:
        if start.startswith(ZIP):
            raise TableError(f"{name} is a spreadsheet or a zip archive: save it as CSV (UTF-8) and try again")
        if start.startswith(PARQUET):
            frame, notes = read_parquet(source, name)
            beside, missing = _some(frame, spelled), words_for_missing(frame)
            frame, marks = read_texts(tidy(frame, labels), decimal, words, known, labels)
            facts = (marks.decimal, [*notes, *marks.notes], sha256(source), list[str](), marks.columns, beside)
            return Table(frame, *facts, missing=missing)
        frame, marks, padded = read_csv(source, name, decimal, {*words, *labels}, known)
        beside = verbatim(source, [*map(str, frame)], spelled) if spelled else pd.DataFrame()
        facts = (marks.decimal, marks.notes, sha256(source), padded, marks.columns, beside)
        return Table(frame, *facts, typed=False, missing=marks.missing)
    except UnicodeError as error:
        code = "utf-16" if start[:2] in {b"\xff\xfe", b"\xfe\xff"} else "latin1"
        raise TableError(
            f"{name} is not UTF-8 text ({error}): save it as UTF-8 (in Excel: CSV UTF-8), or convert it: "
            f"iconv -f {code} -t utf-8 OLD.csv > NEW.csv"
        ) from error
    except (csv.Error, pd.errors.ParserError, OSError, EOFError, zlib.error) as error:
        raise TableError(f"{name} cannot be read ({error}): save it as CSV again") from error


def _some(frame: pd.DataFrame, names: Collection[str]) -> pd.DataFrame:
    return frame[[name for name in frame.columns if name in names]].copy()


def _source(path: str | os.PathLike[str]) -> Path | bytes:
    """Return the file, or all that a pipe gives, which is read once."""
    if str(path) == STDIN:
        return sys.stdin.buffer.read()
    check_file(Path(path))
    return Path(path).read_bytes() if is_pipe(path) else Path(path)


def read_rows(path: object, **reading: Any) -> pd.DataFrame:
    """Read a table as `read_table` does, without its checksum, which takes longer than the prediction of a few rows."""
    return read_table(path, **reading).frame if isinstance(path, str | os.PathLike) else read_frame(path, **reading)[0]


def name_of(table: object) -> str:
    """What results call a table: its file without the folder, or what it is."""
    if not isinstance(table, str | os.PathLike):
        return FRAME
    return STANDARD_INPUT if str(table) == STDIN else PIPE if is_pipe(table) else Path(table).name
