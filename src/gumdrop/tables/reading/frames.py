"""Tables that know their types: data frames of any library, dicts of columns, and Parquet files."""

import hashlib
import io
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gumdrop.tables.errors import TableError, check_unique
from gumdrop.tables.reading.csv import read_marks
from gumdrop.tables.reading.spelling import Decimal, plain_numbers, tidy

FRAME = "data frame"
"""What messages and results call a table that is no file."""


def read_frame(
    table: object, decimal: Decimal | None, words: Collection[str] = ()
) -> tuple[pd.DataFrame, Decimal | None, list[str]]:
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
    texts = [name for name in texts if name not in words]
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


MOST_CELLS = 2**31
"""Cells of a Parquet file that are read at once, some 16 GB; its header may claim any number."""
ROW_LABELS = re.compile(r"__index_level_\d+__")
"""Columns in which pandas writes row labels without a name."""
LABELS_NOTE = "the row labels that pandas wrote are left out, as they have no name"


def read_parquet(source: Path | bytes, name: str) -> tuple[pd.DataFrame, list[str]]:
    """Read a Parquet file."""
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
    return tidy(frame), notes


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
    """Leave out the row labels without a name that pandas writes beside the columns; with a name they are columns."""
    labels = [name for name in frame.columns if ROW_LABELS.fullmatch(name)]
    return frame.drop(columns=labels), [LABELS_NOTE] * bool(labels)
