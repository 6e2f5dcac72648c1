"""Which columns of a table drive a prediction, and which drive the part of its doubt that more rows would remove.

Shapley values of the columns, see `gumdrop.tables.shapley`: all encoded columns of one column of the table move
together, so a category counts once, and the same draws of the networks answer all questions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gumdrop.machine.threads import limited_threads
from gumdrop.prediction import ClassificationPrediction
from gumdrop.tables.cells import mark_unknown
from gumdrop.tables.errors import TableError
from gumdrop.tables.model import TableModel
from gumdrop.tables.prediction import encoding_notes
from gumdrop.tables.reading.table import read_table
from gumdrop.tables.scoring import shown
from gumdrop.tables.shapley import Shares, shapley_shares

__all__ = ["TableExplanation", "explain_rows", "explain_table"]


OVERALL_ORDERS = 10
OVERALL_CALLS = 12_000
"""Encoded rows that the model is asked about, at most, to explain it as a whole, beside five rows at least."""


@dataclass(frozen=True, eq=False)
class TableExplanation:
    """What drives the predictions of some rows, and the unfamiliar part of their doubt."""

    columns: list[str]
    """Columns of the table, K."""
    kind: str
    """What is explained: `value` of a number, or `probability` of the predicted class."""
    predicted: list[str]
    """The predicted class of each row; empty texts for numbers."""
    prediction: Shares
    """Shares in the prediction: shape (N,), (N,), (N, K), (N, K), in units of the target or as probability."""
    epistemic: Shares
    """The same of the standard deviation of the drawn functions in units of the target, or of the mutual information
    in nats."""


def explain_rows(
    model: TableModel, x: Tensor, *, background: Tensor | None = None, orders: int = 100, seed: int = 0
) -> TableExplanation:
    """Explain the predictions of encoded rows.

    Args:
        model: The model.
        x: Inputs as `TableModel.predict` takes them, shape (N, F). Unknown cells are drawn as there, so the share of
            their column is what not knowing it does.
        background: Rows that stand for the usual one, shape (B, F); those that were kept with the model if None.
        orders: Random orders of the columns for each row, each of which is used forwards and backwards.
        seed: Seed of the orders.

    Returns:
        The shares of the columns.

    Raises:
        TableError: If the model was fitted without rows to compare with, and none are given.
        ValueError: If ``orders`` is less than 1.
    """
    background = model.background if background is None else background
    if not len(background):
        raise TableError("the model was fitted with --background 0: name a table to compare with, --against TABLE.csv")
    labels = None if model.is_regression else model.predict(x).label  # type: ignore[union-attr]

    def functions(rows: Tensor, of: Tensor) -> Tensor:
        prediction = model.predict(rows)
        if isinstance(prediction, ClassificationPrediction):
            assert labels is not None
            chosen = prediction.probabilities[torch.arange(len(rows)), labels[of]]
            return torch.stack([chosen, prediction.mutual_information], dim=1)
        return torch.cat([prediction.mean, prediction.epistemic.sqrt()], dim=1)

    with limited_threads(1):  # on a busy machine the threads of small networks wait for each other
        shares = shapley_shares(functions, x, background, model.schema.groups, orders=orders, seed=seed)
    names = [] if labels is None else [model.schema.target.classes[label] for label in labels]
    parts = (Shares(*(getattr(shares, name)[..., q] for name in vars(shares))) for q in range(2))
    kind = "value" if model.is_regression else "probability"
    return TableExplanation(model.schema.names, kind, names or [""] * len(x), *parts)


def explain_table(
    model: TableModel,
    table: Path | None,
    *,
    most: int = 20,
    orders: int = 100,
    against: Path | None = None,
    seed: int = 0,
    progress: bool = False,
    notify: Callable[[str], object] = lambda note: None,
) -> dict[str, Any]:
    """Explain the first rows of a table, and the model as a whole.

    Args:
        model: The model.
        table: File with the rows; none to explain the model alone.
        most: Rows to explain.
        orders: Random orders of the columns for each row.
        against: Table whose rows stand for the usual one; those that were kept with the model if None.
        seed: Seed of the orders.
        progress: Show a progress bar.
        notify: Called with a sentence for each thing that the reader should know.

    Returns:
        Plain data: `rows`, `overall`, and what they are shares of.

    Raises:
        TableError: If a table cannot be used, or there is nothing to compare with.
    """
    from tqdm.auto import tqdm

    background = model.background
    if against is not None:
        read = read_table(against, decimal=model.schema.decimal)
        background = torch.from_numpy(model.schema.encode_inputs(read.frame).x)
    notes: list[str] = []
    rows: list[dict[str, Any]] = []
    parts: list[tuple[dict[str, Any], Tensor]] = []
    if table is not None:
        read = read_table(table, decimal=model.schema.decimal)
        frame = read.frame.iloc[:most]
        encoded = model.schema.encode_inputs(frame)
        notes = read.notes + encoding_notes(model.schema, encoded, model)
        if len(read.frame) > most:
            notes.append(f"the first {most} of {len(read.frame):,} rows are explained; --most changes that")
        x = mark_unknown(model.schema, encoded.x, encoded.unknown, model.background)
        values = frame[model.schema.names].itertuples(index=False)
        parts = [
            ({"row": i + 1, "values": [shown(value) for value in row]}, x[i : i + 1]) for i, row in enumerate(values)
        ]
    for note in notes:
        notify(note)
    options: dict[str, Any] = {"background": background, "seed": seed}
    for row, x in tqdm(parts, desc="rows", disable=None if progress and len(parts) > 1 else True):
        rows.append(row | _plain_row(explain_rows(model, x, orders=orders, **options), model, x))
    return {
        "target": {"name": model.schema.target.name, "unit": model.unit, "task": model.schema.target.task},
        "coverage": model.coverage,
        "columns": model.schema.names,
        "background": {"rows": len(background), "source": "training" if against is None else against.name},
        "orders": orders,
        "seed": seed,
        "rows": rows,
        "overall": _overall(model, **options),
        "notes": notes,
    }


def _plain_row(found: TableExplanation, model: TableModel, x: Tensor) -> dict[str, Any]:
    """The explanation of one row as plain data."""
    predicted = model.prediction_frame(model.predict(x)).iloc[0]
    row: dict[str, Any] = {"prediction": predicted["prediction"]}
    if model.is_regression:
        row |= {"lower": predicted["lower"], "upper": predicted["upper"]}
    plain: dict[str, Any] = {name: v if isinstance(v, str) else float(v) for name, v in row.items()}
    for name, shares in (("explained", found.prediction), ("epistemic", found.epistemic)):
        plain[name] = {
            "value": float(shares.value[0]),
            "usual": float(shares.usual[0]),
            "shares": shares.share[0].tolist(),
            "errors": None if np.isnan(shares.error).any() else shares.error[0].tolist(),
        }
    return plain


def _overall(model: TableModel, *, background: Tensor, seed: int) -> dict[str, Any]:
    """Mean size of the shares over background rows: how much each column moves predictions at all."""
    calls = 2 * OVERALL_ORDERS * (len(model.schema.columns) + 1)
    count = min(len(background), max(5, OVERALL_CALLS // calls))
    some = background[torch.linspace(0, len(background) - 1, count).round().long()] if count else background
    found = explain_rows(model, some, background=background, orders=OVERALL_ORDERS, seed=seed)
    return {
        "rows": count,
        "explained": np.abs(found.prediction.share).mean(0).tolist(),
        "epistemic": np.abs(found.epistemic.share).mean(0).tolist(),
    }
