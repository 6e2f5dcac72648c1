"""Read a table that is in memory already: a data frame of any library, or a dict of columns."""

import hashlib
from collections.abc import Mapping
from typing import Any

import pandas as pd

from gumdrop.tables.errors import TableError, check_unique
from gumdrop.tables.reading.csv import read_marks
from gumdrop.tables.reading.numbers import Decimal, plain_numbers
from gumdrop.tables.reading.tidy import tidy

FRAME = "data frame"
"""What messages and results call a table that is no file."""


def read_frame(table: object, decimal: Decimal | None) -> tuple[pd.DataFrame, Decimal | None, list[str]]:
    """Read a data frame as its CSV file would be read; the frame itself is left as it is."""
    frame = pd.DataFrame(_pandas(table)).reset_index(drop=True)
    names = [str(name).strip() or f"Unnamed: {i}" for i, name in enumerate(frame.columns)]
    check_unique(names)
    if frame.empty:
        raise TableError("the data frame has no rows or no columns")
    if names != list(frame.columns):
        frame.columns = pd.Index(names)
    texts = [name for name, dtype in zip(names, frame.dtypes, strict=True) if not _is_kept(dtype)]
    for name in texts:
        frame[name] = frame[name].astype(object).map(str, na_action="ignore")
    frame = tidy(frame)
    for name in texts:
        values, bad = plain_numbers(frame[name])
        if not bad.any():
            frame[name] = values
    return read_marks(frame, [name for name in texts if frame[name].dtype != float], decimal)


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
        found: pd.DataFrame = table.to_pandas()
        return found
    raise TypeError(
        f"`table` must be a file, a data frame of pandas, polars or Arrow, or a dict of columns, got "
        f"{type(table).__name__}: name its columns, as in pd.DataFrame(rows, columns=[...])"
    )


def _is_kept(dtype: Any) -> bool:
    """Whether cells are numbers or dates as they are; all else is known by its spelling, as in a file."""
    numeric = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
    dense = not isinstance(dtype, pd.SparseDtype)
    return dense and (numeric or pd.api.types.is_datetime64_any_dtype(dtype))


def frame_sha256(frame: pd.DataFrame) -> str:
    """Checksum of the names and the cells of a frame that `read_frame` gave."""
    cells = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    return hashlib.sha256("\n".join(frame.columns).encode() + cells.tobytes()).hexdigest()
