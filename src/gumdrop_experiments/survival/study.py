"""Every model on every split of sets that packages ship, and what the splits say together."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gumdrop.estimators import ConcreteDropoutRegressor
from gumdrop.metrics import concordance, integrated_brier, kaplan_meier, share_below, uniform_p_value
from gumdrop_experiments.harness import Plain, Run
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.survival import Settings

OBSERVED = np.dtype([("seen", bool), ("time", float)])
"""What is known of a row, as scikit-survival takes it."""
OURS, PEERS = "gumdrop", ("Cox", "survival forest")
FOLDS, BINS = 5, 10
QUICK_EPOCHS = 3


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
    needed = {"sksurv", *(SETS[name].package for name in names)}
    if missing := sorted(package for package in needed if find_spec(package) is None):
        raise ValueError(f"`survival` needs {' and '.join(missing)}: pip install 'gumdrop[survival]'")


def read(name: str) -> Times:
    """Read a set."""
    source = SETS[name]
    read_it = getattr(import_module(f"{source.package}.datasets"), source.loader)
    if source.time:
        frame = read_it().dropna(subset=[source.time, source.event])
        x = frame.drop(columns=[source.time, source.event, *source.drop])
        seen, times = frame[source.event], frame[source.time]
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
    varies = np.ptp(x[train], axis=0) > 0
    x = (x - x[train].mean(0)) / np.where(varies, x[train].std(0), 1.0)
    return Split(x[train], times.y[train], x[test], times.y[test])


@dataclass(frozen=True, eq=False)
class Steps:
    """Survivals that are steps, as a prediction that can be scored."""

    times: Tensor
    """Where they are, ascending, shape (K,)."""
    above: Tensor
    """Survival from each of them on, shape (N, K)."""

    @property
    def mean(self) -> Tensor:
        """A number for each row, for its dtype and device."""
        return self.above[:, :1]

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of at most a value, or of (N, 1), shape (N, 1)."""
        at = value.expand(len(self.above), 1).contiguous()
        index = torch.searchsorted(self.times, at, right=True)
        return 1 - torch.cat([torch.ones_like(self.mean), self.above], dim=1).gather(1, index)


def _steps(model: Any, split: Split) -> Steps:
    model.fit(split.x_train, split.y_train)
    above = torch.from_numpy(model.predict_survival_function(split.x_test, return_array=True))
    return Steps(torch.from_numpy(model.unique_times_), above)


def _ours(split: Split, seed: int, epochs: int | None) -> Any:
    model = ConcreteDropoutRegressor(max_iter=epochs, random_state=seed).fit(split.x_train, split.y_train)
    return model.predict_distribution(split.x_test)


def _cox(split: Split, seed: int, epochs: int | None) -> Steps:
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    return _steps(CoxPHSurvivalAnalysis(alpha=0.1), split)


def _forest(split: Split, seed: int, epochs: int | None) -> Steps:
    from sksurv.ensemble import RandomSurvivalForest

    return _steps(RandomSurvivalForest(200, min_samples_leaf=15, random_state=seed), split)


def _blind(split: Split, seed: int, epochs: int | None) -> Steps:
    times = np.unique(split.y_train["time"])
    known, seen = (torch.from_numpy(split.y_train[field].copy()) for field in ("time", "seen"))
    above = kaplan_meier(known, seen, torch.from_numpy(times))
    return Steps(torch.from_numpy(times), above.expand(len(split.y_test), -1))


METHODS: dict[str, Callable[[Split, int, int | None], Any]] = {
    "gumdrop": _ours,
    "Cox": _cox,
    "survival forest": _forest,
    "Kaplan-Meier": _blind,
}


def study(settings: Settings, run: Run) -> Plain:
    """Train the models on the splits of each set, and score their test rows."""
    names = settings.sets or tuple(SETS)
    check_packages(names)
    epochs = QUICK_EPOCHS if run.options.quick else None
    seed, splits = run.options.seed, range(settings.splits)
    parts = run.parts({(name, i): partial(_scored, name, i, seed, epochs) for i in splits for name in names})
    return {name: _summary(name, [parts[name, i] for i in splits]) for name in names}


def _scored(name: str, number: int, seed: int, epochs: int | None) -> Plain:
    split = split_of(read(name), number, FOLDS, seed)
    times, seen = (torch.from_numpy(split.y_test[field].copy()) for field in ("time", "seen"))
    observed = torch.stack([times, torch.where(seen, times, math.inf)], dim=1)
    inner = torch.arange(1, BINS) / BINS
    scores = {}
    for label, method in METHODS.items():
        started = time.process_time()
        prediction = method(split, seed + number, epochs)
        seconds = time.process_time() - started
        below = share_below(prediction, observed, inner)
        ends = torch.cat([torch.zeros(len(below), 1), below, torch.ones(len(below), 1)], dim=1)
        scores[label] = {
            "brier": integrated_brier(prediction, observed).item(),
            "concordance": concordance(prediction, observed).item(),
            "bins": ends.diff(dim=1).sum(0).tolist(),
            "seconds": seconds,
        }
    return scores


def _summary(name: str, splits: list[Plain]) -> Plain:
    """Means over the splits, and the difference of each model from ours with its standard error."""
    times = read(name)
    methods = {}
    for label in METHODS:
        brier = np.array([split[label]["brier"] for split in splits])
        gap = brier - np.array([split[OURS]["brier"] for split in splits])
        methods[label] = {
            "brier": mean_and_error(brier),
            "ours_ahead": mean_and_error(gap),
            "concordance": mean_and_error(split[label]["concordance"] for split in splits),
            "calibration": [_p_value(splits[i : i + FOLDS], label) for i in range(0, len(splits), FOLDS)],
            "seconds": float(np.median([split[label]["seconds"] for split in splits])),
        }
    return {
        "rows": len(times.y),
        "inputs": times.x.shape[1],
        "seen": float(times.y["seen"].mean()),
        "splits": len(splits),
        "methods": methods,
    }


def _p_value(folds: list[Plain], label: str) -> float:
    """D-calibration over all folds of one order of the rows, in which each row is tested once."""
    return uniform_p_value(torch.tensor([fold[label]["bins"] for fold in folds]).sum(0)).item()
