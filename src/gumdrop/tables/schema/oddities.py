"""What can be used, but may not be what was meant: typing errors, codes for missing, classes that are nearly all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gumdrop.machine.numerals import cell

if TYPE_CHECKING:
    import pandas as pd

IMBALANCED = 0.8
"""Share of the commonest class from which the accuracy alone says little."""
FAR = 5
"""Times the range of all others, which skewed numbers leave behind only by accident."""
LEAST_DISTINCT = 10
"""Different numbers among the others, without which their range means nothing."""
MOST_TOGETHER = 3
MEND = "Correct it or leave the cell blank"
"""How a note on a number ends that may spoil all that was learned, so that a page can say it first."""
CODES = frozenset({9.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0})
"""Often written, with a sign or without, where nothing is known."""


def commonest(name: str, labels: pd.Series) -> list[str]:
    """Say that one class is nearly all."""
    shares = labels.astype(str).value_counts(normalize=True)
    if shares.iloc[0] < IMBALANCED:
        return []
    return [
        f"{min(shares.iloc[0], 0.999):.1%} of '{name}' are {shares.index[0]!r}: always answering that is right as "
        "often, so hold the accuracy against it"
    ]


def far_off(name: str, values: np.ndarray, rows: np.ndarray) -> list[str]:
    """Name the few numbers that are farther from all others than these are from each other, several times over."""
    rows, values = rows[~np.isnan(values)], values[~np.isnan(values)]
    distinct, counts = np.unique(values, return_counts=True)
    most = min(MOST_TOGETHER, len(distinct) - LEAST_DISTINCT)
    notes = []
    for outer, number in ((distinct, counts), (distinct[::-1], counts[::-1])):
        for k in range(most, 0, -1):
            end, rest = outer[:k], outer[k:]
            gap, spread = abs(end[-1] - rest[0]), abs(rest[0] - rest[-1])
            is_code = k == 1 and abs(end[0]) in CODES and gap > spread / 2
            if is_code or (gap > FAR * spread and number[:k].sum() <= max(MOST_TOGETHER, len(values) / 100)):
                notes.append(
                    _named(name, values, rows, end, rest, "a code for missing" if is_code else "a typing error")
                )
                break
    return notes


def _named(name: str, values: np.ndarray, rows: np.ndarray, end: np.ndarray, rest: np.ndarray, what: str) -> str:
    found = np.isin(values, end)
    first, others = found.argmax(), int(found.sum()) - 1
    more = f" (and {others} more row{'s' if others > 1 else ''} like it)" if others else ""
    return (
        f"'{name}' is {cell(values[first])} in row {rows[first]}{more}, and from {cell(rest.min())} to "
        f"{cell(rest.max())} in all others: {what}? {MEND}"
    )
