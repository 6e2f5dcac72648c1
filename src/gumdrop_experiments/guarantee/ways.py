"""Tables and streams, and their intervals: ends at each of some coverages, by ours and by other packages."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from gumdrop.tables import TableModel, fit_table
from gumdrop.tables.fitting.settings import FitSettings, PredictionSettings
from gumdrop.tables.reading.declared import Reading
from gumdrop_experiments.data.uci import TABLES, read_rows, read_table
from gumdrop_experiments.tables.tasks import Task

Rows = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Inputs (N, F) and targets (N,)."""
FILES = [source.file for source in TABLES.values()]
COVERAGES = (0.5, 0.8, 0.9, 0.95)
HELD_OUT = 0.25
"""Share of the training rows that calibrates a split-conformal method."""
PLAIN, CONFORMAL, BY = "gumdrop", "gumdrop, conformal", "gumdrop, conformal by quarters"
Ends = NDArray[np.float64]
"""Lower and upper ends at `COVERAGES`, shape (4, N, 2)."""


@dataclass(frozen=True)
class Stream:
    """Rows in the order of time."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
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
    **{name: _uci(name) for name in ("boston-housing", "concrete-strength", "wine-quality-red", "kin8nm")},
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


def column_of(task: Task) -> int:
    """Find the input that goes most with the target, by rank."""
    going = [abs(spearmanr(column, task.y_train).statistic) if np.ptp(column) else 0.0 for column in task.x_train.T]
    return int(np.argmax(going))


def frame_of(x: NDArray[np.float64]) -> pd.DataFrame:
    """Name the columns."""
    return pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])


def fitted(task: Task, by: int | None) -> TableModel:
    """Fit a table with conformal levels, and those of the quarters of a column."""
    settings = FitSettings(
        compare=False,
        conformal=True,
        conformal_by=() if by is None else (f"x{by}",),
        test_fraction=1 / len(task.y_train),
        epochs=task.epochs,
        seed=task.seed,
    )
    frame = frame_of(task.x_train).assign(y=task.y_train)
    return fit_table(frame, "y", reading=Reading(task="regression"), settings=settings)


def ours(task: Task) -> dict[str, Ends]:
    """Intervals of one model: its own, conformal, and conformal by the quarters of a column."""
    model = fitted(task, column_of(task))
    assert model.conformal is not None, "the model has conformal levels"
    whole = replace(model.conformal, levels=model.conformal.levels[:1], columns=())
    kinds = {PLAIN: None, CONFORMAL: whole, BY: model.conformal}
    return {name: _ends(replace(model, conformal=levels), task.x_test) for name, levels in kinds.items()}


def _ends(model: TableModel, x: NDArray[np.float64]) -> Ends:
    prediction: Any = model.predict_part(frame_of(x), PredictionSettings())[2]
    return np.stack([np.stack([end[:, 0].numpy() for end in prediction.interval(c)], axis=1) for c in COVERAGES])


def mapie(task: Task) -> Ends:
    """CV+ around boosted trees."""
    from mapie.regression import CrossConformalRegressor

    trees = HistGradientBoostingRegressor(random_state=task.seed)
    model = CrossConformalRegressor(trees, confidence_level=COVERAGES, method="plus", cv=5, random_state=task.seed)
    intervals = model.fit_conformalize(task.x_train, task.y_train).predict_interval(task.x_test)[1]
    return np.moveaxis(intervals, 2, 0)


def crepes(task: Task) -> Ends:
    """Split-conformal intervals around boosted trees, as wide as the errors of near rows ask for."""
    from crepes import WrapRegressor
    from crepes.extras import DifficultyEstimator

    x, x_held, y, y_held = train_test_split(task.x_train, task.y_train, test_size=HELD_OUT, random_state=task.seed)
    trees = WrapRegressor(HistGradientBoostingRegressor(random_state=task.seed))
    trees.fit(x, y)
    trees.calibrate(x_held, y_held, de=DifficultyEstimator().fit(x, y=y, scaler=True))
    return np.stack([trees.predict_int(task.x_test, confidence=coverage) for coverage in COVERAGES])


def catboost(task: Task) -> Ends:
    """Quantiles of boosted trees, all at once, stopped early."""
    from catboost import CatBoostRegressor

    x, x_stop, y, y_stop = train_test_split(task.x_train, task.y_train, test_size=0.1, random_state=task.seed)
    levels = [(1 + side * coverage) / 2 for coverage in COVERAGES for side in (-1, 1)]
    options: dict[str, Any] = {"random_seed": task.seed, "thread_count": 1, "allow_writing_files": False}
    loss = f"MultiQuantile:alpha={','.join(map(str, sorted(levels)))}"
    model = CatBoostRegressor(loss_function=loss, iterations=None if task.epochs is None else 50, **options)
    model.fit(x, y, eval_set=(x_stop, y_stop), early_stopping_rounds=50, verbose=False)
    quantiles = np.sort(model.predict(task.x_test), axis=1)
    order = np.searchsorted(sorted(levels), levels)
    return np.moveaxis(quantiles[:, order].reshape(len(quantiles), len(COVERAGES), 2), 1, 0)


RIVALS: dict[str, tuple[str, Callable[[Task], Ends]]] = {
    "trees, CV+ of MAPIE": ("mapie", mapie),
    "trees, crepes": ("crepes", crepes),
    "CatBoost's quantiles": ("catboost", catboost),
}
"""What pages call each, the package that it needs, and how it finds intervals."""


def rivals() -> dict[str, Callable[[Task], Ends]]:
    """Give the rivals whose packages are here; others are named."""
    ways = {}
    for name, (package, way) in RIVALS.items():
        if importlib.util.find_spec(package) is not None:
            ways[name] = way
        else:
            print(f"guarantee: {package} is not installed, so '{name}' is left out (pip install {package})")
    return ways
