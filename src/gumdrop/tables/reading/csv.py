"""Read a table from a CSV file, with the numbers as they are spelled there."""

import contextlib
import csv
import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from gumdrop.tables.errors import ABOVE_THE_HEADER, TableError, check_unique
from gumdrop.tables.reading.source import csv_header, is_as_wide, is_row, opened
from gumdrop.tables.reading.spelling import (
    MISSING_SPELLINGS,
    Decimal,
    Mark,
    Spelling,
    is_booked,
    spelled_numbers,
    spelling_of,
    tidy,
    words_for_missing,
)

PADDED = re.compile(r"0\d+")
ROWS_FOR_ZEROS = 1000
"""Rows that are looked at for numbers with leading zeros."""
EXACT = 2**53
"""From here on, a float64 does not hold every integer."""


class Marks(NamedTuple):
    """Marks of numbers that a program does not expect, as a table has them."""

    decimal: Decimal | None
    """The decimal mark; None if no number has marks."""
    notes: list[str]
    """A sentence for each column whose numbers have marks."""
    columns: dict[str, Mark]
    """Those of the columns that have any."""
    missing: Mapping[str, list[str]] = MappingProxyType({})
    """Words that were taken for missing, by column of texts."""


def read_csv(
    source: Path | bytes,
    name: str,
    decimal: Decimal | None,
    words: Collection[str] = (),
    known: Mapping[str, Mark] | None = None,
) -> tuple[pd.DataFrame, Marks, list[str]]:
    """Read a CSV file, words as they are spelled; also the marks of its numbers, and columns with leading zeros."""
    separator, names, padded = _survey(source, name)
    if known is not None:  # beside the columns of training names such as 007 stay as they are spelled
        words = {*words, *({*padded} - {*known})}
    frame = _parse(source, separator, names)
    # pandas makes one value of TRUE, True and true; such columns are read again as they are spelled.
    kinds = pd.api.types
    numeric = [kinds.is_numeric_dtype(dtype) and not kinds.is_bool_dtype(dtype) for dtype in frame.dtypes]
    spelled = [name for name, is_read in zip(names, numeric, strict=True) if name in words or not is_read]
    if spelled:
        whole = {"keep_default_na": False, "na_values": [""]}  # texts that stand for missing cells, which are told
        frame[spelled] = _parse(source, separator, names, usecols=spelled, dtype=str, **whole)
    missing = words_for_missing(frame[spelled])
    frame = tidy(frame)
    floats = [column for column in names if frame[column].dtype == float]
    for column in (name for name in floats if frame[name].abs().max() >= EXACT):  # missing cells make integers floats
        integers = _integers(_parse(source, separator, names, usecols=[column], dtype=str)[column].str.strip())
        frame[column] = frame[column] if integers is None else integers
    floats = [column for column in names if frame[column].dtype == float]
    frame, marks = read_marks(frame, [name for name in spelled if name not in words], decimal, known)
    if commas := with_comma(floats, marks, known):
        again = tidy(_parse(source, separator, names, usecols=commas, dtype=str))
        frame, marks = read_again(frame, again, marks, known)
    elif known is None and marks.decimal is None and (few := in_thousandths(frame[floats])):
        again = tidy(_parse(source, separator, names, usecols=few, dtype=str))
        frame = left_in_doubt(frame, again, is_european=separator == ";")
    return frame, marks._replace(missing=missing), [column for column in padded if column not in spelled]


def in_thousandths(floats: pd.DataFrame) -> list[str]:
    """Columns of floats whose decimal points may be thousands marks; none where another column has a decimal point."""
    thousandths = {str(name): (floats[name] * 1000).round() / 1000 == floats[name] for name in floats}
    fractions = {name: floats[name].abs()[floats[name] % 1 > 0] for name in thousandths}
    fits = {
        name: bool((each | floats[name].isna()).all() and fractions[name].between(1, 1000).all())
        for name, each in thousandths.items()
    }
    return [] if any(len(fractions[name]) for name in fits if not fits[name]) else [name for name in fits if fits[name]]


