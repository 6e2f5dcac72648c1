"""What methods are given, a task of a table, what they say of its rows, and how that is scored."""

import math
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.model_selection import KFold, StratifiedKFold
from torch import Tensor

from gumdrop.likelihoods import ClassificationPrediction, RegressionPrediction
from gumdrop.metrics import accuracy, brier_score, calibration_error, crps, rmse
from gumdrop_experiments.data.uci import read_rows

LEAST_ROWS, MOST_CLASSES, LARGEST_SHARE = 200, 10, 0.2
"""What `unseen_sets` asks of a set."""
COVERAGES = (50, 90, 95)
"""Intervals whose coverage is counted, in percent."""
LEVEL = 0.9
"""Probability of the intervals whose width is told."""
QUANTILE_LEVELS = (0.025, *(i / 20 for i in range(1, 20)), 0.975)
"""What methods that give quantiles alone are asked for: the ends of all intervals, and a grid for the CRPS."""
LEAST_STD = 1e-3
CRPS_DRAWS = 100
"""Draws of a mixture that its CRPS compares, all pairs of them, or a few more."""


@dataclass(frozen=True)
class Task:
    """What a method has to do with one split of a table."""

    x_train: NDArray[np.float64]
    """Inputs to train on, shape (N, F)."""
    y_train: NDArray[Any]
    """Targets to train on, shape (N,)."""
    x_test: NDArray[np.float64]
    y_test: NDArray[Any]
    """Targets to predict, which no method looks at."""
    num_classes: int = 0
    """Number of classes; 0 for numbers."""
    seed: int = 0
    epochs: int | None = None
    """Passes of the networks, for a quick run, in which NGBoost is short as well; those of the default if None."""


