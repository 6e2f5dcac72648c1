"""The tables and the streams of `guarantee`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from gumdrop_experiments.data.tables import TABLES, read_table
from gumdrop_experiments.data.uci import read_rows

Rows = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Inputs (N, F) and targets (N,)."""


@dataclass(frozen=True)
class Stream:
    """Rows in the order of time."""

    x: NDArray[np.float64]
    """Inputs, shape (N, F)."""
    y: NDArray[np.float64]
    """Targets, shape (N,)."""
    train: int
    """So many of the first train."""


def _uci(name: str) -> Callable[[Path], Rows]:
    return lambda data: read_rows(data / "uci" / name)


def _table(name: str) -> Callable[[Path], Rows]:
    return lambda data: read_table(data / "tables", name)


def _simulated(rows: int, columns: int, target: Callable[..., NDArray[np.float64]]) -> Callable[[Path], Rows]:
    def load(_: Path) -> Rows:
        random = np.random.default_rng(0)
        x = random.normal(size=(rows, columns))
        return x, target(x, random)

    return load


SETS: dict[str, Callable[[Path], Rows]] = {
    "boston-housing": _uci("boston-housing"),
    "concrete-strength": _uci("concrete-strength"),
    "wine-quality-red": _uci("wine-quality-red"),
    "kin8nm": _uci("kin8nm"),
    "airfoil": _table("airfoil"),
    "bike-sharing": _table("bike-sharing"),
    "diabetes": lambda _: datasets.load_diabetes(return_X_y=True),
    "friedman": lambda _: datasets.make_friedman1(700, 10, noise=1.0, random_state=0),
    "heavy-tails": _simulated(600, 6, lambda x, r: x[:, 0] + np.sin(2 * x[:, 1]) + r.standard_t(3, len(x))),
    "skewed": _simulated(600, 5, lambda x, r: r.gamma(2, np.exp(0.5 * x[:, 0] + 0.3 * x[:, 1]))),
    "unequal-noise": _simulated(800, 5, lambda x, r: x[:, 0] + np.exp(x[:, 1]) * r.normal(size=len(x))),
    "wide-noisy": _simulated(300, 20, lambda x, r: x[:, :3].sum(1) + r.normal(size=len(x))),
}
"""Twelve tables, by name; each is loaded from the folder of the data."""


def read_set(name: str, data: Path, most: int) -> Rows:
    """Load a table, and of a long one some rows, the same each time."""
    x, y = SETS[name](data)
    pick = np.random.default_rng(0).permutation(len(x))[:most]
    return x[pick], y.ravel()[pick]


def streams(data: Path, quick: bool) -> dict[str, Stream]:
    """Three streams: rentals in the order of the hours, a noise that grows, and a level that moves."""
    train, rows = (100, 300) if quick else (1500, 5500)
    x, y = read_table(data / "tables", "bike-sharing")
    random = np.random.default_rng(0)
    made, time = random.normal(size=(rows, 4)), np.arange(rows) / rows
    noise = random.normal(size=rows)
    return {
        "rentals, hour by hour": Stream(x[:rows], y.ravel()[:rows], train),
        "noise that grows": Stream(made, made[:, 0] + np.exp(2 * time) * noise, train),
        "a level that moves": Stream(made, made[:, 0] + 6 * time * np.sin(6 * time) + noise, train),
    }


FILES = [source.file for source in TABLES.values()]
"""What the folder of tables must hold."""
