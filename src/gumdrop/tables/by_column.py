"""The test rows of a fit column by column: what it is worth, its effect, and rows for which promises may fail.

References:
    Breiman 2001, "Random Forests" (Machine Learning 45), for the importance by permutation.
    Friedman 2001, "Greedy function approximation: a gradient boosting machine" (Annals of Statistics 29), section 8.2.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gumdrop.machine.picking import evenly
from gumdrop.machine.threads import limited_threads
from gumdrop.tables.model import TableModel
from gumdrop.tables.profile import ColumnProfile
from gumdrop.tables.results import LIKELIHOOD, ByColumn, Cells, Effect, Gain, Group, Importance, Spread
from gumdrop.tables.schema.cells import index_labels, quarter_ends
from gumdrop.tables.schema.columns import CategoryColumn, Column
from gumdrop.tables.scoring import row_gains

CALLS = 40_000
"""Encoded rows that the model is asked about for the importance of all columns, beside `LEAST_ROWS` for each column."""
DRAWS = 20
"""Draws for each of them: the same for a row with the right cell and with another, so that few are enough. And
functions that are asked one by one for an effect, at least."""
MOST_ROWS, LEAST_ROWS = 500, 10
COLUMNS = 6
"""Columns, those that are worth most, whose cells are drawn and whose numbers make groups."""
ROWS_OF_A_GROUP = 10
"""Rows below which nothing is said of a group."""
WITH_EFFECT, ROWS = 4, 100
"""Columns whose effect is drawn, and rows whose cells are replaced for it."""
POINTS, LABELS = 16, 8
"""Numbers and categories that are put in."""


def by_column(
    model: TableModel, x: Tensor, observed: Tensor, tested: pd.DataFrame, inputs: pd.DataFrame, split_by: str | None
) -> ByColumn:
    """Look at the test rows column by column: as they are encoded, observed, written out, and in the table."""
    importance, rows, shuffles = _importance(model, x, observed)
    columns = {column.name: column for column in model.schema.columns}
    first = [columns[each.name] for each in importance[:COLUMNS]]
    split = columns.get(split_by, CategoryColumn(split_by, ())) if split_by is not None else None
    grouped = [*first, *(c for c in columns.values() if isinstance(c, CategoryColumn)), *([split] if split else [])]
    label = model.task.sought(observed)  # none of a number
    pick = evenly(len(inputs) if label is None else 0, 200)
    profiles = model.profile.columns if model.profile else []
    return ByColumn(
        spreads=[_spread(columns[name], each) for name, each in zip(columns, profiles, strict=False)],
        effects=effects(model, x, inputs, first[:WITH_EFFECT], label),
        effects_of=None if label is None else model.schema.target.classes[label],
        importance=importance,
        rows=rows,
        shuffles=shuffles,
        groups=_groups({column.name: column for column in grouped}.values(), model, observed, tested, inputs),
        cell_rows=tested["row"].iloc[pick].tolist(),
        cells=[_cells(column, inputs[column.name].iloc[pick]) for column in first] if label is None else [],
    )


def _spread(column: Column, profile: ColumnProfile) -> Spread:
    if isinstance(column, CategoryColumn):
        return Spread(name=column.name, kind=column.kind, labels=list(column.categories), counts=profile.counts)
    edges = [edge * column.std + column.mean for edge in profile.edges]
    words = [column.rounded(end) for end in (column.least, column.most)]
    return Spread(name=column.name, kind=column.cycle or column.kind, labels=words, edges=edges, counts=profile.counts)


def _importance(model: TableModel, x: Tensor, observed: Tensor) -> tuple[list[Importance], int, int]:
    """What each column is worth, and on how many rows and shuffles that rests."""
    groups, names = model.schema.groups, model.schema.names
    count = min(len(x), MOST_ROWS, max(LEAST_ROWS, CALLS // len(groups)))
    if count < 2:  # no other row to take a cell from
        return [], count, 0
    shuffles = min(5, count - 1, max(1, CALLS // (len(groups) * count)))
    pick = torch.from_numpy(evenly(len(x), count))
    x, observed = x[pick], observed[pick]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(model.seed))
    donors = torch.stack([order.roll(-s)[order.argsort()] for s in range(1, shuffles + 1)])  # never the row itself
    quick = dataclasses.replace(model, num_samples=min(model.num_samples, DRAWS))
    importance = []
    with limited_threads(1):
        right = quick.predict_encoded(x)
        at_once = max(1, 4096 // (shuffles * count))
        for start in range(0, len(groups), at_once):
            some = groups[start : start + at_once]
            mixed = torch.stack([with_cells(x, group, x[donors]) for group in some]).flatten(0, 2)
            wrong = quick.predict_encoded(mixed)
            for k in range(len(some)):
                at = np.arange(k * shuffles * count, (k + 1) * shuffles * count).reshape(shuffles, count)
                gains = [row_gains(model.task, right, wrong.rows(torch.from_numpy(rows)), observed) for rows in at]
                importance.append(_worth(names[start + k], gains))
    importance.sort(key=lambda column: -column.gains[LIKELIHOOD].mean)
    return importance, count, shuffles


def _worth(name: str, gains: Sequence[dict[str, Tensor]]) -> Importance:
    """Mean over shuffles and rows; the rows give the standard error."""
    means = {measure: torch.stack([each[measure] for each in gains]).double().mean(0) for measure in gains[0]}
    return Importance(
        name, {measure: Gain(g.mean().item(), g.std().item() / math.sqrt(len(g))) for measure, g in means.items()}
    )


def _groups(
    columns: Iterable[Column], model: TableModel, observed: Tensor, tested: pd.DataFrame, inputs: pd.DataFrame
) -> list[Group]:
    """Rows of each category, and of each quarter of numbers and dates, if they are enough to say something."""
    promises, groups = model.task.promises(tested, observed, model.coverage), []
    if promises is None:
        return []
    held, stated = promises
    for column in columns:
        labels = _labels(column, inputs[column.name])
        for label in sorted(set(labels)):
            rows = np.flatnonzero(labels == label)
            if ROWS_OF_A_GROUP <= len(rows) < len(labels):
                share = round(float(stated[rows].mean()), 12)
                group = Group(column=column.name, words=label, rows=len(rows), held=int(held[rows].sum()), stated=share)
                groups.append(group)
    return sorted(groups, key=lambda group: -group.rows)[:300]


def _labels(column: Column, cells: pd.Series) -> np.ndarray:
    """The group of each row, in words."""
    if isinstance(column, CategoryColumn):
        return np.array([label or "(missing)" for label in column.labels(cells)], dtype=object)
    values = column.axis.read(cells)
    known = ~np.isnan(values)
    labels = np.full(len(values), "(missing)", dtype=object)
    quarter = np.full(len(values), -1)
    quarter[known] = np.searchsorted(quarter_ends(values), values[known])
    for k in np.unique(quarter[known]):
        some = values[quarter == k]
        least, most = (column.axis.words(float(value)) for value in (some.min(), some.max()))
        labels[quarter == k] = least if least == most else f"{least} to {most}"
    return labels


def _cells(column: Column, cells: pd.Series) -> Cells:
    if isinstance(column, CategoryColumn):
        return Cells(name=column.name, labels=column.labels(cells))
    numbers = [None if math.isnan(value) else float(value) for value in column.axis.read(cells)]
    return Cells(name=column.name, numbers=numbers, dates=column.kind == "date")


def effects(
    model: TableModel, x: Tensor, inputs: pd.DataFrame, columns: Sequence[Column], label: int | None
) -> list[Effect]:
    """Put cells of other test rows into all rows, (N, F), column by column; of a class its probability is predicted."""
    groups = dict(zip(model.schema.names, model.schema.groups, strict=True))
    grids = [_grid(column, inputs[column.name]) for column in columns]
    rows = x[evenly(len(x), ROWS)]
    mixed = [with_cells(rows, groups[cells.name], x[donors][:, None]) for cells, donors in grids]
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
        names, first, counts = np.unique(np.array(column.labels(cells)), return_index=True, return_counts=True)
        rank = index_labels(names.tolist(), column.categories) % (len(column.categories) + 1)  # of no category last
        pick = np.argsort(-counts, kind="stable")[:LABELS]
        pick = pick[rank[pick].argsort(kind="stable")]
        return Cells(name=column.name, labels=names[pick].tolist()), first[pick]
    values = column.axis.read(cells)
    order = np.argsort(values, kind="stable")[: int((~np.isnan(values)).sum())]
    pick = order[evenly(len(order), POINTS)]
    numbers, first = np.unique(values[pick], return_index=True)
    return Cells(name=column.name, numbers=numbers.tolist(), dates=column.kind == "date"), pick[first]


def with_cells(rows: Tensor, group: slice, donors: Tensor) -> Tensor:
    """Rows, (N, F), with the cell of each of their donors, (M, N or 1, F): shape (M, N, F)."""
    mixed = rows.repeat(len(donors), 1, 1)
    mixed[:, :, group] = donors[:, :, group]
    return mixed


def _means(function: TableModel, mixed: Tensor, label: int | None) -> Tensor:
    """Mean over the rows of what a function predicts for each cell."""
    prediction = function.predict_encoded(mixed.flatten(0, 1))
    labels = None if label is None else torch.full((mixed.shape[0] * mixed.shape[1],), label)
    told: Tensor = function.task.explained(prediction, labels)[:, 0]
    return told.double().unflatten(0, mixed.shape[:2]).mean(1)
