"""The kinds of columns: how each becomes numbers, and what it finds odd in a table that it has not seen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from gumdrop.machine.numerals import cell
from gumdrop.tables.errors import MISSING, TableError
from gumdrop.tables.reading.cycles import CYCLES, Cycle, parse_cycle, place_name
from gumdrop.tables.reading.dates import YEARS, Order, parse_dates, phase
from gumdrop.tables.reading.numbers import plain_numbers
from gumdrop.tables.schema.cells import OTHERS, index_labels, labels_of, numbers_of, refuse, standardised_numbers


@dataclass(frozen=True, eq=False)
class Odd:
    """Cells of a column that encoding could not take as they are, each a mask over the rows."""

    missing: np.ndarray
    """Cells that hold nothing."""
    unseen: np.ndarray
    """Cells with a category that training never saw."""
    outside: np.ndarray
    """Cells with a number far outside those of training."""
    labels: dict[str, int] = field(default_factory=dict)
    """How often each category occurs that training never saw."""


def _far(values: np.ndarray, column: NumericColumn | DateColumn) -> np.ndarray:
    """Beyond the training range by more than a standard deviation."""
    far: np.ndarray = (values < column.least - column.std) | (values > column.most + column.std)
    return far


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers, standardised with the mean and deviation of the training rows.

    Attributes:
        name: Name in the table.
        mean: Mean of the training values.
        std: Standard deviation of the training values (divisor n); 1 for a constant column.
        median: Median of the training values, which stands in for a missing one.
        least: Smallest training value.
        most: Largest training value.
    """

    name: str
    mean: float
    std: float
    median: float
    least: float
    most: float

    kind = "number"

    @property
    def feature_names(self) -> list[str]:
        """The name of the one encoded column."""
        return [self.name]

    def values(self, column: pd.Series) -> np.ndarray:
        """The numbers of cells, NaN where there is none."""
        return numbers_of(self.name, column)

    def words(self, value: float) -> str:
        """One of them, as a reader sees it."""
        return cell(value)

    def encode(self, column: pd.Series, out: np.ndarray) -> Odd:
        """Write the encoded column into an array of zeros, and tell what is odd in it."""
        values = self.values(column)
        missing = np.isnan(values)
        values[missing] = self.median
        out[:, 0] = standardised_numbers(self.name, column, values, self.mean, self.std)
        return Odd(missing, np.zeros(len(column), dtype=bool), _far(values, self))


@dataclass(frozen=True)
class DateColumn:
    """A column of dates: days, standardised as numbers are, and the cycles that the training dates go through.

    Each cycle becomes a sine and a cosine, which are 0 for a missing date; its days become the median.

    Attributes:
        name: Name in the table.
        order: Order of day, month and year.
        parts: Cycles: `season`, `weekday`, `hour`.
        mean: Mean of the training dates, in days since 1970-01-01.
        std: Their standard deviation in days.
        median: Their median.
        least: The earliest.
        most: The latest.
    """

    name: str
    order: Order
    parts: tuple[str, ...]
    mean: float
    std: float
    median: float
    least: float
    most: float

    kind = "date"

    @property
    def feature_names(self) -> list[str]:
        """The encoded columns, such as `sold (days)` and `sold (season, sine)`."""
        cycles = [f"{self.name} ({part}, {wave})" for part in self.parts for wave in ("sine", "cosine")]
        return [f"{self.name} (days)", *cycles]

    def values(self, column: pd.Series) -> np.ndarray:
        """Days since 1970-01-01 of cells, NaN where there is no date."""
        return parse_dates(column, self.order)

    def words(self, value: float) -> str:
        """One of them, as a reader sees it."""
        return f"{pd.Timestamp(value, unit='D'):%Y-%m-%d}"

    def encode(self, column: pd.Series, out: np.ndarray) -> Odd:
        """Write the encoded columns into an array of zeros, and tell what is odd in it."""
        days = self.values(column)
        missing = column.isna().to_numpy()
        why = f"not a date with its {self.order.replace('-', ' ')}, from {YEARS[0]} to {YEARS[1]}"
        refuse(self.name, column, np.isnan(days) & ~missing, why)
        out[:, 0] = (np.where(missing, self.median, days) - self.mean) / self.std
        for i, part in enumerate(self.parts):
            angle = phase(days[~missing], part)
            out[~missing, 2 * i + 1], out[~missing, 2 * i + 2] = np.sin(angle), np.cos(angle)
        return Odd(missing, np.zeros(len(column), dtype=bool), ~missing & _far(np.nan_to_num(days), self))


