"""Read a table from a Parquet file, and rows of Arrow as a frame."""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gumdrop.tables.errors import TableError, check_unique

MOST_CELLS = 2**31
"""Cells of a Parquet file that are read at once, some 16 GB; its header may claim any number."""
ROW_LABELS = re.compile(r"__index_level_\d+__")
"""Columns in which pandas writes row labels without a name."""
LABELS_NOTE = "the row labels that pandas wrote are left out, as they have no name"


def read_parquet(source: Path | bytes, name: str) -> tuple[pd.DataFrame, list[str]]:
    """Read a Parquet file, with its texts as they are."""
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
    rows, cells = file.metadata.num_rows, file.metadata.num_rows * file.metadata.num_columns
    if not 0 <= cells <= MOST_CELLS:
        raise TableError(
            f"{name} has {rows:,} rows of {file.metadata.num_columns} columns by its header, too many to read at once: "
            "read it in pieces with --stream, or write the Parquet file again"
        )
    table = file.read()
    if len(table) != rows:
        raise TableError(f"{name} has {len(table):,} rows, and {rows:,} by its header: write the Parquet file again")
    return as_pandas(table)


def as_pandas(rows: Any, **options: Any) -> pd.DataFrame:
    """Take rows of Arrow as a frame of pandas, in which integers stay exact where cells are missing."""
    frame: pd.DataFrame = rows.to_pandas(ignore_metadata=True, **options)
    for column, held in zip(rows.schema, rows.columns, strict=True):
        if held.null_count and (kind := whole_kind(column.type)):  # which would be floats
            frame[column.name] = held.to_pandas(types_mapper={column.type: kind}.get)
    return frame


def whole_kind(kind: Any) -> Any:
    """The dtype of pandas that holds integers of a type of Arrow and missing cells; None for other types."""
    import pyarrow as pa

    if not pa.types.is_integer(kind):
        return None
    return pd.UInt64Dtype() if kind == pa.uint64() else pd.Int64Dtype()


def without_row_labels(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Leave out the row labels without a name that pandas writes beside the columns; with a name they are columns."""
    labels = [name for name in frame.columns if ROW_LABELS.fullmatch(name)]
    return frame.drop(columns=labels), [LABELS_NOTE] * bool(labels)
