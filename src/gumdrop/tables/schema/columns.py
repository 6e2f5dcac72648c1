"""The kinds of columns: how each becomes numbers, and what it finds odd in a table that it has not seen."""

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Self

import numpy as np
import pandas as pd

from gumdrop.machine.numerals import cell
from gumdrop.machine.recording import is_constant
from gumdrop.tables.errors import MISSING, TableError
from gumdrop.tables.plain import SPARSE
from gumdrop.tables.reading.spelling import plain_numbers
from gumdrop.tables.reading.times import (
    CYCLES,
    YEARS,
    Cycle,
    DatePart,
    Order,
    parse_cycle,
    parse_dates,
    parts_of,
    phase,
)
from gumdrop.tables.schema.cells import (
    OTHERS,
    deviation,
    index_labels,
    labels_of,
    numbers_of,
    refuse,
    standardised_numbers,
)


@dataclass(frozen=True, eq=False)
class Odd:
    """Cells of a column that encoding could not take as they are, each a mask over the rows."""

    missing: np.ndarray
    """Cells that hold nothing."""
    unseen: np.ndarray
    """Cells with a category that training never saw."""
    outside: np.ndarray
    """Cells with a number far outside those of training."""
    changed: np.ndarray
    """Cells that differ from the one value that all rows of training had."""
    labels: dict[str, int] = field(default_factory=dict)
    """How often each category occurs that training never saw."""


class Axis(NamedTuple):
    """What the numbers of a column are."""

    read: Callable[[pd.Series], np.ndarray]
    """Gives the numbers of cells, NaN where there is none."""
    words: Callable[[float], str]
    """One of them, as a reader sees it."""
    expected: str
    """What a cell should be, for messages."""
    unit: str
    """What is added to the name of the encoded column."""
    cycles: Mapping[str, Callable[[np.ndarray], np.ndarray]]
    """Angles of numbers on each cycle that they go through, by what is added to the names of its two waves."""


@dataclass(frozen=True, kw_only=True)
class MeasuredColumn:
    """A column of numbers, of dates (days since 1970-01-01) or of places on a cycle (months, weekdays, hours).

    It is standardised with the mean and deviation of the training rows. Each cycle that the numbers go through adds a
    sine and a cosine. A missing cell has the median, and waves of 0.
    """

    name: str
    """Name in the table."""
    kind: Literal["number", "date", "cycle"]
    """What its cells are."""
    mean: float = 0.0
    """Mean of the training values."""
    std: float = 1.0
    """Standard deviation of the training values (divisor n); 1 for a constant column."""
    median: float = 0.0
    """Median of the training values, which stands in for a missing one."""
    least: float = 0.0
    """Smallest training value."""
    most: float = 0.0
    """Largest training value."""
    order: Order | None = field(default=None, metadata=SPARSE)
    """Order of day, month and year of dates."""
    parts: tuple[DatePart, ...] | None = field(default=None, metadata=SPARSE)
    """Cycles that the training dates go through."""
    cycle: Cycle | None = field(default=None, metadata=SPARSE)
    """The cycle of places on one."""

    def __post_init__(self) -> None:
        """Check that it can be encoded."""
        if not self.std > 0:
            raise ValueError(f"std is {self.std}")
        if (self.order is None, self.cycle is None) != (self.kind != "date", self.kind != "cycle"):
            raise ValueError(f"{self.kind} has order {self.order} and cycle {self.cycle}")

    @property
    def axis(self) -> Axis:
        """What its numbers are."""
        if self.order is not None:
            expected = f"date with its {self.order.replace('-', ' ')}, from {YEARS[0]} to {YEARS[1]}"
            cycles = {f"{part}, ": functools.partial(phase, part=part) for part in self.parts or ()}
            return Axis(functools.partial(parse_dates, order=self.order), _day, expected, " (days)", cycles)
        if self.cycle is not None:
            turn = CYCLES[self.cycle]
            read, expected = functools.partial(parse_cycle, cycle=self.cycle), f"{self.cycle} such as {turn.example}"
            return Axis(read, turn.write, expected, "", {"": lambda values: 2 * np.pi * values / turn.length})
        return Axis(functools.partial(numbers_of, self.name), cell, "number", "", {})

    @property
    def feature_names(self) -> list[str]:
        """The encoded columns, such as `sold (days)` and `sold (season, sine)`."""
        waves = [f"{self.name} ({cycle}{wave})" for cycle in self.axis.cycles for wave in ("sine", "cosine")]
        return [self.name + self.axis.unit, *waves]

    @functools.cached_property
    def constant(self) -> np.ndarray | None:
        """The encoded columns where training had one value, the same for all cells: no weight of them was learned."""
        if not is_constant(self.least, self.most):
            return None
        waves = [wave(angle(np.array(self.median))) for angle in self.axis.cycles.values() for wave in (np.sin, np.cos)]
        return np.array([0.0, *waves])

    def rounded(self, value: float) -> str:
        """Write one of its numbers for a reader, in at most four digits."""
        return self.axis.words(float(f"{value:.4g}") if self.kind == "number" else value)

    def fitted(self, cells: pd.Series) -> Self:
        """Take the statistics of cells."""
        values = self.axis.read(cells)
        values = values[~np.isnan(values)]
        mean, median, least, most = map(float, (values.mean(), np.median(values), values.min(), values.max()))
        parts = parts_of(values) if self.kind == "date" else None
        std = deviation(values) or 1.0
        return replace(self, mean=mean, std=std, median=median, least=least, most=most, parts=parts)

    def encode(self, cells: pd.Series, out: np.ndarray) -> Odd:
        """Write the encoded columns into an array of zeros, and tell what is odd in it."""
        values, missing = self.axis.read(cells), cells.isna().to_numpy()
        refuse(self.name, cells, np.isnan(values) & ~missing, f"not a {self.axis.expected}")
        none = np.zeros(len(cells), dtype=bool)
        if self.constant is not None:
            out[:] = self.constant
            return Odd(missing, none, none, ~missing & ~is_constant(self.median, values))
        filled = np.where(missing, self.median, values)
        out[:, 0] = standardised_numbers(self.name, cells, filled, self.mean, self.std)
        for i, angles in enumerate(self.axis.cycles.values()):
            angle = angles(values[~missing])
            out[~missing, 2 * i + 1], out[~missing, 2 * i + 2] = np.sin(angle), np.cos(angle)
        is_far = (filled < self.least - self.std) | (filled > self.most + self.std)
        return Odd(missing, none, is_far & ~missing & (self.kind != "cycle"), none)


