"""How numbers are recorded: in steps, such as whole numbers, halves and grades, or by the ends of an interval."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gumdrop.machine.numerals import cell

ROWS_PER_LEVEL = 4
"""Rows that a level stands for, on average at least: a target that is measured hardly repeats itself."""
ON_GRID = 0.95
"""Share of the distinct values that are whole steps apart, at least."""
CELLS_PER_LEVEL = 20
"""Steps from first to last, at most, for each level that occurs: any few numbers lie on some fine grid."""
EXPECTED_BELOW = 3.0
"""Normal numbers below 0, of the same mean and deviation, without any of which 0 is no chance."""
SKEWED, NEAR = 1.0, 5.0
"""Skewness, and distance of the mean from 0 in deviations, of what is bounded by 0 whatever the number of rows."""
MOST_ATOMS, ATOM_SHARE, ATOM_ROWS = 3, 0.05, 10
"""Values that many rows share, at most, and of each the share and number of rows, at least."""
ABOVE_OTHERS = 3.0
"""How many times as many rows as any other value each of them has."""
OTHER_SHARE, OTHER_ROWS, OTHER_VALUES = 0.2, 30, 20
"""Share and number of the rows beside them, and of the values there, at least: a density is learned from these."""
ROUNDED = 4
"""Distances of neighbouring floats that the roundings of a few sums leave between numbers that are the same."""
TOLERANCE = 1e-6
"""Of the whole range, within which two distances are equal."""


@dataclass(frozen=True)
class Steps:
    """Levels in equal distances, which a target is recorded at."""

    size: float
    """Distance of neighbouring levels."""
    first: float
    """The lowest level."""
    last: float
    """The highest level."""

    @property
    def count(self) -> int:
        """Number of levels, those between that do not occur included."""
        return round((self.last - self.first) / self.size) + 1

    @property
    def words(self) -> str:
        """What a reader calls them."""
        return f"steps of {cell(self.size)}, from {cell(self.first)} to {cell(self.last)}"

    @property
    def levels(self) -> np.ndarray:
        """All levels, ascending, shape (L,)."""
        return np.linspace(self.first, self.last, self.count)


def steps_of(values: np.ndarray) -> Steps | None:
    """Return the steps that numbers are recorded in, if they are beyond doubt, else None.

    Numbers count as recorded in steps if they repeat, four times on average or more, and if nearly all distinct ones
    are whole steps apart, with a step that is not much finer than the distances that occur. So a measured target never
    does, nor one with a few values that repeat, such as a limit or a 0 among others.

    Example:
        >>> steps_of(np.repeat([3.0, 4.5, 5.0, 7.0], 10))
        Steps(size=0.5, first=3.0, last=7.0)
        >>> steps_of(np.linspace(0, 1, 40)) is None
        True
    """
    distinct, counts = np.unique(values, return_counts=True)
    common = distinct[counts > 1]
    if len(common) < 2 or len(values) < ROWS_PER_LEVEL * len(distinct):
        return None
    span = distinct[-1] - distinct[0]
    if (size := _common_divisor(np.diff(common), TOLERANCE * span)) * CELLS_PER_LEVEL * len(distinct) < span:
        return None
    size = (common[-1] - common[0]) / round((common[-1] - common[0]) / size)  # of the sum of all errors
    positions = (distinct - common[0]) / size
    on_grid = distinct[np.abs(positions - np.rint(positions)) < 2 * TOLERANCE * span / size]
    if len(on_grid) < ON_GRID * len(distinct):
        return None
    return Steps(float(size), float(on_grid[0]), float(on_grid[-1]))


def stays_positive(values: np.ndarray) -> bool:
    """Return whether numbers end at 0, as prices, durations and counts do, beyond what chance would make.

    None is below 0, though of as many normal numbers three at least would be; or they are strongly skewed to the right,
    and 0 is not far.

    Example:
        >>> stays_positive(np.linspace(0, 5, 100)), stays_positive(np.linspace(50, 55, 100))
        (True, False)
    """
    std = values.std()
    if values.min() < 0 or std == 0:
        return False
    distance = values.mean() / std
    if len(values) * math.erfc(distance / math.sqrt(2)) / 2 >= EXPECTED_BELOW:
        return True
    return bool(distance < NEAR and np.mean(((values - values.mean()) / std) ** 3) > SKEWED)


def atoms_of(values: np.ndarray) -> tuple[float, ...]:
    """Return at most three values that many rows share among numbers that hardly repeat, such as 0 of amounts of rain.

    Example:
        >>> atoms_of(np.concatenate([np.zeros(30), np.linspace(1, 9, 70)]))
        (0.0,)
        >>> atoms_of(np.linspace(0, 9, 100)), atoms_of(np.repeat([0.0, 1.0, 2.0, 3.0], [60, 30, 15, 5]))
        ((), ())
    """
    distinct, counts = np.unique(values, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    ranked = np.append(counts[order], 0)
    for count in range(min(MOST_ATOMS, len(distinct) - 1), 0, -1):
        others = len(values) - int(ranked[:count].sum())
        is_common = ranked[count - 1] >= max(ATOM_ROWS, ATOM_SHARE * len(values), ABOVE_OTHERS * ranked[count])
        is_dense = others >= max(OTHER_ROWS, OTHER_SHARE * len(values)) and len(distinct) - count >= OTHER_VALUES
        if is_common and is_dense:
            return tuple(np.sort(distinct[order[:count]]).tolist())
    return ()


def ends_of_times(times: np.ndarray, is_seen: np.ndarray) -> np.ndarray:
    """Return both ends of what is known of times, (N, 2): equal if it was seen, else it is longer; NaN stays.

    Example:
        >>> ends_of_times(np.array([3.0, 5.0]), np.array([True, False])).tolist()
        [[3.0, 3.0], [5.0, inf]]
    """
    return np.stack([times, np.where(is_seen, times, times + np.inf)], axis=1)


def ends_of_ranges(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return both ends of ranges, (N, 2): infinite where one is NaN, and NaN where nothing is known.

    Example:
        >>> ends_of_ranges(np.array([3.0, np.nan, np.nan]), np.array([np.nan, 2.0, np.nan])).tolist()
        [[3.0, inf], [-inf, 2.0], [nan, nan]]
    """
    given = np.stack([lower, upper], axis=1)
    open_ends = np.where(np.isnan(given), [-np.inf, np.inf], given)
    return np.where(np.isinf(open_ends).all(1, keepdims=True), np.nan, open_ends)


