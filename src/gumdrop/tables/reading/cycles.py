"""Names of months and of weekdays, and times of day, as numbers on a cycle."""

import re
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

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


def _name(names: list[str], place: float) -> str:
    return names[round(place) - 1].title()


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


def _clock(hours: float) -> str:
    """The time of day, to the minute that has begun."""
    minutes = int(60 * hours + 1e-6)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


class _Kind(NamedTuple):
    length: float
    """Of the cycle, in the unit of its numbers."""
    read: Callable[[str], float | None]
    """The number of a text; None if it is none."""
    write: Callable[[float], str]
    """The text of a number."""
    example: str
    """What a text looks like."""


CYCLES: dict[Cycle, _Kind] = {
    "month": _Kind(12.0, partial(_place, _MONTHS), partial(_name, _MONTHS), "January or Jan"),
    "weekday": _Kind(7.0, partial(_place, _WEEKDAYS), partial(_name, _WEEKDAYS), "Monday or Mon"),
    "time of day": _Kind(24.0, _hours, _clock, "14:05 or 2:05 pm"),
}
"""What each cycle is."""


def cycle_of(column: pd.Series) -> Cycle | None:
    """Return the cycle that all texts of a column are places on; None if there is none, or fewer than three texts.

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
    """Read places on a cycle."""
    codes, distinct = pd.factorize(column)
    read = [CYCLES[cycle].read(str(value).strip()) for value in distinct]
    return np.array([np.nan if value is None else value for value in [*read, None]])[codes]


def place_name(value: float, cycle: Cycle) -> str:
    """Return a place on a cycle as people write it; a time of day to the minute that has begun.

    Example:
        >>> place_name(3.0, "month"), place_name(2.0, "weekday"), place_name(14.5, "time of day")
        ('March', 'Tuesday', '14:30')
    """
    return CYCLES[cycle].write(value)
