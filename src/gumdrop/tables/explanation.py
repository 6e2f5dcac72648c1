"""Which columns of a table drive a prediction, and which the part of its uncertainty that more rows would remove.

Shapley values of the columns, see `gumdrop.tables.shapley`: all encoded columns of one column of the table move
together, so a category counts once, and the same draws of the networks answer all questions.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gumdrop.machine.numerals import readable
from gumdrop.machine.picking import evenly
from gumdrop.machine.threads import limited_threads
from gumdrop.tables.cells import mark_unknown
from gumdrop.tables.errors import TableError
from gumdrop.tables.explained import Background, ColumnShares, ExplainedRow, ExplainedTarget, Overall, TableExplanation
from gumdrop.tables.model import TableModel
from gumdrop.tables.notes import encoding_notes
from gumdrop.tables.reading.table import read_table
from gumdrop.tables.scoring import shown
from gumdrop.tables.shapley import Shares, shapley_shares

ORDERS, ORDERS_OF_MANY = 100, 25
"""Random orders of the columns, of a table and of a wide one, whose rows take longer to predict."""
MANY, LEADING = 60, 40
"""Columns from which on not all are told apart, and how many then are."""
OVERALL_ORDERS = 10
OVERALL_CALLS = 12_000
"""Encoded rows that the model is asked about, at most, to explain it as a whole, beside five rows at least."""


@dataclass(frozen=True, eq=False)
class RowShares:
    """What drives the predictions of some rows, N, and the epistemic part of their uncertainty, by K columns."""

    prediction: Shares
    """Shares in the prediction: shape (N,), (N,), (N, K), (N, K), in units of the target or as probability."""
    epistemic: Shares
    """The same of the standard deviation of the drawn functions in units of the target, or of the mutual information
    in nats."""


def explain_rows(
    model: TableModel,
    x: Tensor,
    *,
    background: Tensor | None = None,
    columns: Sequence[int] | None = None,
    orders: int = ORDERS,
    seed: int = 0,
) -> RowShares:
    """Return what drives the predictions of encoded rows, (N, F), against background rows, (B, F)."""
    background = _checked(model.background if background is None else background)
    task = model.task
    labels = task.labels(model.predict_encoded(x))

    def functions(rows: Tensor, of: Tensor) -> Tensor:
        return task.explained(model.predict_encoded(rows), None if labels is None else labels[of])

    with limited_threads(1):  # on a busy machine the threads of small networks wait for each other
        shares = shapley_shares(functions, x, background, column_groups(model, columns), orders=orders, seed=seed)
    return RowShares(*(Shares(*(each[..., q] for each in vars(shares).values())) for q in range(2)))


def explain_table(
    model: TableModel,
    table: Path | None,
    *,
    most: int = 20,
    orders: int | None = None,
    against: Path | None = None,
    seed: int = 0,
    progress: bool = False,
    notify: Callable[[str], object] = lambda note: None,
) -> TableExplanation:
    """Return what drives the first ``most`` rows of a table, if there is one, and the model as a whole.

    Of more than 60 columns the 40 that predictions are most sensitive to (`leading_columns`) are told apart, and all
    others count as one. A sentence for each thing that the reader should know goes to ``notify``.
    """
    background = _background(model, against)
    rows, notes = ([], []) if table is None else _rows_to_explain(model, table, most)
    names, columns, largest = model.schema.names, None, OVERALL_CALLS // (2 * OVERALL_ORDERS)
    usual = _usual_rows(background, largest // (min(len(names), MANY) + 1))
    if len(names) > MANY:
        columns = leading_columns(model, torch.cat([usual, *(x for *_, x in rows)]), background, LEADING)
        notes.append(_many_note(len(names)))
    for note in notes:
        notify(note)
    orders = orders or (ORDERS if columns is None else ORDERS_OF_MANY)
    shares = functools.partial(explain_rows, model, background=background, columns=columns, seed=seed)
    of_rows, of_usual = _over_rows(shares, [x for *_, x in rows], usual, orders, progress)
    explained = [
        _explained(model, cells, _told_apart(values, columns, "–"), x, its_shares)
        for (cells, values, x), its_shares in zip(rows, of_rows, strict=True)
    ]
    if columns is not None and explained:
        notes.append(_error_note(explained, orders))
        notify(notes[-1])
    return TableExplanation(
        target=ExplainedTarget(model.schema.target.name, model.unit, model.schema.target.task),
        coverage=model.coverage,
        columns=_told_apart(names, columns, f"{len(names) - LEADING:,} other columns"),
        background=Background(len(background), "training" if against is None else against.name),
        orders=orders,
        seed=seed,
        rows=explained,
        overall=_overall(of_usual),
        notes=notes,
    )


def _over_rows(
    shares: Callable[..., RowShares], rows: list[Tensor], usual: Tensor, orders: int, progress: bool
) -> tuple[list[RowShares], list[RowShares]]:
    """Explain rows, and in fewer orders those that stand for the model as a whole."""
    from tqdm.auto import tqdm

    with tqdm(total=len(rows) + len(usual), desc="rows", disable=None if progress else True) as bar:

        def told(x: Tensor, orders: int) -> RowShares:
            bar.update()
            return shares(x, orders=orders)

        return [told(x, orders) for x in rows], [told(x, OVERALL_ORDERS) for x in usual.split(1)]


def _told_apart(cells: list[str], columns: Sequence[int] | None, others: str) -> list[str]:
    return cells if columns is None else [*(cells[k] for k in columns), others]


def _checked(background: Tensor) -> Tensor:
    if not len(background):
        raise TableError("the model was fitted with --background 0: name a table to compare with, --against TABLE.csv")
    return background


def _background(model: TableModel, against: Path | None) -> Tensor:
    """Encoded rows that stand for the usual one."""
    if against is None:
        return _checked(model.background)
    return torch.from_numpy(model.schema.encode_inputs(read_table(against, **model.schema.reading).frame).x)


def _rows_to_explain(
    model: TableModel, table: Path, most: int
) -> tuple[list[tuple[pd.DataFrame, list[str], Tensor]], list[str]]:
    """The first rows of a table: all cells, inputs as a reader sees them, encoded inputs; and notes on them."""
    read = read_table(table, **model.reading)
    frame = read.frame.iloc[:most]
    encoded = model.schema.encode_inputs(frame)
    notes = read.notes + encoding_notes(model.schema, encoded, model.background)
    if len(read.frame) > most:
        notes.append(f"the first {most} of {len(read.frame):,} rows are explained; --most changes that")
    x = mark_unknown(model.schema, encoded.x, encoded.unknown, model.background)
    values = frame[model.schema.names].itertuples(index=False)
    return [
        (frame.iloc[i : i + 1], [shown(value) for value in row], x[i : i + 1]) for i, row in enumerate(values)
    ], notes


def _explained(model: TableModel, cells: pd.DataFrame, values: list[str], x: Tensor, shares: RowShares) -> ExplainedRow:
    predicted = model.prediction_frame(model.on_levels(model.predict_encoded(x), cells)).iloc[0]
    answer = predicted["prediction"]
    prediction = answer if isinstance(answer, str) else float(answer)
    lower, upper = (float(predicted[end]) if end in predicted else None for end in ("lower", "upper"))
    parts = (_of_one_row(each) for each in (shares.prediction, shares.epistemic))
    return ExplainedRow(int(cells.index[0]) + 1, values, prediction, lower, upper, *parts)


def _of_one_row(shares: Shares) -> ColumnShares:
    errors = None if np.isnan(shares.error).any() else shares.error[0].tolist()
    return ColumnShares(float(shares.value[0]), float(shares.usual[0]), shares.share[0].tolist(), errors)


def _usual_rows(background: Tensor, most: int) -> Tensor:
    """Rows that are spread evenly over the background, to explain the model as a whole."""
    return background[torch.from_numpy(evenly(len(background), max(5, most)))]


def _overall(rows: list[RowShares]) -> Overall:
    """The mean size of the shares of some rows."""
    sizes = (
        np.mean([np.abs(each.share[0]) for each in parts], axis=0).tolist()
        for parts in ([row.prediction for row in rows], [row.epistemic for row in rows])
    )
    return Overall(len(rows), *sizes)


def _many_note(count: int) -> str:
    return (
        f"of {count:,} columns the {LEADING} that predictions are most sensitive to are told apart, and the other "
        f"{count - LEADING:,} count as one"
    )


def _error_note(rows: list[ExplainedRow], orders: int) -> str:
    parts = ([row.explained for row in rows], [row.epistemic for row in rows])
    most, most_epistemic = (readable(max(max(each.errors or [0.0]) for each in part), 2) for part in parts)
    return (
        f"by {orders} orders the standard error of a share is at most {most}, of one in the epistemic part "
        f"{most_epistemic}; --orders makes it smaller"
    )


def leading_columns(model: TableModel, rows: Tensor, background: Tensor, most: int) -> list[int]:
    """Return places of the columns that move the networks most, to first order, between the usual row and some rows.

    The sensitivity to a column on a row is the slope of a network's answer (its mean, or the lead of its first class
    over the second) times the column's distance from the usual, at the row and half-way to it, without dropout. Its
    size is averaged over the networks, so that a column on which they disagree counts, too, and what counts in the end
    is its largest share of the sensitivity on a row. What is unknown, NaN, is as usual.
    """
    usual = background.nanmean(0)
    rows = torch.where(rows.isnan(), usual, rows)
    group_of = torch.zeros(rows.shape[1], dtype=torch.long)
    for k, group in enumerate(model.schema.groups):
        group_of[group] = k
    sensitivity = torch.zeros(len(rows), len(model.schema.columns))
    for member in model.ensemble.members:
        for at in (rows, (rows + usual) / 2):
            point = at.clone().requires_grad_()
            (slope,) = torch.autograd.grad(model.task.answer(member(point)).sum(), point)
            pushes = torch.zeros_like(sensitivity).index_add_(1, group_of, slope * (rows - usual))
            sensitivity += pushes.abs()
    shares = sensitivity / sensitivity.sum(1, keepdim=True).clamp_min(1e-30)
    return sorted(shares.amax(0).topk(most).indices.tolist())


def column_groups(model: TableModel, columns: Sequence[int] | None) -> list[np.ndarray]:
    """Encoded columns that are explained as one."""
    groups = [np.arange(group.start, group.stop) for group in model.schema.groups]
    if columns is None:
        return groups
    others = [group for k, group in enumerate(groups) if k not in set(columns)]
    return [*(groups[k] for k in columns), *([np.concatenate(others)] if others else [])]
