"""The one pass over a long table that decides on its columns and keeps a sample."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from gumdrop.machine.recording import is_constant
from gumdrop.machine.scaling import unit_of
from gumdrop.tables.errors import check_present
from gumdrop.tables.reading.times import order_of
from gumdrop.tables.schema.cells import numbers_of
from gumdrop.tables.schema.schema import TableSchema
from gumdrop.tables.streams.pieces import TableStream

SAMPLE_ROWS = 20_000
"""Rows that decide on the columns, test and watch."""
MOST_LABELS, MOST_CODES = 1000, 50
"""Different texts of a column, and numbers of a target, that are all to be in the sample."""


@dataclass(frozen=True)
class Moments:
    """Count, mean, length of the deviations and range of numbers, which those of other numbers can be added to.

    The length is the root of the sum of squares, which itself may be no number of float64, as those of 1e-300.

    Example:
        >>> both = Moments.of(np.array([1.0, 2.0])) + Moments.of(np.array([6.0, np.nan]))
        >>> both.count, both.mean, round(both.length**2, 9), both.most
        (3, 3.0, 14.0, 6.0)
    """

    count: int = 0
    mean: float = 0.0
    length: float = 0.0
    least: float = math.inf
    most: float = -math.inf

    @classmethod
    def of(cls, values: np.ndarray) -> Moments:
        """Take those of an array, without what is missing."""
        known = values[~np.isnan(values)]
        if not len(known):
            return cls()
        mean = float(known.mean())
        apart = known - mean
        unit = float(unit_of(np.abs(apart).max()))
        length = math.sqrt(np.square(apart / unit).sum()) * unit
        return cls(len(known), mean, length, float(known.min()), float(known.max()))

    def __add__(self, other: Moments) -> Moments:
        """Those of all numbers together."""
        count = self.count + other.count
        if not self.count or not other.count:
            return self if self.count else other
        apart = other.mean - self.mean
        mean = self.mean + apart * other.count / count
        length = math.hypot(self.length, other.length, apart * math.sqrt(self.count * other.count / count))
        return Moments(count, mean, length, min(self.least, other.least), max(self.most, other.most))

    @property
    def is_constant(self) -> bool:
        """Whether all numbers are the same."""
        return bool(is_constant(self.least, self.most))

    @property
    def statistics(self) -> dict[str, float]:
        """Mean, standard deviation (1 where all are the same) and range, by the names that a column has for them."""
        std = 1.0 if self.is_constant else self.length / math.sqrt(self.count)
        return {"mean": self.mean, "std": std, "least": self.least, "most": self.most}


@dataclass(frozen=True, eq=False)
class Survey:
    """What one pass over a table finds."""

    sample: pd.DataFrame
    """Rows drawn at random, and the first with each label of each column of text."""
    rows: np.ndarray
    """Their numbers in the table, from 0, ascending."""
    moments: dict[str, Moments]
    """Of the columns of numbers, over the rows that are not in the sample."""
    num_known: int
    """Rows outside the sample whose target is known."""

    def exact(self, schema: TableSchema) -> TableSchema:
        """Give a schema that was inferred from the sample the statistics of all rows."""
        target = schema.target
        if target.task == "regression":
            moments = self.moments.get(target.name, Moments())  # none of numbers that are texts
            positive = target.positive and moments.least >= 0
            target = dataclasses.replace(with_moments(target, moments), positive=positive, atoms=())
        columns = [
            with_moments(column, self.moments.get(column.name, Moments())) if column.kind == "number" else column
            for column in schema.columns
        ]
        return dataclasses.replace(schema, columns=tuple(columns), target=target)


def with_moments(column: Any, moments: Moments) -> Any:
    """Give a column, or a target, the statistics of all rows."""
    known = {field.name for field in dataclasses.fields(column)}
    statistics = moments.statistics if moments.count else {}
    return dataclasses.replace(column, **{name: value for name, value in statistics.items() if name in known})


def survey(
    stream: TableStream,
    target: str,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    sample_rows: int = SAMPLE_ROWS,
    seed: int = 0,
) -> Survey:
    """Read a table once, for its statistics and a sample to decide on its columns and to test with."""
    wanted = None if columns is None else [*columns, target]
    check_present(stream.names, wanted or [target])
    count = min(sample_rows, stream.num_rows // 2)
    drawn = np.sort(np.random.default_rng(seed).choice(stream.num_rows, count, replace=False))
    seen: dict[str, set[Any]] = {}
    moments: dict[str, Moments] = {}
    parts, rows, num_known = [], [], 0
    for piece in stream.pieces:
        for first_row, frame in stream.read(piece, wanted):
            known = frame[target].notna().to_numpy()
            sampled = known & is_in(drawn, first_row, len(frame))
            for name in frame.columns:
                is_number = pd.api.types.is_numeric_dtype(frame[name]) and name not in categories
                if name == target or not (name in drop or is_number):
                    most = MOST_CODES if is_number else MOST_LABELS
                    sampled[known] |= _first_of_their_kind(frame[name][known], seen.setdefault(name, set()), most)
            parts.append(frame[sampled])
            rows.append(first_row + np.flatnonzero(sampled))
            rest = ~sampled[known]
            num_known += int(rest.sum())
            for name in frame.select_dtypes("number").columns.difference(list(drop)):
                values = numbers_of(name, frame[name][known])
                moments[name] = moments.get(name, Moments()) + Moments.of(values[rest])
    return Survey(pd.concat(parts, ignore_index=True), np.concatenate(rows), moments, num_known)


def is_in(chosen: np.ndarray, first_row: int, count: int) -> np.ndarray:
    """Which of some rows that follow each other are chosen."""
    start, stop = np.searchsorted(chosen, [first_row, first_row + count])
    mask = np.zeros(count, dtype=bool)
    mask[chosen[start:stop] - first_row] = True
    return mask


def _first_of_their_kind(column: pd.Series, seen: set[Any], most: int) -> np.ndarray:
    """Rows with a value that no earlier row has, as long as there are not too many values."""
    fresh = np.zeros(len(column), dtype=bool)
    if len(seen) <= most and (pd.api.types.is_numeric_dtype(column) or order_of(column) is None):  # dates have none
        known = column.notna().to_numpy()
        values = column[known].drop_duplicates()
        new = values[~values.isin(list(seen))]
        fresh[column.index.get_indexer(new.index[: most + 1 - len(seen)])] = True
        seen.update(new)
    return fresh
