"""A target that is known in part, as one column of intervals: a time that is seen or not yet over, a number in a range.

The column takes the place of the target, so that rows are picked, split and left out as those of any other target.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from gumdrop.machine.numerals import cell
from gumdrop.machine.recording import ends_of_ranges, ends_of_times
from gumdrop.tables.errors import TableError, check_present
from gumdrop.tables.schema.cells import labels_of, numbers_of, refuse

SEEN = {"1": True, "0": False, "true": True, "false": False, "yes": True, "no": False}
"""What an event may be called; 1 and 0 first of all."""


def with_ends(frame: pd.DataFrame, target: str, known: Sequence[str]) -> pd.DataFrame:
    """Return a table whose target is a column of intervals, missing where nothing is known; as it is if all is.

    What is known is told by the column of the event, the target being the times, or by those of the lower and the upper
    end, the target being a new name.

    Example:
        >>> frame = pd.DataFrame({"weeks": [3.0, 5.0], "left": [1, 0]})
        >>> with_ends(frame, "weeks", ["left"])["weeks"].tolist()
        [Interval(3.0, 3.0, closed='both'), Interval(5.0, inf, closed='both')]
    """
    if not known or (target in frame.columns and _are_intervals(frame[target])):
        return frame
    ends = _of_event(frame, target, *known) if len(known) == 1 else _of_range(frame, target, *known)
    return frame.assign(**{target: pd.arrays.IntervalArray.from_arrays(ends[:, 0], ends[:, 1], closed="both")})


def _are_intervals(column: pd.Series) -> bool:
    """Whether they were gathered before; a column below another one has lost the dtype that tells."""
    return isinstance(column.dtype, pd.IntervalDtype) or isinstance(next(iter(column.dropna()), None), pd.Interval)


def ends_of(column: pd.Series) -> np.ndarray:
    """Both ends of each interval, shape (N, 2); infinite where there is none."""
    intervals = pd.arrays.IntervalArray(column.to_numpy() if column.dtype == object else column)
    return np.stack([intervals.left, intervals.right], axis=1).astype(np.float64)


def known_words(lower: float, upper: float) -> str:
    """What is known of a row, for the reader."""
    if lower == upper:
        return cell(lower)
    if np.isinf(upper):
        return f"over {cell(lower)}"
    return f"up to {cell(upper)}" if np.isinf(lower) else f"{cell(lower)} to {cell(upper)}"


def check_learnable(ends: np.ndarray, name: str, known: Sequence[str]) -> None:
    """Refuse a target of which all rows leave the same side open: it may be anywhere there."""
    if len(known) == 1 and not (ends[:, 0] == ends[:, 1]).any():
        raise TableError(
            f"no row has the event '{known[0]}', so nothing tells how long '{name}' takes: 1 says that the time was "
            "seen, 0 that it was still to come; are they the wrong way round?"
        )
    for side, end in enumerate(known if len(known) == 2 else ()):
        if np.isinf(ends[:, side]).all():
            raise TableError(f"'{end}' is missing in all rows, so '{name}' may lie anywhere there: fill some cells")


def _of_event(frame: pd.DataFrame, target: str, event: str) -> np.ndarray:
    check_present(frame.columns, [target, event])
    times, labels = numbers_of(target, frame[target]), labels_of(frame[event])
    refuse(target, frame[target], times < 0, "a time before the start", "count from where the observation began")
    seen = [SEEN.get(label.casefold()) for label in labels]
    bad = np.array([each is None for each in seen]) & ~np.isnan(times)
    what = "write 1 where the time was seen, and 0 where it is only known to be longer"
    refuse(event, frame[event], bad, "neither 1 nor 0", what)
    return ends_of_times(times, np.array(seen, dtype=bool))


def _of_range(frame: pd.DataFrame, target: str, low: str, high: str) -> np.ndarray:
    check_present(frame.columns, [low, high])
    if target in frame.columns and target not in (low, high):
        raise TableError(
            f"`--target {target}` is a column, and --lower and --upper tell what is known: name the target otherwise"
        )
    lower, upper = numbers_of(low, frame[low]), numbers_of(high, frame[high])
    bad = lower > upper
    above = f"above its '{high}' of {cell(upper[bad.argmax()])}"
    refuse(low, frame[low], bad, above, "exchange them or remove the row; equal ends say that it was seen")
    return ends_of_ranges(lower, upper)
