"""Fit each split of the sets, and score test rows with the correlation of the noise and without it."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_linnerud, load_wine, make_friedman1
from sklearn.model_selection import train_test_split

from gumdrop.estimators import ConcreteDropoutRegressor
from gumdrop.machine.threads import limited_threads
from gumdrop.metrics import energy_score
from gumdrop_experiments.harness import Plain, Run
from gumdrop_experiments.pages import mean_and_error, rounded
from gumdrop_experiments.targets import Settings

Numbers = NDArray[np.float64]
CORRELATION = np.array([[1.0, 0.8, -0.5], [0.8, 1.0, -0.3], [-0.5, -0.3, 1.0]])
"""Of the noise that is made."""
ROWS = 600
ALONE, TOGETHER = "independent", "correlated"


def _simulated() -> tuple[Numbers, Numbers]:
    """Three functions of ten inputs, with noise of different size."""
    x, first = make_friedman1(ROWS, noise=0.0, random_state=0)
    clean = np.column_stack([first, 10 * x[:, 0] + 5 * x[:, 5], 20 * (x[:, 1] - 0.5) ** 2])
    noise = np.random.default_rng(0).multivariate_normal(np.zeros(3), CORRELATION, ROWS)
    return x, clean + noise * [1.0, 1.5, 2.0]


def _columns(x: Numbers, targets: list[int], inputs: list[int] | None = None) -> tuple[Numbers, Numbers]:
    """Some columns by others, or by all others."""
    return x[:, inputs] if inputs else np.delete(x, targets, axis=1), x[:, targets]


SETS: dict[str, Callable[[], tuple[Numbers, Numbers]]] = {
    "simulated": _simulated,
    "blood serum": lambda: _columns(load_diabetes(return_X_y=True)[0], [4, 5, 6, 7, 8, 9]),
    "wine": lambda: _columns(load_wine(return_X_y=True)[0], [5, 6, 7, 8]),
    "cells": lambda: _columns(load_breast_cancer(return_X_y=True)[0], [21, 24, 25, 28], list(range(10))),
    "linnerud": lambda: load_linnerud(return_X_y=True),
}
"""Inputs (N, F) and targets (N, D): six blood values by age, sex, weight and pressure; phenols and flavonoids of wines
by other measures; the worst texture, smoothness, compactness and symmetry of cells by their means; weight, waist and
pulse of 20 men by exercises."""


def study(settings: Settings, run: Run) -> Plain:
    """Fit and score all splits of the sets."""
    names = settings.sets or tuple(SETS)
    splits = range(settings.splits)
    parts = run.product(partial(_part, settings, run.options.seed), names, splits)
    results = {name: _summary([parts[name, i] for i in splits]) for name in names}
    ahead = {score: sum(each["gain"][score][0] > 0 for each in results.values()) for score in ("log_density", "energy")}
    return {"sets": results, "ahead": ahead, "splits": settings.splits}


def _part(settings: Settings, first: int, name: str, split: int) -> Plain:
    (x, y), seed = SETS[name](), first + split
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.2, random_state=seed)
    model = ConcreteDropoutRegressor(n_members=settings.members, max_iter=settings.epochs, random_state=seed)
    with limited_threads(1):
        noise = model.fit(x, y).ensemble_.noise
        correlation, count = noise.correlation, settings.num_samples
        scores = {TOGETHER: _scores(model, x_test, y_test, y.std(0), count)}
        noise.correlation = torch.eye(y.shape[1]).to(correlation)
        scores[ALONE] = _scores(model, x_test, y_test, y.std(0), count)
    return {"scores": scores, "correlation": rounded(correlation.numpy()), "rows": len(x)}


def _scores(model: ConcreteDropoutRegressor, x: Numbers, y: Numbers, spread: Numbers, count: int) -> Plain:
    """Joint log density in nats per row, and energy score of targets in units of their spread."""
    draws = np.moveaxis(model.sample_y(x, count, random_state=0), -1, 0) / spread
    energy = energy_score(torch.from_numpy(draws), torch.from_numpy(y / spread)).item()
    inside = _coverage(model, x, y)
    return {"log_density": float(model.log_prob(x, y).mean() + np.log(spread).sum()), "energy": energy, **inside}


def _coverage(model: ConcreteDropoutRegressor, x: Numbers, y: Numbers) -> Plain:
    """Share of rows inside the 50 and 90 % ellipsoids of a Gaussian with the predicted mean and covariance."""
    prediction = model.predict_distribution(x)
    off = torch.from_numpy(y) - prediction.mean
    square = (off * torch.linalg.solve(prediction.covariance, off)).sum(1)
    share = torch.special.gammainc(torch.tensor(y.shape[1] / 2), square / 2)
    return {f"inside_{level}": float((share <= level / 100).double().mean()) for level in (50, 90)}


def _summary(parts: Sequence[Plain]) -> Plain:
    """Means over the splits with their standard errors, and what the correlation gains, split by split."""
    scores = {
        way: {name: mean_and_error(each["scores"][way][name] for each in parts) for name in parts[0]["scores"][way]}
        for way in (ALONE, TOGETHER)
    }
    pairs = [(each["scores"][ALONE], each["scores"][TOGETHER]) for each in parts]
    gain = {
        "log_density": mean_and_error(together["log_density"] - alone["log_density"] for alone, together in pairs),
        "energy": mean_and_error(1 - together["energy"] / alone["energy"] for alone, together in pairs),
    }
    chosen = sum(np.any(each["correlation"] != np.eye(len(each["correlation"]))) for each in parts)
    return {
        "rows": parts[0]["rows"],
        "targets": len(parts[0]["correlation"]),
        "scores": scores,
        "gain": gain,
        "chosen": int(chosen),
        "correlation": parts[0]["correlation"],
    }
