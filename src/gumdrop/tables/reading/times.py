"""Dates, months, weekdays and times of day: recognised, read, and turned into numbers that a network can use."""

import contextlib
import datetime
import re
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

Order = Literal["year-first", "day-first", "month-first"]

_HALF = r"(?:\s*([AaPp])\.?[Mm]\.?)?"
_TIME = rf"(?:[ T]+(\d{{1,2}}):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?{_HALF}\s*(Z|[+-]\d\d(?::?\d\d)?)?)?"
_YEAR_FIRST = re.compile(rf"(\d{{4}})([-/.])(\d\d?)\2(\d\d?){_TIME}")
_YEAR_LAST = re.compile(rf"(\d\d?)([-/.])(\d\d?)\2(\d{{4}}){_TIME}")
_SHORT_YEAR = re.compile(rf"(\d\d?)([-/.])(\d\d?)\2(\d\d){_TIME}")
_YEAR_MONTH = re.compile(r"(\d{4})[-/](0[1-9]|1[0-2])|(0?[1-9]|1[0-2])[-/]((?:19|20)\d\d)")
_QUARTER = re.compile(r"(\d{4})[- ]?Q([1-4])|Q([1-4])[- /]?(\d{4})")
_WEEK = re.compile(r"\d{4}-?W\d\d")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:\.0)?")
DAYS_OF_A_YEAR = 365.25
DatePart = Literal["season", "weekday", "hour"]
"""Cycles that dates may go through."""
YEARS = (1678, 2261)
"""First and last year whose every day pandas tells in nanoseconds; what lies beyond mostly stands for no date."""
SAY_THE_ORDER = "add --dates day-first or month-first"


class Dates(NamedTuple):
    """What `order_of` found."""

    order: Order | None
    """The order of day, month and year; None if it cannot be told."""
    why: str = ""
    """Why it cannot be told; empty otherwise."""
    way_out: str = SAY_THE_ORDER
    """What then to do."""
    example: str = ""
    """A date of a column in which others are none."""

    def with_order(self, given: Order | None) -> Order | None:
        """Return the order; where it is all that is missing, the one that is given, if any."""
        return given if self.order is None and self.way_out == SAY_THE_ORDER else self.order


def order_of(column: pd.Series) -> Dates | None:
    """Return the order in which a column writes dates; None if it holds something else.

    A year of four digits comes first, or last; then dots mean that the day comes first, and with other marks a number
    above 12 tells the day from the month. A year with a month, a week or a quarter, as ISO 8601 writes them, is the
    first day of these. Numbers are dates if all are such as 20240131.

    Example:
        >>> order_of(pd.Series(["2024-03-01", "2023-12-24 18:30", "2022-05", "2024-Q1", "2024-W08"])).order
        'year-first'
        >>> order_of(pd.Series(["1/2/2024", "1/31/2024"])).order
        'month-first'
        >>> order_of(pd.Series(["1/2/2024", "3/4/2024"])).why
        'day and month cannot be told apart'
    """
    if pd.api.types.is_datetime64_any_dtype(column):
        return Dates("year-first")
    if pd.api.types.is_numeric_dtype(column):
        return Dates("year-first") if _are_compact(column) else None
    texts = [_to_the_day(str(value)) for value in column.dropna().unique()]
    if not texts:
        return None
    if all(map(_YEAR_FIRST.fullmatch, texts)):
        return Dates("year-first")
    if all(map(_NAMED_MONTH.fullmatch, texts)):
        return Dates(None, "the month is a name", "write them like 2024-01-31")
    matches = [_YEAR_LAST.fullmatch(text) or _YEAR_FIRST.fullmatch(text) for text in texts]
    last = [match for match in matches if match]
    if len(last) < len(texts):
        if all(_SHORT_YEAR.fullmatch(text) or _YEAR_LAST.fullmatch(text) for text in texts):
            return Dates(None, "the year has two digits", "write the years in full")
        if len(last) <= max(_MANY, len(texts) / 2):
            return None
        odd = texts[matches.index(None)]
        return Dates(None, f"{odd!r} is none", "correct it or leave the cell blank", last[0].string)
    pairs = [(int(match[1]), int(match[3]), match[2]) for match in last if len(match[1]) < 4]
    day_first = any(first > 12 or mark == "." for first, _, mark in pairs)
    month_first = any(second > 12 for _, second, _ in pairs)
    if day_first == month_first:
        return Dates(None, "they mix two orders" if day_first else "day and month cannot be told apart")
    return Dates("day-first" if day_first else "month-first")