def stand_ins(ends: np.ndarray) -> np.ndarray:
    """Return a number for each interval, (N, 2) with infinity for an end that it lacks: its middle, or its one end.

    Example:
        >>> stand_ins(np.array([[2.0, 2.0], [3.0, 4.0], [5.0, np.inf]])).tolist()
        [2.0, 3.5, 5.0]
    """
    lower, upper = np.where(np.isfinite(ends), ends, ends[:, ::-1]).T
    return np.asarray((lower + upper) / 2)


def is_constant(least: Any, most: Any) -> Any:
    """Return whether two numbers, or those of each column, are the same but for rounding.

    Example:
        >>> bool(is_constant(0.3, 0.1 + 0.2)), bool(is_constant(1e15, 1e15 + 1)), bool(is_constant(0.0, 1e-300))
        (True, False, False)
    """
    low, high = np.asarray(least), np.asarray(most)
    eps = np.finfo(np.result_type(low, np.float32)).eps
    # Halves, since the distance of the largest numbers is infinite.
    return abs(high / 2 - low / 2) <= ROUNDED * eps * (np.maximum(abs(low), abs(high)) / 2)


def _common_divisor(distances: np.ndarray, tolerance: float) -> float:
    """Largest number that all distances are multiples of, by Euclid's algorithm."""
    divisor = float(distances[0])
    for distance in distances[1:]:
        rest = float(distance)
        while rest > tolerance:
            divisor, rest = rest, abs(divisor - rest * round(divisor / rest))
    return divisor
