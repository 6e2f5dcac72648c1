"""Which rows of an estimator's data are held out together: those of a group, or of a stretch of time."""

from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length

from gumdrop.ensembles.folds import stretches_of

MISSING = {"None", "nan", "NaT", "<NA>"}


def held_together(groups: Any, times: Any, weights: np.ndarray) -> np.ndarray | None:
    """Number the sets of rows that are held out together, (N,), those of weight 0 in none; None where any may be."""
    if groups is None and times is None:
        return None
    if groups is not None and times is not None:
        raise ValueError("`groups` and `times` both tell which rows are held out together: give one")
    name, given = ("groups", groups) if times is None else ("times", times)
    values = np.asarray(given)
    check_consistent_length(values, weights)
    counted = weights > 0
    if values.ndim != 1 or _missing(values[counted]):
        got = f"shape {values.shape}" if values.ndim != 1 else "some that are None, NaN or NaT: leave these rows out"
        raise ValueError(f"`{name}` must have shape (n_samples,) and no missing values, got {got}")
    sets = np.zeros(len(values), dtype=np.int64)
    sets[counted] = _groups(values[counted]) if times is None else _stretches(values[counted], weights[counted])
    return sets


def _missing(values: np.ndarray) -> bool:
    if values.dtype.kind == "O":
        return any(str(value) in MISSING for value in values)
    return bool(values.dtype.kind in "fmM" and (values != values).any())  # NaN and NaT differ from themselves


def _groups(values: np.ndarray) -> np.ndarray:
    labels = np.array([str(value) for value in values.tolist()])
    distinct, sets = np.unique(labels, return_inverse=True)
    if len(distinct) < 2:
        raise ValueError(
            f"`groups` must have at least 2 groups, one to train on and one to watch, got {len(distinct)}: give a "
            "label that differs, or leave `groups` away"
        )
    if len(distinct) == len(values):
        raise ValueError(
            f"`groups` must be shared by rows, got another value in each of {len(values)} rows: leave it away, or give "
            "it as `times` if it tells the order of the rows"
        )
    return sets


def _stretches(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iufmMb":
        raise ValueError(
            f"`times` must hold numbers or dates without a time zone, got {values.dtype} such as {values[0]!r}: "
            "convert it, as with pandas.to_datetime(times, utc=True).tz_localize(None)"
        )
    found = stretches_of(values, weights)
    if found is None:
        raise ValueError(
            "`times` must tell rows apart, got the same time in nearly all rows: give another column, or leave it away"
        )
    return found
