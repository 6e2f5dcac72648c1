"""Numbers for results and tables."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any


def rounded(values: Any, digits: int = 4) -> Any:
    """Round numbers, or arrays of them as lists, for `results.json`, where figures need no more.

    Example:
        >>> rounded([0.123456, [98765.4]])
        [0.1235, [98770.0]]
    """
    found = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(found, (list, tuple)):
        return [rounded(each, digits) for each in found]
    return float(f"{found:.{digits}g}")


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """Mean over seeds or splits with its standard error, 0 where there is only one.

    Example:
        >>> mean_and_error([1.0, 2.0, 3.0])
        (2.0, 0.5773502691896258)
    """
    found = [float(value) for value in values]
    error = statistics.stdev(found) / len(found) ** 0.5 if len(found) > 1 else 0.0
    return statistics.fmean(found), error


def with_error(pair: Sequence[float], form: str = ".3f") -> str:
    """Write a mean with its standard error in brackets; a sign in the form is the mean's alone.

    Example:
        >>> with_error((1.25, 0.5), "+.2f")
        '+1.25 (0.50)'
    """
    mean, error = pair
    return f"{mean:{form}} ({error:{form.removeprefix('+')}})"
