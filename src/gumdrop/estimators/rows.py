"""Rows of a data set as networks see them: each once, in an order of their own, standardised; and never copied."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils import check_consistent_length
from torch import Tensor

from gumdrop.ensembles.folds import time_blocks
from gumdrop.ensembles.rows import MIN_ROWS
from gumdrop.machine.recording import is_constant
from gumdrop.machine.scaling import unit_of
from gumdrop.tables.errors import listed
from gumdrop.training import RowSource

MOST_DENSE = 2**27
"""Cells of a sparse matrix that are made dense, a gigabyte in float64."""
ROWS_AT_ONCE = 8192
"""Rows that are standardised or predicted at once, which bounds memory."""


class DistinctRows(NamedTuple):
    """The distinct rows of a data set, in an order of their own, and how often each counts."""

    x: np.ndarray
    """All inputs, as they were given."""
    y: np.ndarray
    """All targets, shape (N, D)."""
    indices: np.ndarray
    """Where the distinct rows are in these."""
    weights: np.ndarray
    """How many equal rows each stands for."""
    together: np.ndarray | None
    """The set that each is held out with; None if there are none."""


class StandardisedRows(RowSource):
    """Rows of an array, (N, F), picked and standardised when they are asked for, so that the array is never copied."""

    def __init__(self, values: np.ndarray, indices: np.ndarray, center: np.ndarray, scale: np.ndarray) -> None:
        self._values, self._indices, self._center, self._scale = values, indices, center, scale
        self.shape = (len(indices), values.shape[1])

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Standardise some rows; float32, of the shape of the row numbers and the columns."""
        standard = np.take(self._values, self._indices[rows.cpu().numpy()], axis=0) - self._center
        standard /= self._scale
        return torch.from_numpy(standard.astype(np.float32))


def chunks(num_rows: int) -> list[slice]:
    """Slices that cut rows into parts that are worked on one at a time."""
    return [slice(start, start + ROWS_AT_ONCE) for start in range(0, num_rows, ROWS_AT_ONCE)]


def dense(x: Any) -> np.ndarray:
    """Make a sparse matrix, shape (N, F), dense, unless it is too large for that; a dense one is as it is."""
    if not issparse(x):
        return np.asarray(x)
    if x.shape[0] * x.shape[1] > MOST_DENSE:
        raise ValueError(
            f"`X` is sparse and is made dense to train on, which is possible up to {MOST_DENSE:,} cells, got "
            f"{x.shape[0]:,} x {x.shape[1]:,}: make fewer columns of it, as sklearn.decomposition.TruncatedSVD does, "
            "or take fewer rows"
        )
    return np.asarray(x.toarray())


def distinct(x: np.ndarray, y: np.ndarray, weights: np.ndarray, together: np.ndarray | None = None) -> DistinctRows:
    """Find the distinct rows of positive weight, sorted, and sum the weights of equal ones that are of one set."""
    sets = [] if together is None else [together]
    order, new = _sorted([*sets, *y.T, *x.T][::-1], np.flatnonzero(weights > 0).astype(np.int32))
    starts = np.flatnonzero(new)
    if len(starts) < MIN_ROWS:
        raise ValueError(f"an ensemble needs at least 4 different rows of positive weight, got {len(starts)}")
    if len(starts) == len(order):
        alike = (weights == 1).all()
        counts = np.broadcast_to(1.0, len(order)) if alike else weights[order]
    else:
        order, counts = order[starts], np.add.reduceat(weights[order], starts)
    return DistinctRows(x, y, order, counts, None if together is None else together[order])


def _sorted(columns: Sequence[np.ndarray], order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort rows by columns, the first counting most; tell which differ from the one before."""
    # A column sorts only the rows that are still equal in those before it, of which there are soon few.
    new = np.zeros(len(order), dtype=bool)
    new[:1] = True
    tied = np.arange(len(order), dtype=np.int32)
    for column in columns:
        group, values = np.cumsum(new)[tied], column[order[tied]]
        by = np.lexsort((values, group))
        order[tied] = order[tied][by]
        values = values[by]
        # Indices of one group stand side by side, in `tied` as in `order`; across groups `new` holds already.
        new[tied[1:]] |= values[1:] != values[:-1]
        alone = new & np.append(new[1:], True)
        tied = tied[~alone[tied]]
        if not len(tied):
            break
    return order, new


def moments(values: np.ndarray, indices: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and standard deviation of each column over some rows; 1 for the latter if it is rounding."""
    unit = unit_of(_largest(values, indices))  # squares stay in float64
    mean = np.zeros(values.shape[1])
    for part in chunks(len(indices)):
        mean += weights[part] @ (values[indices[part]] / unit)
    mean /= weights.sum()
    square = np.zeros(values.shape[1])
    for part in chunks(len(indices)):
        square += weights[part] @ (values[indices[part]] / unit - mean) ** 2
    std = np.sqrt(square / weights.sum())
    return mean * unit, np.where(std > 1e-12 * np.abs(mean), std * unit, 1.0)


def _largest(values: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Largest absolute value of each column over some rows."""
    largest = np.zeros(values.shape[1])
    for part in chunks(len(indices)):
        np.maximum(largest, np.abs(values[indices[part]]).max(0), out=largest)
    return largest


def input_moments(values: np.ndarray, indices: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Moments of inputs; a column that never varies has an infinite deviation, so that no value of it has an effect."""
    mean, std = moments(values, indices, weights)
    least = most = values[indices[0]]
    for part in chunks(len(indices)):
        rows = values[indices[part]]
        least, most = np.minimum(least, rows.min(0)), np.maximum(most, rows.max(0))
    flat = is_constant(least, most)
    return np.where(flat, least, mean), np.where(flat, np.inf, std)


def standardised(estimator: Any, X: Any, center: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Standardise validated rows, dense or sparse; warn where a column differs that never varied in training."""
    values = X.toarray() if issparse(X) else X
    changed = np.isinf(scale) & ~is_constant(center, values).all(0)
    if changed.any():
        names = getattr(estimator, "feature_names_in_", np.arange(len(changed)))[changed].tolist()
        those = listed([repr(name) for name in names])
        warnings.warn(
            f"`X` differs from training in columns that never varied there, {those}: that has no effect on predictions",
            stacklevel=2,
        )
    with np.errstate(over="ignore"):
        return np.asarray((values - center) / scale)


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
    sets[counted] = _groups(values[counted]) if times is None else _time_blocks(values[counted], weights[counted])
    return sets


def _missing(values: np.ndarray) -> bool:
    if values.dtype.kind == "O":
        return any(str(value) in ("None", "nan", "NaT", "<NA>") for value in values)
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


def _time_blocks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iufmMb":
        raise ValueError(
            f"`times` must hold numbers or dates without a time zone, got {values.dtype} such as {values[0]!r}: "
            "convert it, as with pandas.to_datetime(times, utc=True).tz_localize(None)"
        )
    blocks = time_blocks(values, weights)
    if blocks is None:
        raise ValueError(
            "`times` must tell rows apart, got the same time in nearly all rows: give another column, or leave it away"
        )
    return blocks
