"""What training rows look like, column by column, in few enough numbers to be kept with a model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gumdrop.tables.schema.columns import CategoryColumn
from gumdrop.tables.schema.schema import TableSchema

DECILES = np.arange(1, 10) / 10


@dataclass(frozen=True)
class ColumnProfile:
    """How the training rows spread over the bins of a column."""

    edges: list[float] = field(default_factory=list)
    """Upper ends of the bins of a column of numbers or dates, in encoded units: below the least value, deciles, up to
    the largest, and beyond. None for categories, each of which is a bin."""
    counts: list[int] = field(default_factory=list)
    """Training rows in each bin; the last bin is of cells that are missing, or of no known category."""


@dataclass(frozen=True)
class Profile:
    """What a new table is compared with."""

    columns: list[ColumnProfile]
    """Of each column of the schema, over the training rows."""
    epistemic: float
    """The epistemic uncertainty that nine tenths of the test rows stay below, in the unit of `TableTask.epistemic`."""
    test_rows: int
    """How many test rows there were."""
    test_above: int
    """How many of them are above it."""


def column_profiles(schema: TableSchema, x: np.ndarray, unknown: np.ndarray) -> list[ColumnProfile]:
    """Take the profile of each column from encoded rows, (N, F), and which of their cells have a stand-in, (N, K)."""
    edges: list[list[float]] = []
    for k, (column, group) in enumerate(zip(schema.columns, schema.groups, strict=True)):
        known = x[~unknown[:, k], group.start]
        if isinstance(column, CategoryColumn) or not len(known):
            edges.append([])
            continue
        below = np.nextafter(known.min(), np.float32(-np.inf))  # the first bin is of what is less than all values
        ends = [below, *np.quantile(known, DECILES, method="inverted_cdf"), known.max()]
        edges.append(np.unique(ends).tolist())
    counts = tally(schema, edges, x, unknown)
    return [ColumnProfile(*each) for each in zip(edges, (each.tolist() for each in counts), strict=True)]


def tally(
    schema: TableSchema, edges: Sequence[Sequence[float]], x: np.ndarray, unknown: np.ndarray
) -> list[np.ndarray]:
    """Count encoded rows in the bins of each column; the counts of several tables add up."""
    counts = []
    for k, (column, group) in enumerate(zip(schema.columns, schema.groups, strict=True)):
        if isinstance(column, CategoryColumn):
            seen = x[:, group].sum(0).astype(np.int64)
            counts.append(np.append(seen, len(x) - seen.sum()))
        else:
            known = x[~unknown[:, k], group.start]
            bins = np.bincount(np.searchsorted(np.asarray(edges[k], x.dtype), known), minlength=len(edges[k]) + 1)
            counts.append(np.append(bins, len(x) - len(known)))
    return counts