def left_in_doubt(frame: pd.DataFrame, again: pd.DataFrame, *, is_european: bool) -> pd.DataFrame:
    """Return a frame with texts where points may be thousands marks (9.011 beside 832), for the schema to refuse.

    Points before three digits in every cell are decimals of a fixed number, unless the file is a European one, with
    semicolons.
    """
    spellings = {str(name): form for name in again if (form := _spelling(again[name])) is not None}
    if any(form.decimals == {"."} for form in spellings.values()):  # another column has a decimal point
        return frame
    in_doubt = [name for name, form in spellings.items() if len(form.decimals) > 1 and not form.same]
    mixed = [name for name in in_doubt if is_european or not again[name].dropna().str.contains(".", regex=False).all()]
    return frame.assign(**{name: again[name] for name in mixed})


def with_comma(names: Iterable[str], marks: Marks, known: Mapping[str, Mark] | None) -> list[str]:
    """Columns whose numbers have a decimal comma, as training had them, or as the others of the table."""
    return [name for name in names if (known or {}).get(name, marks).decimal == ","]


def read_again(
    frame: pd.DataFrame, again: pd.DataFrame, marks: Marks, known: Mapping[str, Mark] | None
) -> tuple[pd.DataFrame, Marks]:
    """Read columns with a decimal comma from their texts: 1.234 is a thousand and more, and was taken for near one."""
    spellings = {name: form for name in map(str, again) if (form := _spelling(again[name])) and not form.same}
    _check(again, spellings, known or {})
    grouped = {name: spelling for name, spelling in spellings.items() if "," in spelling.decimals}
    points = {name: Mark(".") for name in spellings if name not in grouped}
    read, more = _with_numbers(again, grouped, ",", known or {})
    frame[list(grouped)] = read[list(grouped)]
    return frame, Marks(marks.decimal, marks.notes + more.notes, marks.columns | points | more.columns)


def read_marks(
    frame: pd.DataFrame, texts: list[str], decimal: Decimal | None, known: Mapping[str, Mark] | None = None
) -> tuple[pd.DataFrame, Marks]:
    """Read columns of texts whose cells are numbers with marks; refuse marks that are not those of training."""
    spellings = {column: _spelling(frame[column]) for column in texts}
    if known is None:  # numbers in parentheses are negative ones beside others, and labels where all have them
        spellings |= dict.fromkeys([name for name in spellings if frame[name].dropna().map(is_booked).all()])
    marked = {column: spelling for column, spelling in spellings.items() if spelling is not None}
    proven: set[Decimal] = {next(iter(each.decimals)) for each in marked.values() if len(each.decimals) == 1}
    decimal = decimal or (proven.pop() if len(proven) == 1 else None)  # where no column proves it, or some another one
    _check(frame, marked, known or {})
    return _with_numbers(frame, marked, decimal, known or {})


def _check(frame: pd.DataFrame, spellings: Mapping[str, Spelling], known: Mapping[str, Mark]) -> None:
    """Refuse numbers that are written otherwise than those of training."""
    for name in (name for name in spellings if name in known):
        spelling, mark, cells = spellings[name], known[name], frame[name].dropna()
        if spelling.unit not in {"", mark.unit}:
            raise TableError(
                f"numbers of column {name!r} are in {spelling.unit}, such as {cells.iloc[0]!r}, and those of training "
                f"{f'in {mark.unit}' if mark.unit else 'without a unit'}: convert them, or leave the unit out where "
                "it is the same"
            )
        if mark.decimal is not None and mark.decimal not in spelling.decimals:
            (other,) = spelling.decimals
            example = next((cell for cell in cells if other in str(cell)), cells.iloc[0])
            raise TableError(
                f"numbers of column {name!r}, such as {example!r}, have the decimal mark '{other}', and those of "
                f"training '{mark.decimal}': write them as there, since 1{other}234 would be read as 1234"
            )


def _integers(text: pd.Series) -> Any:
    """Read texts, stripped, as integers of 64 bits that may be missing; None unless all of them are such."""
    known = text.dropna()
    if not (known.str.fullmatch(r"[+-]?\d+").all() and known.map(int).between(-(2**63), 2**63 - 1).all()):
        return None
    return pd.array([None if pd.isna(cell) else int(cell) for cell in text], dtype="Int64")


def _spelling(column: pd.Series) -> Spelling | None:
    return spelling_of(map(str, column.dropna().unique()))


