"""Conformal levels of a table model: of all rows that its networks have not seen, and of the groups of some columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gumdrop.likelihoods.conformal import ConformalLevels
from gumdrop.tables.errors import check_present, listed
from gumdrop.tables.schema.cells import index_labels, labels_of, quarter_ends
from gumdrop.tables.schema.columns import CategoryColumn
from gumdrop.tables.schema.schema import TableSchema

LEAST_ROWS = 50
"""Held-out rows from which a group has levels of its own: with fewer, its intervals would be wide by chance."""


@dataclass(frozen=True)
class GroupColumn:
    """A column whose groups have levels of their own."""

    name: str
    """The column."""
    ends: list[float] | None
    """Of numbers and dates: the upper ends of the first three quarters of the training rows; None for categories."""
    places: dict[str, int]
    """The number of the levels of each group that has its own: the label of a category, or the number of a quarter."""

    def labels(self, schema: TableSchema, frame: pd.DataFrame) -> np.ndarray:
        """Group of each row, shape (N,)."""
        cells = frame[self.name]
        if self.ends is None:
            return np.array(labels_of(cells), dtype=object)
        (column,) = (each for each in schema.columns if each.name == self.name)
        assert not isinstance(column, CategoryColumn), "categories have no ends"
        values = column.axis.read(cells)
        quarters = np.searchsorted(self.ends, values).astype(str).astype(object)
        return np.where(np.isnan(values), "", quarters)


@dataclass(frozen=True, eq=False)
class Conformal:
    """By which levels intervals and sets hold what they promise."""

    levels: tuple[ConformalLevels, ...]
    """Those of all rows, and of each group."""
    columns: tuple[GroupColumn, ...] = ()
    """The columns that make groups."""

    def groups(self, schema: TableSchema, frame: pd.DataFrame) -> Tensor | None:
        """Numbers of the levels of each row, one for each column, shape (N, K); None without columns."""
        if not self.columns:
            return None
        check_present(frame.columns, [column.name for column in self.columns])
        known = [index_labels(list(c.labels(schema, frame)), tuple(c.places)) for c in self.columns]
        levels = [np.array([*c.places.values(), 0]) for c in self.columns]  # the last for labels without any
        return torch.from_numpy(np.stack([each[i] for each, i in zip(levels, known, strict=True)], axis=1))

    def updated(self, conformity: Tensor, groups: Tensor | None) -> "Conformal":
        """Follow rows whose targets have become known, see `ConformalLevels.updated`; each those of its groups."""
        levels = [self.levels[0].updated(conformity)]
        for number, of_group in enumerate(self.levels[1:], 1):
            assert groups is not None, "levels beyond the first are of groups"
            levels.append(of_group.updated(conformity[(groups == number).any(1)]))
        return Conformal(tuple(levels), self.columns)


def conformal_of(
    conformity: Tensor, frame: pd.DataFrame, schema: TableSchema, by: Sequence[str]
) -> tuple[Conformal, list[str]]:
    """Take levels from the conformity of held-out rows, (N, D, 2), NaN for none, and say what a reader should know."""
    known = ~conformity.isnan().any(-1).any(-1).numpy()
    levels, columns = [ConformalLevels.of(conformity[known])], []
    what = "sets of classes" if schema.target.classes else "intervals"
    notes = [f"{what} are conformal: {known.sum():,} training rows, each predicted by networks that have not seen it, "
             "set their level"]  # fmt: skip
    for name in by:
        column = _column(name, schema, frame)
        labels, few = list(column.labels(schema, frame)), []
        for label in sorted({each for each, is_known in zip(labels, known, strict=True) if is_known}):
            rows = known & (np.array(labels, dtype=object) == label)
            if rows.sum() < LEAST_ROWS:
                few.append(f"{label or '(missing)'} ({rows.sum()})")
                continue
            column.places[label] = len(levels)
            levels.append(ConformalLevels.of(conformity[rows]))
        columns.append(column)
        if few:
            notes.append(f"groups of '{name}' with fewer than {LEAST_ROWS} of these rows keep the level of all rows: "
                         f"{listed(few)}")  # fmt: skip
    return Conformal(tuple(levels), tuple(columns)), notes


def _column(name: str, schema: TableSchema, frame: pd.DataFrame) -> GroupColumn:
    """A column before its groups are known."""
    column = {each.name: each for each in schema.columns}.get(name)
    if column is None or isinstance(column, CategoryColumn):
        return GroupColumn(name, None, {})
    return GroupColumn(name, quarter_ends(column.axis.read(frame[name])).tolist(), {})