def parse_dates(column: pd.Series, order: Order) -> np.ndarray:
    """Read dates as days."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return _days(pd.to_datetime(column, utc=True))
    codes, distinct = pd.factorize(column)
    stamps = pd.Series([_stamp(_to_the_day(str(value)), order) for value in distinct], dtype=object)
    read = pd.to_datetime(stamps, errors="coerce", utc=True, format="ISO8601")
    return np.append(_days(read), np.nan)[codes]


def _are_compact(numbers: pd.Series) -> bool:
    """Whether all numbers are days of a calendar such as 20240131, and enough for that not to be by chance."""
    values = numbers.dropna().to_numpy(np.float64)
    if not len(values) or values.min() < 19000101 or values.max() > 21001231:  # as in most columns, so at once
        return False
    distinct = np.unique(values)
    if len(distinct) < _FEWEST or (distinct % 1).any():
        return False
    days = pd.to_datetime(pd.Series(distinct.astype(np.int64).astype(str)), format="%Y%m%d", errors="coerce")
    return bool(days.notna().all())


def _to_the_day(text: str) -> str:
    """Write a month, a quarter, a week or 20240131 as the day that it begins with."""
    text = text.strip()
    if month := _YEAR_MONTH.fullmatch(text):
        return f"{month[1] or month[4]}-{int(month[2] or month[3]):02}-01"
    if quarter := _QUARTER.fullmatch(text):
        return f"{quarter[1] or quarter[4]}-{3 * int(quarter[2] or quarter[3]) - 2:02}-01"
    if compact := _COMPACT.fullmatch(text):
        return "-".join(compact.groups())
    if _WEEK.fullmatch(text):
        with contextlib.suppress(ValueError):  # of a week that the year does not have
            return datetime.date.fromisoformat(text).isoformat()
    return text


def _stamp(text: str, order: Order) -> str | None:
    """The date as ISO 8601 writes it."""
    match = _YEAR_FIRST.fullmatch(text)
    if match:
        year, month, day = match[1], match[3], match[4]
    else:
        match = _YEAR_LAST.fullmatch(text)
        if match is None or order == "year-first":
            return None
        day, month, year = (match[i] for i in ((1, 3, 4) if order == "day-first" else (3, 1, 4)))
    hour, minute, second, half, offset = (part or "" for part in match.groups()[4:])
    zone, of_day = "+00:00" if offset in {"", "Z"} else offset, _hour_of_day(int(hour or 0), half)
    if of_day is None:
        return None
    return f"{year}-{int(month):02}-{int(day):02}T{of_day:02}:{minute:0>2}:{second:0>2}{zone}"


def _hour_of_day(hour: int, half: str | None) -> int | None:
    """Count an hour from midnight, with a or p where there is one for am and pm; None if there is no such hour."""
    if hour > 23 or (half and not 1 <= hour <= 12):
        return None
    return hour % 12 + 12 * (half in "pP") if half else hour


def _days(dates: pd.Series) -> np.ndarray:
    known = dates.dt.year.between(*YEARS).to_numpy()  # NaN is not
    days = np.full(len(dates), np.nan)
    days[known] = (dates[known] - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return days


def parts_of(days: np.ndarray) -> tuple[DatePart, ...]:
    """Which cycles the dates of a training table go through, beside the days themselves."""
    has = {"season": np.ptp(days) >= DAYS_OF_A_YEAR, "hour": np.ptp(days % 1) > 0}
    dates = np.floor(days).astype("datetime64[D]")
    monthly = bool(np.all(dates == dates.astype("datetime64[M]")))  # whose weekdays are those of the calendar
    has["weekday"] = not monthly and len(np.unique(np.floor(days) % 7)) >= 3
    return tuple(part for part in get_args(DatePart) if has[part])


def phase(days: np.ndarray, part: DatePart) -> np.ndarray:
    """Where in a cycle each date is."""
    turns = {"season": days / DAYS_OF_A_YEAR, "weekday": np.floor(days) / 7, "hour": days}[part]
    angle: np.ndarray = 2 * np.pi * (turns % 1)
    return angle


Cycle = Literal["month", "weekday", "time of day"]

# fmt: off
_MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
           "december"]
# fmt: on
_MONTH = rf"(?:{'|'.join(name[:3] for name in _MONTHS)})[a-z]*\.?"
_NAMED = "|".join(f"{name}|{name[:3]}" for name in _MONTHS)
_NAMED_MONTH = re.compile(
    rf"\d\d?[ -]{_MONTH}[ -]\d{{2,4}}|{_MONTH} \d\d?,? \d{{4}}|(?:{_NAMED})\.?[ -]'?(?:\d\d)?\d\d", re.IGNORECASE
)
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_SHORT = {"sept": "september", "tues": "tuesday", "wednes": "wednesday", "thur": "thursday", "thurs": "thursday"}
_CLOCK_TIME = re.compile(rf"(\d{{1,2}}):([0-5]\d)(?::([0-5]\d(?:[.,]\d+)?))?{_HALF}")
_MANY = 10
"""So many different dates are not there by chance, so that what is none among them is a slip."""
_FEWEST = 3
"""Different texts that a column must hold: fewer names may be those of people, fewer times those of two choices."""


def _place(names: list[str], text: str) -> float | None:
    """Number of a name in full or by its first three letters, from 1."""
    word = text.casefold().removesuffix(".")
    word = _SHORT.get(word, word)
    numbers = [i for i, name in enumerate(names, 1) if word in (name, name[:3])]
    return float(numbers[0]) if numbers else None


def _name(names: list[str], number: float) -> str:
    return names[round(number) - 1].title()


def _hours(text: str) -> float | None:
    """Hours since midnight of 14:05, 14:05:30 or 2:05 pm."""
    match = _CLOCK_TIME.fullmatch(text)
    if match is None:
        return None
    hour = _hour_of_day(int(match[1]), match[4])
    return None if hour is None else hour + int(match[2]) / 60 + float((match[3] or "0").replace(",", ".")) / 3600


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
