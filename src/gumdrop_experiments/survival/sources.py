"""Sets of survival times, read from the packages that ship them."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import pandas as pd

OBSERVED = np.dtype([("seen", bool), ("time", float)])
"""What is known of a row, as scikit-survival takes it."""


class Source(NamedTuple):
    """Where a set is."""

    package: str
    loader: str
    time: str = ""
    """Column of the times, where they are not apart."""
    event: str = ""
    drop: tuple[str, ...] = ()
    """Columns that are no inputs."""


SETS = {
    "veterans": Source("sksurv", "load_veterans_lung_cancer"),
    "lung": Source("lifelines", "load_lung", "time", "status", ("inst",)),
    "rossi": Source("lifelines", "load_rossi", "week", "arrest"),
    "whas500": Source("sksurv", "load_whas500"),
    "gbsg2": Source("sksurv", "load_gbsg2"),
    "aids": Source("sksurv", "load_aids"),
}


class Times(NamedTuple):
    """A set of survival times."""

    x: pd.DataFrame
    """Inputs; categories are columns of 0 and 1."""
    y: np.ndarray
    """What is known of each row, of dtype `OBSERVED`."""


def check_packages(names: Sequence[str]) -> None:
    """Refuse to begin without a package that is needed."""
    missing = sorted(
        {package for package in ("sksurv", *(SETS[n].package for n in names)) if find_spec(package) is None}
    )
    if missing:
        raise ValueError(f"`survival` needs {' and '.join(missing)}: pip install 'gumdrop[survival]'")


def read(name: str) -> Times:
    """Read a set."""
    source = SETS[name]
    read_it = getattr(import_module(f"{source.package}.datasets"), source.loader)
    if source.time:
        frame = read_it().dropna(subset=[source.time, source.event])
        x, seen, times = (
            frame.drop(columns=[source.time, source.event, *source.drop]),
            frame[source.event],
            frame[source.time],
        )
    else:
        x, known = read_it()
        seen, times = (known[field] for field in known.dtype.names)
    y = np.array(list(zip(np.asarray(seen) == 1, np.asarray(times), strict=True)), dtype=OBSERVED)
    return Times(pd.get_dummies(x, dtype=float).reset_index(drop=True), y)


class Split(NamedTuple):
    """Rows to train on and rows to test on, standardised by the former."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def split_of(times: Times, number: int, folds: int, seed: int) -> Split:
    """Take a split: fold after fold of one order of the rows, then of the next."""
    order = np.random.default_rng([seed, number // folds]).permutation(len(times.y))
    test = np.sort(order[number % folds :: folds])
    train = np.setdiff1d(order, test)
    x = times.x.fillna(times.x.iloc[train].median()).to_numpy(float)
    spread = x[train].std(0)
    x = (x - x[train].mean(0)) / np.where(spread > 0, spread, 1.0)
    return Split(x[train], times.y[train], x[test], times.y[test])
