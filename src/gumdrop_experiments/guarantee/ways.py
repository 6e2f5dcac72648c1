"""Intervals of a table: ends at each of some coverages, by ours and by other packages."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from gumdrop.tables import TableModel, fit_table
from gumdrop.tables.fitting.settings import FitSettings, PredictionSettings, Reading

COVERAGES = (0.5, 0.8, 0.9, 0.95)
HELD_OUT = 0.25
"""Share of the training rows that calibrates a split-conformal method."""
PLAIN, CONFORMAL, BY = "gumdrop", "gumdrop, conformal", "gumdrop, conformal by quarters"


@dataclass(frozen=True)
class Split:
    """Rows that train, and inputs that are predicted."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    x_test: NDArray[np.float64]
    seed: int
    epochs: int | None


Ends = NDArray[np.float64]
"""Lower and upper ends at `COVERAGES`, shape (4, N, 2)."""


def column_of(split: Split) -> int:
    """Find the input that goes most with the target, by rank."""
    going = [abs(spearmanr(column, split.y).statistic) if np.ptp(column) else 0.0 for column in split.x.T]
    return int(np.argmax(going))


def frame_of(x: NDArray[np.float64]) -> pd.DataFrame:
    """Name the columns."""
    return pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])


def fitted(split: Split, by: int | None) -> TableModel:
    """Fit a table with conformal levels, and those of the quarters of a column."""
    settings = FitSettings(
        compare=False,
        conformal=True,
        conformal_by=() if by is None else (f"x{by}",),
        test_fraction=1 / len(split.y),
        epochs=split.epochs,
        seed=split.seed,
    )
    return fit_table(frame_of(split.x).assign(y=split.y), "y", reading=Reading(task="regression"), settings=settings)


def ours(split: Split) -> dict[str, Ends]:
    """Intervals of one model: its own, conformal, and conformal by the quarters of a column."""
    model = fitted(split, column_of(split))
    assert model.conformal is not None, "the model has conformal levels"
    whole = replace(model.conformal, levels=model.conformal.levels[:1], columns=())
    kinds = {PLAIN: None, CONFORMAL: whole, BY: model.conformal}
    return {name: _ends(replace(model, conformal=levels), split.x_test) for name, levels in kinds.items()}


def _ends(model: TableModel, x: NDArray[np.float64]) -> Ends:
    prediction: Any = model.predict_part(frame_of(x), PredictionSettings())[2]
    return np.stack([np.stack([end[:, 0].numpy() for end in prediction.interval(c)], axis=1) for c in COVERAGES])


def mapie(split: Split) -> Ends:
    """CV+ around boosted trees."""
    from mapie.regression import CrossConformalRegressor

    trees = HistGradientBoostingRegressor(random_state=split.seed)
    model = CrossConformalRegressor(trees, confidence_level=COVERAGES, method="plus", cv=5, random_state=split.seed)
    found = model.fit_conformalize(split.x, split.y).predict_interval(split.x_test)[1]
    return np.moveaxis(found, 2, 0)


def crepes(split: Split) -> Ends:
    """Split-conformal intervals around boosted trees, as wide as the errors of near rows ask for."""
    from crepes import WrapRegressor
    from crepes.extras import DifficultyEstimator

    x, x_held, y, y_held = train_test_split(split.x, split.y, test_size=HELD_OUT, random_state=split.seed)
    trees = WrapRegressor(HistGradientBoostingRegressor(random_state=split.seed))
    trees.fit(x, y)
    difficulty = DifficultyEstimator().fit(x, y=y, scaler=True)
    trees.calibrate(x_held, y_held, de=difficulty)
    return np.stack([trees.predict_int(split.x_test, confidence=coverage) for coverage in COVERAGES])


def catboost(split: Split) -> Ends:
    """Quantiles of boosted trees, all at once, stopped early."""
    from catboost import CatBoostRegressor

    x, x_stop, y, y_stop = train_test_split(split.x, split.y, test_size=0.1, random_state=split.seed)
    levels = [(1 + side * coverage) / 2 for coverage in COVERAGES for side in (-1, 1)]
    options: dict[str, Any] = {"random_seed": split.seed, "thread_count": 1, "allow_writing_files": False}
    loss = f"MultiQuantile:alpha={','.join(map(str, sorted(levels)))}"
    model = CatBoostRegressor(loss_function=loss, iterations=None if split.epochs is None else 50, **options)
    model.fit(x, y, eval_set=(x_stop, y_stop), early_stopping_rounds=50, verbose=False)
    found = np.sort(model.predict(split.x_test), axis=1)
    places = np.searchsorted(sorted(levels), levels)
    return np.moveaxis(found[:, places].reshape(len(found), len(COVERAGES), 2), 1, 0)


RIVALS: dict[str, tuple[str, Callable[[Split], Ends]]] = {
    "trees, CV+ of MAPIE": ("mapie", mapie),
    "trees, crepes": ("crepes", crepes),
    "CatBoost's quantiles": ("catboost", catboost),
}
"""What pages call each, the package that it needs, and how it finds intervals."""


def rivals() -> dict[str, Callable[[Split], Ends]]:
    """Give the rivals whose packages are here; others are named."""
    found = {}
    for name, (package, way) in RIVALS.items():
        if importlib.util.find_spec(package) is None:
            print(f"guarantee: {package} is not installed, so '{name}' is left out (pip install {package})")
            continue
        found[name] = way
    return found
