"""Read a data frame as the CSV file that pandas writes of it."""

import hashlib
import os
from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from gumdrop.tables.errors import TableError, check_unique
from gumdrop.tables.reading.csv import (
    PADDED,
    Marks,
    in_thousandths,
    left_in_doubt,
    read_again,
    read_marks,
    with_comma,
)
from gumdrop.tables.reading.spelling import Decimal, Mark, plain_numbers, tidy, words_for_missing


def read_frame(
    table: object,
    decimal: Decimal | None = None,
    words: Collection[str] = (),
    known: Mapping[str, Mark] | None = None,
    labels: Collection[str] = (),
) -> tuple[pd.DataFrame, Marks, list[str]]:
    """Read a data frame, as `read_csv` reads its file; the frame itself is left as it is."""
    frame = named(table)
    texts = [name for name, dtype in zip(map(str, frame), frame.dtypes, strict=True) if not is_kept(dtype)]
    for name in texts:
        frame[name] = spelled_cells(frame[name])
    missing = words_for_missing(frame)
    frame = tidy(frame, labels)
    texts, padded = [name for name in texts if name not in {*words, *labels}], []
    spelled = frame[texts]
    for name in texts:
        values, bad = plain_numbers(frame[name])
        if not bad.any():
            padded += [name] * bool(frame[name].str.fullmatch(PADDED).any())
            frame[name] = values
    floats = [name for name in texts if frame[name].dtype == float]
    frame, marks = read_marks(frame, [name for name in texts if name not in floats], decimal, known)
    frame, marks = read_again(frame, spelled[with_comma(floats, marks, known)], marks, known)
    if known is None and marks.decimal is None and (few := in_thousandths(frame[floats])):
        frame = left_in_doubt(frame, spelled[few], is_european=False)
    return frame, marks._replace(missing=missing), padded


def read_texts(
    frame: pd.DataFrame,
    decimal: Decimal | None,
    words: Collection[str] = (),
    known: Mapping[str, Mark] | None = None,
    labels: Collection[str] = (),
) -> tuple[pd.DataFrame, Marks]:
    """Read texts of Parquet and Arrow that are numbers with marks; plain ones are read where they are used."""
    columns = frame.columns if known is None else frame.columns.intersection([*known])
    texts = [name for name in map(str, columns) if name not in {*words, *labels} and _is_text(frame[name])]
    pointed = {name for name in texts if (known or {}).get(name, Mark(decimal)).decimal}
    marked = [name for name in texts if _has_marks(frame[name], r"[.,]" if name in pointed else None)]
    return read_marks(frame, marked, decimal, known)


def _is_text(column: pd.Series) -> bool:
    is_text = column.dtype == object or pd.api.types.is_string_dtype(column)
    return bool(is_text and column.dropna().map(lambda cell: isinstance(cell, str)).all())


def _has_marks(column: pd.Series, points: str | None) -> bool:
    """Return whether some cell is no number as programs write it, or has a point that may not be what it seems."""
    return bool(plain_numbers(column)[1].any() or (points and column.str.contains(points).any()))


def declared_categories(table: object) -> list[str]:
    """Columns that a data frame says are categories."""
    if isinstance(table, str | os.PathLike):
        return []
    dtypes = _pandas(table).dtypes.items()
    return [str(name).strip() for name, dtype in dtypes if isinstance(dtype, pd.CategoricalDtype)]


def named(table: object) -> pd.DataFrame:
    """Take a table as a data frame of pandas with rows from 0 on, and texts for the names of its columns."""
    frame = pd.DataFrame(_pandas(table)).reset_index(drop=True)
    names = [str(name).strip() or f"Unnamed: {i}" for i, name in enumerate(frame.columns)]
    check_unique(names)
    if frame.empty:
        raise TableError("the data frame has no rows or no columns")
    if names != list(frame.columns):
        frame.columns = pd.Index(names)
    return frame


def spelled_cells(cells: pd.Series) -> pd.Series:
    """Spell cells as a CSV file has them, without those that are missing."""
    return cells.astype(object).map(str, na_action="ignore")


def _pandas(table: object) -> pd.DataFrame:
    if isinstance(table, pd.DataFrame):
        return table
    if isinstance(table, Mapping):
        try:
            return pd.DataFrame(table)
        except ValueError as error:
            raise TableError(
                f"the dict of columns cannot be read ({error}): give each column as a list, of one cell for one row, "
                "and all of the same length"
            ) from error
    if hasattr(table, "to_pandas"):
        frame: pd.DataFrame = table.to_pandas()
        return frame
    raise TypeError(
        f"`table` must be a file, a data frame of pandas, polars or Arrow, or a dict of columns, got "
        f"{type(table).__name__}: name its columns, as in pd.DataFrame(rows, columns=[...])"
    )


def is_kept(dtype: Any) -> bool:
    """Whether cells are numbers or dates as they are; all else is known by its spelling, as in a file."""
    is_real = not pd.api.types.is_bool_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)
    numeric, dense = pd.api.types.is_numeric_dtype(dtype) and is_real, not isinstance(dtype, pd.SparseDtype)
    return dense and (numeric or pd.api.types.is_datetime64_any_dtype(dtype))


def frame_sha256(frame: pd.DataFrame) -> str:
    """Checksum of the names and the cells of a frame that `read_frame` gave."""
    cells = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    return hashlib.sha256("\n".join(frame.columns).encode() + cells.tobytes()).hexdigest()