def _with_numbers(
    frame: pd.DataFrame, marked: dict[str, Spelling], decimal: Decimal | None, known: Mapping[str, Mark]
) -> tuple[pd.DataFrame, Marks]:
    """Read the columns whose numbers have marks, where the decimal mark is known."""
    notes, columns = [], {}
    for name, spelling in marked.items():
        usual = known.get(name, Mark()).decimal or decimal
        mark = next(iter(spelling.decimals)) if len(spelling.decimals) == 1 else "." if spelling.same else usual
        if mark is None:
            continue
        columns[name] = Mark(None if spelling.same else mark, spelling.unit)
        values = spelled_numbers(frame[name], mark)
        texts = frame[name].dropna()
        changed = texts[pd.Series(pd.to_numeric(texts, errors="coerce"), index=texts.index).isna()]
        booked = changed[changed.map(is_booked)]
        first = [*changed.drop(booked.index).index[:1], *booked.index[:1]] or [values.first_valid_index()]
        examples = " and ".join(f"{frame[name].loc[row]!r} = {values.loc[row]:.12g}" for row in first)
        notes.append(f"numbers of '{name}' are read as in {examples}")
        frame = frame.assign(**{name: values})
    return frame, Marks(decimal, notes, columns)


def _parse(source: Path | bytes, separator: str, names: list[str], **options: Any) -> pd.DataFrame:
    how: dict[str, Any] = {"skipinitialspace": True, "na_values": MISSING_SPELLINGS} | options
    with opened(source) as file:
        next(filter(is_row, csv.reader(file, delimiter=separator)))  # the header, which may be narrower than the rows
        frame: pd.DataFrame = pd.read_csv(
            file,
            sep=separator,
            header=None,
            names=names,
            index_col=False,
            low_memory=False,  # one type per column, not one per chunk of it
            **how,
        )
    return frame


def _width(row: list[str], names: list[str], line: int) -> str:
    """Say that a row is not as wide as the header, and what to do."""
    way_out = "correct that line, or put quotes around values that hold the separator"
    if len(row) > len(names) == 1 or names[0].startswith("#"):
        way_out = f"{ABOVE_THE_HEADER}, as with: tail -n +{line} OLD.csv > NEW.csv"
    return f"has {len(row)} cells, its header {len(names)}: {way_out}"


def verbatim(source: Path | bytes, names: list[str], columns: Collection[str]) -> pd.DataFrame:
    """Read some of all columns as texts, as they stand: with the blanks around them, and words for missing."""
    separator, _ = csv_header(source)
    wanted = [name for name in names if name in columns]
    options: dict[str, Any] = {"usecols": wanted, "dtype": str, "na_filter": False}
    frame = _parse(source, separator, names, **options)[wanted]
    with contextlib.suppress(pd.errors.ParserError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = _parse(source, separator, names, **options, skipinitialspace=False)
        for name in wanted if len(exact) == len(frame) else ():  # quotes after a blank count only where that is skipped
            same = exact[name].str.lstrip() == frame[name].str.lstrip()
            frame[name] = exact[name].where(same, frame[name])
    return frame


def _survey(source: Path | bytes, name: str) -> tuple[str, list[str], list[str]]:
    """Separator, column names, and those with leading zeros; every row has one cell per name, or this raises."""
    separator, names = csv_header(source)
    check_unique(names)
    with opened(source) as file:
        reader = csv.reader(file, delimiter=separator, skipinitialspace=True)
        rows = filter(is_row, reader)
        count, width, padded = 0, 0, dict[str, None]()
        try:
            next(rows, None)
            for row in rows:
                count, width = count + 1, max(width, len(row))
                if not is_as_wide(row, names):
                    raise TableError(f"line {reader.line_num} of {name} {_width(row, names, reader.line_num)}")
                if count <= ROWS_FOR_ZEROS:
                    pairs = zip(names, row, strict=False)
                    padded |= {name: None for name, cell in pairs if PADDED.fullmatch(cell.strip())}
        except csv.Error as error:
            raise TableError(
                f"line {reader.line_num} of {name} has a cell that cannot be read ({error}): shorten it, or close the "
                "quote that it begins with"
            ) from error
    if not count:
        raise TableError(f"{name} is empty or has no rows: it needs a header line and rows below it")
    return separator, [*names, *(f"Unnamed: {i}" for i in range(len(names), width))][:width], list(padded)
