"""Names of months and of weekdays, and times of day, as numbers on a cycle."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

__all__ = ["CYCLES", "Cycle", "cycle_of", "parse_cycle"]

Cycle = Literal["month", "weekday", "time of day"]

# fmt: off
_MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
           "december"]
# fmt: on
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_SHORT = {"sept": "september", "tues": "tuesday", "wednes": "wednesday", "thur": "thursday", "thurs": "thursday"}
_TIME = re.compile(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d(?:[.,]\d+)?))?(?:\s*([ap])\.?m\.?)?", re.IGNORECASE)
_FEWEST = 3
"""Different texts that a column must hold: fewer names may be those of people, fewer times those of two choices."""


def _place(names: list[str], text: str) -> float | None:
    """Number of a name in full or by its first three letters, from 1."""
    word = text.casefold().removesuffix(".")
    word = _SHORT.get(word, word)
    found = [i for i, name in enumerate(names, 1) if word in (name, name[:3])]
    return float(found[0]) if found else None


def _hours(text: str) -> float | None:
    """Hours since midnight of 14:05, 14:05:30 or 2:05 pm."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hour, half = int(match[1]), (match[4] or "").casefold()
    if hour > 23 or (half and not 1 <= hour <= 12):
        return None
    if half:
        hour = hour % 12 + 12 * (half == "p")
    return hour + int(match[2]) / 60 + float((match[3] or "0").replace(",", ".")) / 3600


class _Kind(NamedTuple):
    length: float
    """Of the cycle, in the unit of its numbers."""
    read: Callable[[str], float | None]
    """The number of a text; None if it is none."""
    example: str
    """What a text looks like."""


CYCLES: dict[Cycle, _Kind] = dict(
    zip(
        get_args(Cycle),
        (
            _Kind(12.0, lambda text: _place(_MONTHS, text), "January or Jan"),
            _Kind(7.0, lambda text: _place(_WEEKDAYS, text), "Monday or Mon"),
            _Kind(24.0, _hours, "14:05 or 2:05 pm"),
        ),
        strict=True,
    )
)
"""What each cycle is."""


def cycle_of(column: pd.Series) -> Cycle | None:
    """Find out whether all texts of a column are places on one cycle.

    Args:
        column: Texts; missing cells are passed over.

    Returns:
        The cycle; None if a text is something else, or there are fewer than three different ones.

    Example:
        >>> cycle_of(pd.Series(["Jan", "Feb", "may"])), cycle_of(pd.Series(["9:30", "14:05:59", "2:05 pm"]))
        ('month', 'time of day')
        >>> cycle_of(pd.Series(["April", "May", "June", "Bob"])) is None
        True
    """
    if pd.api.types.is_numeric_dtype(column):
        return None
    texts = [str(value).strip() for value in column.dropna().unique()]
    if len(texts) < _FEWEST:
        return None
    return next((cycle for cycle, kind in CYCLES.items() if all(kind.read(text) is not None for text in texts)), None)


def parse_cycle(column: pd.Series, cycle: Cycle) -> np.ndarray:
    """Read places on a cycle.

    Args:
        column: Texts.
        cycle: The cycle.

    Returns:
        Months from 1 to 12, weekdays from 1, Monday, to 7, or hours since midnight; NaN where there is none.
    """
    codes, distinct = pd.factorize(column)
    read = [CYCLES[cycle].read(str(value).strip()) for value in distinct]
    return np.array([np.nan if value is None else value for value in [*read, None]])[codes]
