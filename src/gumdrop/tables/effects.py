"""How predictions change with a column: partial dependence, and how far the drawn functions disagree on it.

References:
    Friedman 2001, "Greedy function approximation: a gradient boosting machine" (Annals of Statistics 29), section 8.2.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gumdrop.machine.picking import evenly
from gumdrop.machine.threads import limited_threads
from gumdrop.tables.model import TableModel
from gumdrop.tables.results import Cells, Effect
from gumdrop.tables.schema.cells import labels_of
from gumdrop.tables.schema.columns import CategoryColumn, Column

COLUMNS = 4
"""Columns that are looked at."""
ROWS, DRAWS = 100, 20
"""Rows whose cells are replaced, and functions that are asked one by one, at least."""
POINTS, LABELS = 16, 8
"""Numbers and categories that are put in."""


def effects(
    model: TableModel, x: Tensor, inputs: pd.DataFrame, columns: Sequence[Column], label: int | None
) -> list[Effect]:
    """Put cells of other test rows into all rows, (N, F), column by column; of a class its probability is predicted."""
    places = dict(zip(model.schema.names, model.schema.groups, strict=True))
    grids = [_grid(column, inputs[column.name]) for column in columns]
    rows = x[evenly(len(x), ROWS)]
    mixed = [with_cells(rows, places[cells.name], x[donors][:, None]) for cells, donors in grids]
    if not mixed:
        return []
    count = len(model.ensemble.members)  # of which each gives as many functions
    functions = [model.alone(i % count, 1, seed=i) for i in range(-(-DRAWS // count) * count)]
    with limited_threads(1):
        drawn = torch.stack([_means(each, torch.cat(mixed), label) for each in functions])
    spread, mean = torch.var_mean(drawn, dim=0, correction=0)
    sizes = [len(donors) for _, donors in grids]
    parts = zip(grids, mean.split(sizes), spread.sqrt().split(sizes), strict=True)
    return [Effect(**vars(cells), mean=m.tolist(), epistemic=s.tolist()) for (cells, _), m, s in parts]


def _grid(column: Column, cells: pd.Series) -> tuple[Cells, np.ndarray]:
    """Cells to put in, in their order, and a row that has each."""
    if isinstance(column, CategoryColumn):
        names, first, counts = np.unique(np.array(labels_of(cells)), return_index=True, return_counts=True)
        pick = np.sort(np.argsort(-counts, kind="stable")[:LABELS])
        return Cells(name=column.name, labels=names[pick].tolist()), first[pick]
    values = column.axis.read(cells)
    order = np.argsort(values, kind="stable")[: int((~np.isnan(values)).sum())]
    pick = order[evenly(len(order), POINTS)]
    numbers, first = np.unique(values[pick], return_index=True)
    return Cells(name=column.name, numbers=numbers.tolist(), dates=column.kind == "date"), pick[first]


def with_cells(rows: Tensor, place: slice, donors: Tensor) -> Tensor:
    """Rows, (N, F), with the cell of each of their donors, (M, N or 1, F): shape (M, N, F)."""
    mixed = rows.repeat(len(donors), 1, 1)
    mixed[:, :, place] = donors[:, :, place]
    return mixed


def _means(function: TableModel, mixed: Tensor, label: int | None) -> Tensor:
    """Mean over the rows of what a function predicts for each cell."""
    prediction = function.predict_encoded(mixed.flatten(0, 1))
    labels = None if label is None else torch.full((mixed.shape[0] * mixed.shape[1],), label)
    told: Tensor = function.task.explained(prediction, labels)[:, 0]
    return told.double().unflatten(0, mixed.shape[:2]).mean(1)