@dataclass(frozen=True)
class CycleColumn:
    """A column of months, of weekdays or of times of day: a number in order, standardised, and its place on the cycle.

    That is a sine and a cosine, which are 0 for a missing cell; its number becomes the median.

    Attributes:
        name: Name in the table.
        cycle: `month`, `weekday` or `time of day`.
        mean: Mean of the training values: months, weekdays from Monday as 1, or hours since midnight.
        std: Their standard deviation.
        median: Their median.
        least: The smallest.
        most: The largest.
    """

    name: str
    cycle: Cycle
    mean: float
    std: float
    median: float
    least: float
    most: float

    kind = "cycle"

    @property
    def feature_names(self) -> list[str]:
        """The encoded columns, such as `start` and `start (sine)`."""
        return [self.name, f"{self.name} (sine)", f"{self.name} (cosine)"]

    def values(self, column: pd.Series) -> np.ndarray:
        """Months, weekdays or hours of cells, NaN where there is none."""
        return parse_cycle(column, self.cycle)

    def words(self, value: float) -> str:
        """One of them, as a reader sees it."""
        return place_name(value, self.cycle)

    def encode(self, column: pd.Series, out: np.ndarray) -> Odd:
        """Write the encoded columns into an array of zeros, and tell what is odd in it."""
        values, missing = self.values(column), column.isna().to_numpy()
        kind = CYCLES[self.cycle]
        refuse(self.name, column, np.isnan(values) & ~missing, f"not a {self.cycle} such as {kind.example}")
        out[:, 0] = (np.where(missing, self.median, values) - self.mean) / self.std
        angle = 2 * np.pi * values[~missing] / kind.length
        out[~missing, 1], out[~missing, 2] = np.sin(angle), np.cos(angle)
        none = np.zeros(len(column), dtype=bool)
        return Odd(missing, none, none)


@dataclass(frozen=True)
class CategoryColumn:
    """A column of labels, encoded one-hot; yes and no count however they are capitalised.

    Where `OTHERS` is a category, it is that of all labels that are not among the categories.

    Attributes:
        name: Name in the table.
        categories: Labels seen in training, in order; the last is empty if some rows had none (missing).
    """

    name: str
    categories: tuple[str, ...]

    kind = "category"

    @property
    def feature_names(self) -> list[str]:
        """The encoded columns, one per category, such as `sex=female`."""
        return [f"{self.name}={category or '(missing)'}" for category in self.categories]

    def encode(self, column: pd.Series, out: np.ndarray) -> Odd:
        """Write the encoded columns into an array of zeros, and tell what is odd in it."""
        labels = labels_of(column)
        hot = index_labels(labels, self.categories)
        known = np.flatnonzero(hot >= 0)
        out[known, hot[known]] = 1.0
        missing = column.isna().to_numpy()
        unseen = (hot < 0) & ~missing
        text = plain_numbers(column)[1]
        if len(known) == 0 and unseen.any() and not text.any() and not self._is_numeric():
            first = labels[int(np.flatnonzero(unseen)[0])]
            raise TableError(
                f"column {self.name!r} holds numbers, such as {first}, where training had categories "
                f"({', '.join(self.categories[:5])}): correct the column, or fit again"
            )
        if OTHERS in self.categories:
            out[unseen, self.categories.index(OTHERS)] = 1.0
            unseen = np.zeros_like(unseen)
        count = Counter(labels[i] for i in np.flatnonzero(unseen))
        return Odd(missing, unseen, np.zeros(len(column), dtype=bool), dict(count))

    def _is_numeric(self) -> bool:
        present = [category for category in self.categories if category != MISSING]
        return not plain_numbers(pd.Series(present, dtype=object))[1].any()


Column = NumericColumn | DateColumn | CycleColumn | CategoryColumn
