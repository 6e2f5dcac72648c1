"""Targets that are known in part, as scikit-survival takes them: a structured array of two fields."""

from typing import Any

import numpy as np

from gumdrop.machine.recording import ends_of_ranges, ends_of_times


def records_of(y: Any) -> np.ndarray | None:
    """Take targets for such if they are: a structured array, or a data frame of two columns, one of them of truths."""
    if hasattr(y, "to_records") and getattr(y, "ndim", 1) == 2 and any(each.kind == "b" for each in y.dtypes):
        y = y.to_records(index=False)
    return np.asarray(y) if getattr(getattr(y, "dtype", None), "names", None) else None


def is_event(records: np.ndarray) -> bool:
    """Whether one field tells that a time was seen; else both are ends."""
    return any(records.dtype[name].kind == "b" for name in records.dtype.names or ())


def ends_of(records: np.ndarray) -> np.ndarray:
    """Return both ends of what is known of each row, (N, 2): equal if it was seen, infinite where there is none.

    Raises:
        ValueError: If a row says what cannot be.

    Example:
        >>> ends_of(np.array([(True, 3.0), (False, 5.0)], dtype=[("event", bool), ("time", float)])).tolist()
        [[3.0, 3.0], [5.0, inf]]
    """
    fields = records.dtype.names or ()
    if len(fields) != 2 or records.ndim != 1:
        raise ValueError(
            f"`y` must have two fields, event and time or lower and upper end, and shape (n_samples,), got "
            f"{', '.join(fields)} of shape {records.shape}"
        )
    if not is_event(records):
        lower, upper = (records[name].astype(np.float64) for name in fields)
        ends = ends_of_ranges(lower, upper)
        _refuse(lower > upper, lower, f"must not be above `{fields[1]}`; equal ends say that it was seen", fields[0])
        _refuse(np.isnan(ends[:, 0]), lower, "has no end: leave the row out", fields[0])
        return ends
    event, time = sorted(fields, key=lambda name: records.dtype[name].kind != "b")
    seen, times = records[event], records[time].astype(np.float64)
    _refuse(~(np.isfinite(times) & (times >= 0)), times, "must be at least 0 and finite", time)
    if not seen.any():
        raise ValueError(f"`{event}` is false in all rows of `y`, so nothing tells how long it takes: add rows")
    return ends_of_times(times, seen)


def _refuse(bad: np.ndarray, values: np.ndarray, why: str, field: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"`{field}` of `y` {why}, got {values[row]:g} in row {row}")
