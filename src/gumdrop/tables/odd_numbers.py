"""Numbers of a training table that may be something else: outliers, codes for missing cells, time stamps."""

import numpy as np
import pandas as pd

from gumdrop.machine.numerals import cell
from gumdrop.tables.errors import MEND

CODES = frozenset({9.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0})
"""Often written, with a sign or without, where nothing is known."""
FIRST_STAMP, LAST_STAMP = 6.3e8, 2.3e9
"""Seconds since 1970 of 1989 and 2042; between them time stamps of tables lie, and few other numbers."""
STAMPS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def far_off(name: str, values: np.ndarray, rows: np.ndarray) -> list[str]:
    """Name the few numbers that are farther from all others than these are from each other, several times over."""
    rows, values = rows[~np.isnan(values)], values[~np.isnan(values)]
    distinct, counts = np.unique(values, return_counts=True)
    most = min(3, len(distinct) - 10)  # the range of fewer others means nothing
    notes = []
    for outer, number in ((distinct, counts), (distinct[::-1], counts[::-1])):
        for k in range(most, 0, -1):
            end, rest = outer[:k], outer[k:]
            gap, spread = abs(end[-1] - rest[0]), abs(rest[0] - rest[-1])
            is_code = k == 1 and abs(end[0]) in CODES and gap > spread / 2
            # Skewed numbers leave five times the range of all others only by accident.
            if is_code or (gap > 5 * spread and number[:k].sum() <= max(3, len(values) / 100)):
                notes.append(
                    _named(name, values, rows, end, rest, "a code for missing" if is_code else "a typing error")
                )
                break
    return notes


def _named(name: str, values: np.ndarray, rows: np.ndarray, end: np.ndarray, rest: np.ndarray, what: str) -> str:
    at_end = np.isin(values, end)
    first, others = at_end.argmax(), int(at_end.sum()) - 1
    more = f" (and {others} more row{'s' if others > 1 else ''} like it)" if others else ""
    return (
        f"'{name}' is {cell(values[first])} in row {rows[first]}{more}, and from {cell(rest.min())} to "
        f"{cell(rest.max())} in all others: {what}? {MEND}"
    )


def time_stamps(name: str, values: np.ndarray) -> list[str]:
    """Say that whole numbers look like the time since 1970, which hides season, weekday and hour."""
    known = values[~np.isnan(values)]
    if len(np.unique(known)) < 3 or (known % 1).any():
        return []
    for unit, second in (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)):
        if FIRST_STAMP * second <= known.min() and known.max() <= LAST_STAMP * second:
            first, last = (f"{pd.Timestamp(value / second, unit='s'):%Y-%m-%d}" for value in (known.min(), known.max()))
            return [
                f"'{name}' looks like {STAMPS[unit]} since 1970, from {first} to {last}; as dates it has season, "
                f"weekday and hour: pd.to_datetime(table[{name!r}], unit={unit!r})"
            ]
    return []
