"""Which columns of a wide table are worth explaining one by one: those with the most leverage on what is predicted."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gumdrop.tables.model import TableModel


def leading_columns(model: TableModel, rows: Tensor, background: Tensor, most: int) -> list[int]:
    """Return places of the columns that move the networks most, to first order, between the usual row and some rows.

    The leverage of a column on a row is the slope of a network's answer (its mean, or by how much its first class leads
    the second) times the column's distance from the usual, at the row and half-way to it, without dropout. Its size is
    averaged over the networks, so that a column on which they disagree counts, too, and what counts in the end is its
    largest share of the leverage on a row. What is unknown, NaN, is as usual.
    """
    usual = background.nanmean(0)
    rows = torch.where(rows.isnan(), usual, rows)
    place = torch.zeros(rows.shape[1], dtype=torch.long)
    for k, group in enumerate(model.schema.groups):
        place[group] = k
    leverage = torch.zeros(len(rows), len(model.schema.columns))
    for member in model.ensemble.members:
        for at in (rows, (rows + usual) / 2):
            point = at.clone().requires_grad_()
            (slope,) = torch.autograd.grad(_answer(model, member(point)), point)
            pushes = torch.zeros_like(leverage).index_add_(1, place, slope * (rows - usual))
            leverage += pushes.abs()
    shares = leverage / leverage.sum(1, keepdim=True).clamp_min(1e-30)
    return sorted(shares.amax(0).topk(most).indices.tolist())


def _answer(model: TableModel, output: Tensor) -> Tensor:
    """What the networks answer, summed over rows, as far as it stays steep where they are sure."""
    if model.schema.target.task == "regression":
        return output.chunk(2, dim=-1)[0].sum()
    first, second = output.topk(2, dim=-1).values.unbind(-1)
    return (first - second).sum()


def column_groups(model: TableModel, columns: Sequence[int] | None) -> list[np.ndarray]:
    """Encoded columns that are explained as one."""
    places = [np.arange(group.start, group.stop) for group in model.schema.groups]
    if columns is None:
        return places
    others = [place for k, place in enumerate(places) if k not in set(columns)]
    return [*(places[k] for k in columns), *([np.concatenate(others)] if others else [])]
