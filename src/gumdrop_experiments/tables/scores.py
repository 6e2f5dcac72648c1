"""How the predictions of `gumdrop reproduce tables` and its sisters are scored."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from gumdrop.likelihoods import ClassificationPrediction, RegressionPrediction
from gumdrop.metrics import accuracy, brier_score, calibration_error, crps, rmse
from gumdrop_experiments.tables.predictions import LEVEL, Prediction, Quantiles
from gumdrop_experiments.uci.work import thinned

COVERAGES = (50, 90, 95)
"""Intervals whose coverage is counted, in percent."""


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
    return crps(thinned(prediction), target.to(prediction.mean).unsqueeze(1)).item()


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
