"""Predict the rows of a table with a model from a folder, and tell what was odd in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from gumdrop.atomic import replacing
from gumdrop.datasets.columns import CategoryColumn, Column, DateColumn, NumericColumn
from gumdrop.datasets.schema import Encoded, TableSchema, check_present
from gumdrop.datasets.tabular import TableError
from gumdrop.tables import TableModel
from gumdrop.threads import limited_threads

__all__ = ["Predicted", "encoding_notes", "predict_frame", "write_table"]

ROWS_AT_ONCE = 65536
ROWS_FOR_THREADS = 20_000
"""Rows from which several threads predict; below, these wait for each other on a busy machine."""
ODD = {"missing": "missing_cells", "unseen": "unseen_cells", "outside": "outside_cells"}
"""What may be odd about a cell, and the column of the predictions that counts it for each row."""


@dataclass(frozen=True, eq=False)
class Predicted:
    """The predictions of a table, and what was odd in it."""

    frame: pd.DataFrame
    """One row for each row of the table, see `TableModel.prediction_frame`; beside it the number of cells of the row
    that are missing, of a category that training did not have, and far outside the numbers of training."""
    unseen: dict[str, dict[str, int]]
    """Count of each category that training did not have, by column."""
    missing: dict[str, int]
    """Count of missing cells, by column."""
    outside: dict[str, int]
    """Count of numbers beyond the training range by more than a standard deviation, by column."""
    notes: list[str]
    """The same in sentences."""


def predict_frame(model: TableModel, frame: pd.DataFrame, *, keep: Sequence[str] = ()) -> Predicted:
    """Predict a table.

    Args:
        model: The model.
        frame: A table with at least the columns of the schema.
        keep: Columns of the table to carry along, such as one that names the rows.

    Returns:
        The predictions.

    Raises:
        TableError: If the table does not fit the schema, or lacks a column to keep.
    """
    check_present(frame, keep)
    parts, encoded = [], []
    for start in range(0, len(frame), ROWS_AT_ONCE):  # bounds the memory that the draws take
        rows = model.schema.encode_inputs(frame.iloc[start : start + ROWS_AT_ONCE])
        with limited_threads(1 if len(frame) < ROWS_FOR_THREADS else None):
            predicted = model.prediction_frame(model.predict(torch.from_numpy(rows.x)))
        parts.append(pd.concat([predicted, rows.odd_cells.rename(columns=ODD)], axis=1))
        encoded.append(rows)
    predictions = pd.concat(parts, ignore_index=True)
    if both := [name for name in ("row", *predictions.columns) if name in keep]:
        raise TableError(f"column {both[0]!r} cannot be kept, because a column of the predictions has this name")
    for place, name in enumerate(dict.fromkeys(keep)):
        predictions.insert(place, name, frame[name].to_numpy())
    whole = _joined(encoded)
    notes = [*extra_notes(model.schema, list(frame.columns), keep), *encoding_notes(model.schema, whole)]
    return Predicted(predictions, whole.unseen, whole.missing, whole.outside, notes)


def _joined(parts: Sequence[Encoded]) -> Encoded:
    """The counts of several parts of a table together; of the first part the inputs."""
    unseen: dict[str, dict[str, int]] = {}
    missing: dict[str, int] = {}
    outside: dict[str, int] = {}
    for part in parts:
        for column, counts in part.unseen.items():
            _add(unseen.setdefault(column, {}), counts)
        _add(missing, part.missing)
        _add(outside, part.outside)
    return Encoded(parts[0].x, unseen, missing, outside, parts[0].odd_cells)


def _add(total: dict[str, int], counts: dict[str, int]) -> None:
    for key, count in counts.items():
        total[key] = total.get(key, 0) + count


def extra_notes(schema: TableSchema, columns: list[str], keep: Sequence[str]) -> list[str]:
    """Say which columns of a table the model has no use for."""
    known = {*schema.names, schema.target.name, *keep}
    extra = [name for name in columns if name not in known]
    return [f"not used, because training did not have them: {_quoted(extra)}"] if extra else []


def encoding_notes(schema: TableSchema, encoded: Encoded) -> list[str]:
    """Say what encoding had to make up.

    Args:
        schema: The schema that encoded.
        encoded: What it counted.

    Returns:
        One sentence for each column concerned.
    """
    columns: dict[str, Any] = {column.name: column for column in schema.columns}
    notes = []
    for name, counts in encoded.unseen.items():
        folded = {category.casefold(): category for category in columns[name].categories}
        said = [
            f"'{label}' ({_counted(count, 'row')}"
            + (f"; did you mean '{folded[label.casefold()]}'?)" if label.casefold() in folded else ")")
            for label, count in list(counts.items())[:5]
        ]
        more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
        notes.append(f"categories of '{name}' that training did not have count as none of the known: "
                     f"{', '.join(said)}{more}")  # fmt: skip
    return [
        *_few([_missing_note(columns[name], count) for name, count in encoded.missing.items()], "with missing values"),
        *notes,
        *_few([_outside_note(columns[name], n) for name, n in encoded.outside.items()], "with values far outside"),
    ]


def _few(notes: list[str], what: str) -> list[str]:
    """The first notes of one kind, and how many more there are."""
    return notes if len(notes) <= 6 else [*notes[:5], f"and {len(notes) - 5} more columns {what}"]


def _missing_note(column: Column, count: int) -> str:
    if isinstance(column, CategoryColumn):
        how = "kept as a category of their own" if "" in column.categories else "left blank"
    else:
        how = "set to the training median"
    return f"{_counted(count, 'missing value')} in '{column.name}' {'was' if count == 1 else 'were'} {how}"


def _outside_note(column: NumericColumn | DateColumn, count: int) -> str:
    least, most = (_edge(column, value) for value in (column.least, column.most))
    return (
        f"{_counted(count, 'value')} of '{column.name}' {'is' if count == 1 else 'are'} far outside the training range "
        f"({least} to {most}): the model has not seen the like"
    )


def _edge(column: NumericColumn | DateColumn, value: float) -> str:
    return f"{pd.Timestamp(value, unit='D'):%Y-%m-%d}" if column.kind == "date" else f"{value:.6g}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' if count != 1 else ''}"


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def write_table(frame: pd.DataFrame, place: Path) -> None:
    """Write a table, in the format that its name ends with.

    Args:
        frame: The table.
        place: `NAME.parquet`, or CSV: `NAME.csv`, `NAME.csv.gz` or any other name.

    Raises:
        TableError: If the file is to be Parquet, and the library for it is not installed.
    """
    parquet = place.suffix.lower() in {".parquet", ".pq"}
    try:
        with replacing(place, "wb") as file:
            if parquet:
                frame.to_parquet(file, index=False)
            else:
                gzip = {"method": "gzip", "mtime": 0}  # the same predictions, the same bytes
                frame.to_csv(file, index=False, compression=gzip if place.suffix == ".gz" else None)
    except ImportError as error:
        raise TableError(f"{place} needs pyarrow: pip install 'gumdrop[parquet]', or write CSV") from error
