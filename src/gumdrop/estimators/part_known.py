"""Targets that are known in part, as scikit-survival takes them: a structured array of two fields."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gumdrop.machine.notes import warn
from gumdrop.machine.recording import ends_of_ranges, ends_of_times


def records_of(y: Any) -> np.ndarray | None:
    """Take targets for such if they are: a structured array, or a data frame of two columns, one of them of truths."""
    if hasattr(y, "columns") and hasattr(y, "dtypes"):
        truths = [getattr(dtype, "kind", "") == "b" or str(dtype) == "Boolean" for dtype in y.dtypes]
        if any(truths):
            columns = zip(y.columns, truths, strict=True)
            fields = {str(name): np.asarray(y[name], dtype=bool if is_truth else None) for name, is_truth in columns}
            records = np.empty(len(y), dtype=[(name, field.dtype) for name, field in fields.items()])
            for name, field in fields.items():
                records[name] = field
            return records
    return np.asarray(y) if getattr(getattr(y, "dtype", None), "names", None) else None


def warn_of_event(targets: np.ndarray, names: Sequence[Any] | None = None) -> None:
    """Warn where two targets, (N, 2), look like an event and its time, which are one target that is known in part."""
    if targets.ndim != 2 or targets.shape[1] != 2:
        return
    marks = np.isin(targets, (0, 1)).all(0)
    event = int(marks.argmax())
    if marks.sum() != 1 or (targets[:, 1 - event] < 0).any():
        return
    if names is None:
        what, way_out = (
            f"column {event}",
            f"np.rec.fromarrays([y[:, {event}] == 1, y[:, {1 - event}]], names='event,time')",
        )
    else:
        what, way_out = f"column {names[event]!r}", f"y.astype({{{names[event]!r}: bool}})"
    warn(
        f"{what} of `y` holds only 0 and 1, and the other nothing below 0; they are taken for two targets. If 1 tells "
        f"that the time was seen, make it bool: `{way_out}`"
    )


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
        _refuse_event(records)
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


def _refuse_event(records: np.ndarray) -> None:
    """Refuse ends one of which are whole numbers, 0 and 1, as the event of a time that is not made of truths."""
    for name in records.dtype.names or ():
        if records.dtype[name].kind in "iu" and np.array_equal(np.unique(records[name]), (0, 1)):
            raise ValueError(
                f"`{name}` of `y` holds only 0 and 1, and without a field of bool both fields are ends of what is "
                "known: if it is an event, make it bool; if it is an end, make it float"
            )


def _refuse(bad: np.ndarray, values: np.ndarray, why: str, field: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"`{field}` of `y` {why}, got {values[row]:g} in row {row}")