@dataclass(frozen=True)
class TableSet:
    """A table with a target."""

    name: str
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
        loaded: Any = load() if load else {}
        x, y = loaded.get("exog"), loaded.get("endog")
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


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of each row at `QUANTILE_LEVELS`, of a method that gives no density."""

    middle: Tensor
    """Point prediction, shape (N,)."""
    values: Tensor
    """Shape (N, L), ascending in each row."""
    least_std: float
    """Standard deviation that its Gaussian has at least: where targets come in steps, quantiles often coincide."""

    @staticmethod
    def of(
        values: NDArray[np.float64], y_train: NDArray[np.float64], middle: NDArray[np.float64] | None = None
    ) -> "Quantiles":
        """Take quantiles (N, L) as a method gives them, in order where they cross (Chernozhukov et al. 2010).

        The least distance of two training targets that differ is a step, and a Gaussian narrower than the rounding to
        it, ``step / sqrt(12)``, says nothing more. The point prediction is the median if None.
        """
        ordered = torch.from_numpy(np.sort(values, axis=1)).double()
        median = ordered[:, QUANTILE_LEVELS.index(0.5)]
        step = np.diff(np.unique(y_train)).min(initial=np.inf)
        least_std = float(step / 12**0.5) if np.isfinite(step) else LEAST_STD
        return Quantiles(median if middle is None else torch.from_numpy(middle).double(), ordered, least_std)

    def at(self, level: float) -> Tensor:
        """Quantile of each row at one of `QUANTILE_LEVELS`, shape (N,)."""
        return self.values[:, int(np.argmin(np.abs(np.array(QUANTILE_LEVELS) - level)))]

    def gaussian(self) -> RegressionPrediction:
        """Give the Gaussian that has the same 5 and 95 % quantiles, for scores that need a density."""
        lower, upper = self.at((1 - LEVEL) / 2), self.at((1 + LEVEL) / 2)
        reach = 2 * torch.special.ndtri(torch.tensor((1 + LEVEL) / 2, dtype=torch.float64)).item()
        std = ((upper - lower) / reach).clamp(min=self.least_std)
        return gaussian(((lower + upper) / 2).numpy(), std.numpy())

    def crps(self, y: Tensor) -> Tensor:
        """Score by the pinball loss, integrated over levels by the trapezoidal rule, in units of the target.

        CRPS is twice that integral (Gneiting & Ranjan 2011, JBES 29). Against a Gaussian this grid gives 0.5 % too
        little.
        """
        levels = torch.tensor([0.0, *QUANTILE_LEVELS, 1.0], dtype=torch.float64)
        error = y.unsqueeze(1) - self.values
        pinball = torch.maximum(levels[1:-1] * error, (levels[1:-1] - 1) * error)
        nothing = torch.zeros(len(y), 1, dtype=torch.float64)  # the loss vanishes at both ends
        return 2 * torch.trapezoid(torch.cat([nothing, pinball, nothing], dim=1), levels).mean()


Prediction = RegressionPrediction | ClassificationPrediction | Quantiles


def gaussian(mean: NDArray[np.float64], std: NDArray[np.float64]) -> RegressionPrediction:
    """Say a Gaussian of each row; standard deviations below 0.001 are raised to it."""
    middle = torch.from_numpy(mean).unsqueeze(1)
    variance = torch.from_numpy(np.maximum(std, LEAST_STD)).square().unsqueeze(1)
    return RegressionPrediction.gaussian(middle, variance)


def probabilities(shares: NDArray[np.float64]) -> ClassificationPrediction:
    """Say probabilities of classes (N, C); those below 1e-6 are raised to it."""
    p = torch.from_numpy(shares).clamp(min=1e-6)
    return ClassificationPrediction.from_log_probabilities((p / p.sum(1, keepdim=True)).log())


def rows_of(prediction: Prediction, y: NDArray[Any]) -> dict[str, list[Any]]:
    """Take down what is to be scored of a prediction: columns of numbers, a value for each row."""
    if isinstance(prediction, ClassificationPrediction):
        return {"log_p": prediction.log_probabilities.double().tolist(), "y": y.tolist()}
    target = torch.from_numpy(y).double()
    density = prediction.gaussian() if isinstance(prediction, Quantiles) else prediction
    mean = prediction.middle if isinstance(prediction, Quantiles) else prediction.mean.squeeze(1)
    lower, upper = _interval(prediction, LEVEL)
    columns = {"mean": mean, "lower": lower, "upper": upper, **_inside(prediction, target)}
    return {
        "log_likelihood": density.log_prob(target.to(density.mean).unsqueeze(1)).tolist(),
        **{name: column.tolist() for name, column in columns.items()},
        "y": y.tolist(),
    }


def _interval(prediction: RegressionPrediction | Quantiles, level: float) -> tuple[Tensor, Tensor]:
    if isinstance(prediction, Quantiles):
        return prediction.at((1 - level) / 2), prediction.at((1 + level) / 2)
    lower, upper = prediction.interval(level)
    return lower.squeeze(1), upper.squeeze(1)


def _inside(prediction: RegressionPrediction | Quantiles, y: Tensor) -> dict[str, Tensor]:
    """Whether each row lies in its interval, as 0 or 1, for each of `COVERAGES`."""
    if isinstance(prediction, Quantiles):
        ends = {level: _interval(prediction, level / 100) for level in COVERAGES}
        return {f"inside_{level}": ((a <= y) & (y <= b)).int() for level, (a, b) in ends.items()}
    distance = (2 * prediction.cdf(y.to(prediction.mean).unsqueeze(1)).squeeze(1) - 1).abs()
    return {f"inside_{level}": (distance <= level / 100).int() for level in COVERAGES}


def crps_of(prediction: Prediction, y: NDArray[Any]) -> float | None:
    """Continuous ranked probability score, mean over rows, in units of the target; None for classes."""
    if isinstance(prediction, ClassificationPrediction):
        return None
    target = torch.from_numpy(y).double()
    if isinstance(prediction, Quantiles):
        return prediction.crps(target).item()
    means, variances = prediction.components()
    step = max(1, len(means) // CRPS_DRAWS)
    thinned = replace(prediction, draw_means=means[::step], draw_variances=variances[::step])
    return crps(thinned, target.to(prediction.mean).unsqueeze(1)).item()


def gaussian_nll(prediction: Prediction, y: NDArray[Any]) -> float | None:
    """Mean NLL of the Gaussian with the prediction's mean and variance, in nats per row; None for classes."""
    if isinstance(prediction, ClassificationPrediction):
        return None
    density = prediction.gaussian() if isinstance(prediction, Quantiles) else prediction
    mean, variance = density.mean.double().squeeze(1), density.variance.double().squeeze(1)
    error = torch.from_numpy(y).double() - mean
    return (0.5 * (math.log(2 * math.pi) + variance.log() + error.square() / variance)).mean().item()


def pooled(parts: Sequence[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    """Put the rows of several folds one below the other."""
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}


def scores(rows: dict[str, list[Any]]) -> dict[str, float]:
    """Score rows that `rows_of` took down: log likelihood in nats per row, and what numbers or classes have."""
    columns = {name: torch.tensor(column, dtype=torch.float64) for name, column in rows.items()}
    y = columns["y"]
    if "log_p" not in columns:
        return {
            "log_likelihood": columns["log_likelihood"].mean().item(),
            "rmse": rmse(columns["mean"], y).item(),
            **{f"coverage_{level}": columns[f"inside_{level}"].mean().item() for level in COVERAGES},
            "width": (columns["upper"] - columns["lower"]).mean().item(),
        }
    log_p, labels = columns["log_p"], y.long()
    prediction = ClassificationPrediction.from_log_probabilities(log_p)
    return {
        "log_likelihood": prediction.log_prob(labels).mean().item(),
        "accuracy": accuracy(prediction.label, labels).item(),
        "brier": brier_score(prediction, labels).item(),
        "ece": calibration_error(prediction, labels).item(),
    }
