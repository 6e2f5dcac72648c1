"""Sets of numbers: tables in CSV files, and sets with fixed splits, in the folder layout of the UCI benchmarks.

A folder holds ``data.txt`` (numbers, a row for each example), ``index_features.txt`` and ``index_target.txt`` (column
numbers from 0), and ``index_train_K.txt`` and ``index_test_K.txt`` (row numbers from 0) for each split K from 0.

References:
    Hernandez-Lobato & Adams 2015, "Probabilistic Backpropagation" (ICML 2015, arXiv:1502.05336).
    Foong et al. 2019, "'In-Between' Uncertainty in Bayesian Neural Networks" (arXiv:1906.11537), for gaps.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

KINDS = ("random", "gap", "tail")
"""Splits as published, and those that hold out the middle or both ends of an input."""


@dataclass(frozen=True)
class Split:
    """One split of a set, standardised by its training part; targets of shape (N, 1), or class indices, (N,)."""

    x_train: Tensor
    """Inputs to train on, shape (N, F)."""
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    y_mean: float
    """Mean of the training targets, in their units."""
    y_std: float
    """Standard deviation of the training targets, in their units."""

    def part(self, train: Tensor, test: Tensor) -> "Split":
        """Split the training part once more, as a search for settings does; nothing is standardised anew."""
        x, y = self.x_train, self.y_train
        return Split(x[train], y[train], x[test], y[test], self.y_mean, self.y_std)


def read_rows(folder: str | os.PathLike[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read all rows of a set, whatever its splits: inputs (N, F) and targets (N, 1), in their units."""
    root = Path(folder)
    data = _numbers(root / "data.txt")
    features = _indices(root / "index_features.txt", data.shape[1], "column")
    target = _indices(root / "index_target.txt", data.shape[1], "column")
    if len(target) != 1 or target[0] in features:
        raise ValueError(f"{root / 'index_target.txt'} must name one column that is no feature, got {target.tolist()}")
    return data[:, features], data[:, target]


def read_splits(folder: str | os.PathLike[str], *, most: int | None = None) -> list[Split]:
    """Read a set and its splits."""
    root = Path(folder)
    x, y = read_rows(root)
    splits: list[Split] = []
    while len(splits) != most:
        train_file, test_file = (root / f"index_{part}_{len(splits)}.txt" for part in ("train", "test"))
        if splits and not (train_file.is_file() or test_file.is_file()):
            break
        train, test = (_indices(file, len(x), "row") for file in (train_file, test_file))
        if both := set(train.tolist()) & set(test.tolist()):
            raise ValueError(f"{test_file} names row {min(both)}, and so does {train_file.name}; a test row is unseen")
        splits.append(standardised(x, y, train, test))
    return splits


def held_out(column: NDArray[np.float64], kind: str) -> NDArray[np.bool_]:
    """Choose the middle third of the rows in the order of an input for a gap, both outer sixths for a tail."""
    rank, count = np.argsort(np.argsort(column, kind="stable")), len(column)
    if kind == "gap":
        return (rank >= count // 3) & (rank < count - count // 3)
    return (rank < count // 6) | (rank >= count - count // 6)


def splits_of(folder: Path, kind: str, *, most: int | None = None) -> list[Split]:
    """Split a set: as published, or once for each input."""
    if kind == "random":
        return read_splits(folder, most=most)
    x, y = read_rows(folder)
    masks = [held_out(column, kind) for column in x.T[:most]]
    return [standardised(x, y, np.flatnonzero(~mask), np.flatnonzero(mask)) for mask in masks]


def _numbers(path: Path) -> NDArray[np.float64]:
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent} lacks the file {path.name}; put it there, or correct --data")
    try:
        data = np.loadtxt(path, ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path} must hold rows of numbers of one length ({error})") from error
    if data.size == 0 or not np.isfinite(data).all():
        raise ValueError(f"{path} must hold finite numbers, got {'none' if data.size == 0 else 'NaN or infinity'}")
    return data


def _indices(path: Path, limit: int, what: str) -> NDArray[np.int64]:
    values = _numbers(path).ravel()
    indices = values.astype(np.int64)
    wrong = (indices != values) | (indices < 0) | (indices >= limit)
    if wrong.any() or len(set(indices.tolist())) < len(indices):
        bad = f"{values[wrong][0]:g}" if wrong.any() else "a number twice"
        raise ValueError(f"{path} must hold {what} numbers from 0 to {limit - 1}, each once, got {bad}")
    return indices


def standardised(
    x: NDArray[np.float64], y: NDArray[np.float64], train: NDArray[np.int64], test: NDArray[np.int64]
) -> Split:
    """Split inputs (N, F) and targets (N, 1) by row numbers, standardised by the training part, in float32."""

    def scaled(values: NDArray[np.float64]) -> tuple[Tensor, Tensor, float, float]:
        mean, std = values[train].mean(0), values[train].std(0)
        std[np.ptp(values[train], axis=0) == 0] = 1.0  # one that does not vary is 0; of .1s the std is not
        rows = torch.tensor((values - mean) / std, dtype=torch.float32)
        return rows[train], rows[test], float(mean[-1]), float(std[-1])

    x_train, x_test, *_ = scaled(x)
    y_train, y_test, y_mean, y_std = scaled(y)
    return Split(x_train, y_train, x_test, y_test, y_mean, y_std)


class Source(NamedTuple):
    """A file, and what of it is used."""

    file: str
    """Its path in the folder of the tables."""
    target: str
    unused: tuple[str, ...] = ()
    """Columns that are no inputs: parts of the target, numbers of rows, dates that others repeat."""


TABLES = {
    "airfoil": Source("airfoil/airfoil.csv", "target"),
    "bike-sharing": Source("bike-sharing/hour.csv", "cnt", ("casual", "registered", "instant", "dteday")),
}


def read_table(folder: Path, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read inputs (N, F) and targets (N, 1) of a table, in their units."""
    file, target, unused = TABLES[name]
    frame = pd.read_csv(folder / file)
    if missing := {target, *unused} - set(frame.columns):
        raise ValueError(f"{folder / file} must have the columns {sorted(missing)}, got {list(frame.columns)}")
    inputs = frame.drop(columns=[target, *unused])
    try:
        return inputs.to_numpy(np.float64), frame[[target]].to_numpy(np.float64)
    except ValueError as error:
        raise ValueError(f"{folder / file} must hold numbers in {list(inputs.columns)} ({error})") from error
