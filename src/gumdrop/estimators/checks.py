"""Checks of what estimators are given: numbers, weights, and values that no network sees as they are meant."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import _check_sample_weight, validate_data

from gumdrop.machine.notes import warn
from gumdrop.machine.picking import evenly

LIGHT, HEAVY, MOST_EQUAL = 0.2, 5.0, 1e6
"""Mean weight of a row that hardly counts equal rows: below the first, or above the second, or if weights are whole the
third."""
SPREADS = (1e-150, 1e150)
"""Numbers whose squares float64 holds, for standard deviations of targets and numbers of them."""
FAR, FARTHEST = 1e9, 1e30
"""What a cell that hides all others must exceed to be told of, and to be refused: shares and kernels do it, too."""


def checked(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Validate numbers as scikit-learn does, in whatever columns, and say which of them holds something else."""
    with _naming_columns(X):
        if y:
            return check_X_y(X, *y, estimator=estimator, **options)
        return check_array(X, estimator=estimator, input_name="X", **options)


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Validate numbers as `checked` does, which must have the columns that a fitted estimator knows."""
    with _naming_columns(X):
        return validate_data(estimator, X, *y, reset=False, **options)


@contextlib.contextmanager
def _naming_columns(X: Any) -> Iterator[None]:
    """Refuse times, which numpy would make numbers of, and name the column of a frame that holds no numbers."""
    is_frame = hasattr(X, "columns") and hasattr(X, "dtypes")
    dtypes = [*zip(X.columns, X.dtypes, strict=True)] if is_frame else [(None, getattr(X, "dtype", None))]
    for name, dtype in dtypes:
        if _is_time(dtype):
            raise ValueError(
                _no_numbers(name, dtype, "count from a day, as `(day - start) / pd.Timedelta(days=1)` does")
            )
    try:
        yield
    except (TypeError, ValueError) as error:
        for i, (name, dtype) in enumerate(dtypes):
            if is_frame and not _holds_numbers(X.iloc[:, i] if hasattr(X, "iloc") else X[name]):
                raise ValueError(f"{error}\n{_no_numbers(name, dtype, 'encode it')}") from error
        raise


def _no_numbers(name: Any, dtype: Any, way_out: str) -> str:
    """Describe a column, or an array that has no names, of something else than numbers."""
    where = "`X`" if name is None else f"Column {name!r} of `X`"
    tables = "call `gumdrop.tables.fit_table`, which reads words, dates and missing cells"
    return f"{where} is of dtype {dtype}, and estimators take numbers: {way_out}, or {tables}"


def _is_time(dtype: Any) -> bool:
    """Return whether a dtype of numpy, pandas, Arrow or polars is one of dates, times or durations."""
    return getattr(dtype, "kind", "") in ("m", "M") or bool(getattr(dtype, "is_temporal", bool)())


def _holds_numbers(column: Any) -> bool:
    """Return whether numpy can make numbers of a column."""
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def checked_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    """Give each row of ``X`` its weight, shape (N,), in float64, 1 where there is none; warn if these count no rows."""
    weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
    counted = weights[weights > 0]
    mean = counted.mean() if len(counted) else 1.0
    if mean < LIGHT or mean > (HEAVY if (counted != np.rint(counted)).any() else MOST_EQUAL):
        warn(
            f"`sample_weight` sums to {counted.sum():g} over {len(counted):,} rows and counts as so many rows, so the "
            f"model will know {'less' if mean < 1 else 'more'} than they tell; if weights only compare rows, pass "
            "`w / w[w > 0].mean()`"
        )
    return weights


def check_spread(targets: np.ndarray, indices: np.ndarray, scale: np.ndarray) -> None:
    """Refuse targets, (N, D), whose variance float64 does not hold, and name the one that is farthest from 0."""
    for each, std in enumerate(scale):
        row = indices[np.abs(targets[indices, each]).argmax()]
        check_scale(std, f" (the value farthest from 0 is {targets[row, each]:g} in row {row})")


def check_scale(std: float, of: str = "") -> None:
    """Refuse a standard deviation of targets whose square is no number of float64."""
    if not SPREADS[0] < std < SPREADS[1]:
        raise ValueError(
            f"the target has a standard deviation of {std:.3g}{of}, and predictions hold its square, which leaves "
            f"float64: correct it, or give it in a {'larger' if std > 1 else 'smaller'} unit"
        )


def check_far_cells(
    values: np.ndarray, indices: np.ndarray, center: np.ndarray, scale: np.ndarray, column: Callable[[int], str]
) -> None:
    """Warn of numbers, (N, F), so far from most others that networks, in float32, see one number in these.

    Raises:
        ValueError: If such a cell is no measurement, as 1e300 or the 9.97e36 of a missing cell.
    """
    some = values[indices[evenly(len(indices), 200)]]
    standard = ((some - center) / scale).astype(np.float32)
    alike = standard == np.sort(standard, axis=0)[len(some) // 2]
    least, most = np.where(alike, some, np.inf).min(0), np.where(alike, some, -np.inf).max(0)
    for each in np.flatnonzero((alike.mean(0) > 0.5) & (least < most) & np.isfinite(scale)).tolist():
        distance = np.abs(values[indices, each] - center[each])
        row = indices[distance == distance.max()].min()
        if np.abs(value := values[row, each]) <= FAR:
            continue
        message = (
            f"{column(each)} has {value:g} in row {row}, so far from most others that these look all the same to a "
            "network: correct it, leave the row out, or take logarithms"
        )
        if np.abs(value) > FARTHEST:
            raise ValueError(message)
        warn(message)


def check_reach(x: Any, standard: np.ndarray, column: Callable[[int], str]) -> None:
    """Refuse inputs to predict, (N, F), so many standard deviations from training that float64 holds no square."""
    far = np.argwhere(~(np.abs(standard) <= SPREADS[1]))
    if len(far):
        row, position = far[0].tolist()
        raise ValueError(
            f"{column(position)} has {x[row, position]:g}, too far from all values seen in training: correct it or "
            "leave the row out"
        )
