"""What the methods of `gumdrop reproduce tables` are given: sets, folds of them, and tasks."""

import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.model_selection import KFold, StratifiedKFold

from gumdrop_experiments.data.uci import read_rows

LEAST_ROWS, MOST_CLASSES, LARGEST_SHARE = 200, 10, 0.2
"""What `unseen_sets` asks of a set."""


@dataclass(frozen=True)
class Task:
    """What a method has to do with one split of a table."""

    x_train: NDArray[np.float64]
    """Inputs to train on, shape (N, F)."""
    y_train: NDArray[Any]
    """Targets to train on, shape (N,)."""
    x_test: NDArray[np.float64]
    """Inputs to predict."""
    y_test: NDArray[Any]
    """Targets to predict, which no method looks at."""
    num_classes: int = 0
    """Number of classes; 0 for numbers."""
    seed: int = 0
    """Seed of everything random."""
    epochs: int | None = None
    """Passes of the networks, for a quick run, in which NGBoost is short as well; those of the default if None."""


@dataclass(frozen=True)
class TableSet:
    """A table with a target."""

    name: str
    """What results call it."""
    x: NDArray[np.float64]
    """Inputs, shape (N, F)."""
    y: NDArray[Any]
    """Numbers in units of their standard deviation, or class indices; shape (N,)."""
    num_classes: int
    """Number of classes; 0 for numbers."""

    def folds(self, count: int, seed: int, epochs: int | None) -> list[Task]:
        """Cut the rows into folds, with all classes in each; each is predicted from the others."""
        x, y, kind = self.x, self.y, StratifiedKFold if self.num_classes else KFold
        return [
            Task(x[train], y[train], x[test], y[test], self.num_classes, seed, epochs)
            for train, test in kind(count, shuffle=True, random_state=seed).split(x, y)
        ]


def table_sets(data: Path | None, *, most: int | None = None) -> Iterator[TableSet]:
    """Load the sets: those that come with scikit-learn, and those that a folder holds."""
    loads: list[Callable[[], TableSet]] = [
        lambda: _numbers("diabetes", *datasets.load_diabetes(return_X_y=True)),
        lambda: _classes("breast-cancer", *datasets.load_breast_cancer(return_X_y=True)),
        lambda: _classes("wine-cultivars", *datasets.load_wine(return_X_y=True)),
        lambda: _classes("digits", *datasets.load_digits(return_X_y=True)),
    ]
    if data is not None:
        folders = sorted(path for path in (data / "uci").glob("*") if path.is_dir())
        loads += [lambda folder=folder: _numbers(folder.name, *read_rows(folder)) for folder in folders]  # type: ignore[misc]
        california = data / "california"
        if (california / "cal_housing_py3.pkz").is_file():
            fetch = partial(datasets.fetch_california_housing, data_home=california, download_if_missing=False)
            loads.append(lambda: _numbers("california-housing", *fetch(return_X_y=True)))
    return (load() for load in loads[:most])


def unseen_sets() -> Iterator[TableSet]:
    """Load the sets of statsmodels with one target and at least 200 rows, words as an indicator for each.

    A number is left out where a fifth of the rows share one value: its methods would be told apart by how narrow a peak
    they put there.
    """
    import statsmodels.datasets as shelf

    for module in pkgutil.iter_modules(shelf.__path__):
        load = getattr(getattr(shelf, module.name, None), "load_pandas", None)
        found: Any = load() if load else {}
        x, y = found.get("exog"), found.get("endog")
        if not isinstance(x, pd.DataFrame) or not isinstance(y, pd.Series) or len(x) < LEAST_ROWS:
            continue
        inputs, classes = pd.get_dummies(x).to_numpy(np.float64), y.unique()
        if len(classes) <= MOST_CLASSES:
            yield _classes(module.name, inputs, np.searchsorted(np.sort(classes), y))
        elif y.value_counts(normalize=True).iloc[0] < LARGEST_SHARE:
            yield _numbers(module.name, inputs, y.to_numpy(np.float64))


def _numbers(name: str, x: NDArray[np.float64], y: NDArray[np.float64]) -> TableSet:
    return TableSet(name, x, (y.ravel() - y.mean()) / y.std(), 0)


def _classes(name: str, x: NDArray[np.float64], y: NDArray[np.int64]) -> TableSet:
    return TableSet(name, x, y, len(np.unique(y)))