def _day(days: float) -> str:
    return f"{pd.Timestamp(days, unit='D'):%Y-%m-%d}"


@dataclass(frozen=True)
class CategoryColumn:
    """A column of labels, encoded one-hot.

    Where `OTHERS` is a category, it is that of all labels that are not among the categories.
    """

    name: str
    """Name in the table."""
    categories: tuple[str, ...]
    """Labels seen in training, in order; the last is empty if some rows had none (missing)."""
    kind: Literal["category"] = "category"

    def __post_init__(self) -> None:
        """Check that each is there once."""
        if len(set(self.categories)) < len(self.categories):
            raise ValueError(f"categories is {list(self.categories)}")

    @property
    def feature_names(self) -> list[str]:
        """The encoded columns, one per category, such as `sex=female`."""
        return [f"{self.name}={category or '(missing)'}" for category in self.categories]

    @property
    def constant(self) -> np.ndarray | None:
        """The encoded column where training had one category, see `MeasuredColumn.constant`."""
        return np.ones(1) if len(self.categories) == 1 else None

    def labels(self, cells: pd.Series) -> list[str]:
        """Labels of cells, as the categories spell them where they are among these."""
        labels = labels_of(cells)
        places = index_labels(labels, self.categories)
        return [label if i < 0 else self.categories[i] for label, i in zip(labels, places.tolist(), strict=True)]

    def encode(self, cells: pd.Series, out: np.ndarray) -> Odd:
        """Write the encoded columns into an array of zeros, and tell what is odd in it."""
        labels = labels_of(cells)
        hot = index_labels(labels, self.categories)
        known = np.flatnonzero(hot >= 0)
        out[known, hot[known]] = 1.0
        missing = cells.isna().to_numpy()
        unseen = (hot < 0) & ~missing
        text = plain_numbers(cells)[1]
        if len(known) == 0 and unseen.any() and not text.any() and not self._is_numeric():
            first = labels[int(np.flatnonzero(unseen)[0])]
            raise TableError(
                f"column {self.name!r} holds numbers, such as {first}, where training had categories "
                f"({', '.join(self.categories[:5])}): correct the column, or fit again"
            )
        if OTHERS in self.categories:
            out[unseen, self.categories.index(OTHERS)] = 1.0
            unseen = np.zeros_like(unseen)
        none = np.zeros(len(cells), dtype=bool)
        if self.constant is not None:
            out[:] = self.constant
            return Odd(missing, none, none, unseen)
        count = Counter(labels[i] for i in np.flatnonzero(unseen))
        return Odd(missing, unseen, none, none, dict(count))

    def _is_numeric(self) -> bool:
        present = [category for category in self.categories if category != MISSING]
        return not plain_numbers(pd.Series(present, dtype=object))[1].any()


Column = MeasuredColumn | CategoryColumn
