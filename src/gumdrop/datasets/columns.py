"""The kinds of columns: how each becomes numbers, and what it finds odd in a table that it has not seen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from gumdrop.datasets.dates import YEARS, Order, parse_dates, phase
from gumdrop.datasets.numbers import plain_numbers
from gumdrop.datasets.tabular import MISSING, TableError

__all__ = [
    "CategoryColumn",
    "Column",
    "DateColumn",
    "NumericColumn",
    "Odd",
    "index_labels",
    "labels_of",
    "numbers_of",
    "refuse",
    "standardised_numbers",
]

LARGEST = 1e30  # beyond here squares and sums leave float32
_INTEGER = re.compile(r"[+-]?\d{1,300}(\.0*)?")
_DECIMAL = re.compile(r"[+-]?\d*\.\d+")
_YES_NO = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"})


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

    def encode(self, column: pd.Series, out: np.ndarray) -> Odd:
        """Write the encoded column into an array of zeros, and tell what is odd in it."""
        values = numbers_of(self.name, column)
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

    def encode(self, column: pd.Series, out: np.ndarray) -> Odd:
        """Write the encoded columns into an array of zeros, and tell what is odd in it."""
        days = parse_dates(column, self.order)
        missing = column.isna().to_numpy()
        why = f"not a date with its {self.order.replace('-', ' ')}, from {YEARS[0]} to {YEARS[1]}"
        refuse(self.name, column, np.isnan(days) & ~missing, why)
        out[:, 0] = (np.where(missing, self.median, days) - self.mean) / self.std
        for i, part in enumerate(self.parts):
            angle = phase(days[~missing], part)
            out[~missing, 2 * i + 1], out[~missing, 2 * i + 2] = np.sin(angle), np.cos(angle)
        return Odd(missing, np.zeros(len(column), dtype=bool), ~missing & _far(np.nan_to_num(days), self))


@dataclass(frozen=True)
class CategoryColumn:
    """A column of labels, encoded one-hot; yes and no count however they are capitalised.

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
        """Write the encoded columns into an array of zeros, and tell what is odd in it.

        Args:
            column: Cells.
            out: Array to fill.

        Returns:
            What is odd.

        Raises:
            TableError: If the column holds numbers alone, none of which is a category.
        """
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
        count = Counter(labels[i] for i in np.flatnonzero(unseen))
        return Odd(missing, unseen, np.zeros(len(column), dtype=bool), dict(count))

    def _is_numeric(self) -> bool:
        present = [category for category in self.categories if category != MISSING]
        return not plain_numbers(pd.Series(present, dtype=object))[1].any()


Column = NumericColumn | DateColumn | CategoryColumn


def labels_of(column: pd.Series) -> list[str]:
    """Cells as labels: without blanks around them, and numbers in one spelling."""
    codes, values = pd.factorize(column)
    labels = [*map(_label, values), MISSING]  # the code of a missing cell is -1
    return [labels[code] for code in codes]


def _label(value: object) -> str:
    # 1, 1.0 and "01" agree: pandas may read a column as numbers in one file and as text in the next.
    text = str(value).strip()
    if _INTEGER.fullmatch(text):
        return str(int(text.split(".")[0]))
    return repr(float(text)) if _DECIMAL.fullmatch(text) else text


def is_yes_no(labels: Iterable[str]) -> bool:
    """Whether labels are the two words of a yes or no, however they are capitalised."""
    folded = {label.casefold() for label in labels} - {MISSING}
    return any(folded and folded <= words for words in _YES_NO)


def index_labels(labels: list[str], known: tuple[str, ...]) -> np.ndarray:
    """Index of each label among the known ones, or -1."""
    place = {label: i for i, label in enumerate(known)}
    if is_yes_no(known):
        folded = {label.casefold(): i for label, i in place.items()}
        return np.array([folded.get(label.casefold(), -1) for label in labels], dtype=np.int64)
    return np.array([place.get(label, -1) for label in labels], dtype=np.int64)


def numbers_of(name: str, column: pd.Series) -> np.ndarray:
    """The numbers of a column, NaN for missing cells; anything else is refused."""
    values, bad = plain_numbers(column)
    refuse(name, column, bad, "not a number")
    refuse(name, column, np.abs(values) > LARGEST, "infinite or too large")
    return values


def standardised_numbers(name: str, column: pd.Series, values: np.ndarray, mean: float, std: float) -> np.ndarray:
    """Centre and scale numbers; what would leave float32 is refused."""
    values = (values - mean) / std
    refuse(name, column, np.abs(values) > LARGEST, "too far from all values seen in training")
    return values


def refuse(
    name: str, column: pd.Series, bad: np.ndarray, why: str, way_out: str = "correct it or remove the row"
) -> None:
    """Refuse a column with bad cells, naming the first.

    Args:
        name: Its name.
        column: Its cells.
        bad: Which cells are bad.
        why: What they are.
        way_out: What to do.

    Raises:
        TableError: If a cell is bad.
    """
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        number = column.index[row] if pd.api.types.is_integer_dtype(column.index) else row  # of a part: in the table
        others = f" (and {bad.sum() - 1} more rows)" if bad.sum() > 1 else ""
        raise TableError(
            f"column {name!r} has {str(column.iloc[row])!r} in data row {number + 1}{others}, which is {why}: {way_out}"
        )
