"""The record as the tutorial prepares it, and the judge of what is said of later months."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gumdrop.likelihoods import RegressionPrediction
from gumdrop.metrics import central_coverage
from gumdrop_experiments.data.mauna_loa import MaunaLoa

LAST_TRAINING, LAST_ASKED = "1981-03", "1992-11"
LEFT_OUT = ("1958-06", "1958-10", "1964-02", "1964-03", "1964-04")
"""Months without measurements, which the record fills in and the tutorial leaves out."""
YEAR = 12
LEVELS = (0.5, 0.9, 0.95)
ASKED = np.linspace(-1.72, 3.5, 523)
"""Inputs that the tutorial asks about, from the first month to twelve years after the last of training."""


@dataclass(frozen=True)
class Series:
    """The record without its trend, in units of the standard deviation of the training part."""

    x: NDArray[np.float64]
    """Training inputs: the number of the row, standardised."""
    y: NDArray[np.float64]
    """Training targets, standardised."""
    later_x: NDArray[np.float64]
    """The months that follow, one step of the training inputs apart."""
    later_y: NDArray[np.float64]
    """What was measured then, on the same scale."""
    scale: float
    """Parts per million in a unit of the targets."""
    period: float
    """A year, in units of the inputs."""


def series(record: MaunaLoa) -> Series:
    """Prepare the record as the tutorial does: its first 272 measured months, less a straight line, standardised.

    Rows are evenly spaced, although five months are left out. The line and both scales come from the training rows and
    are carried on to the months that follow.
    """
    months = record.months.astype(str).tolist()
    if months[0] != "1958-03" or LAST_ASKED not in months:
        raise ValueError(f"the record must go from 1958-03 to {LAST_ASKED} or later, got {months[0]} to {months[-1]}")
    last, end = months.index(LAST_TRAINING), months.index(LAST_ASKED) + 1
    ppm = np.array([value for month, value in zip(months, record.ppm, strict=True) if month not in LEFT_OUT])
    count, total = last + 1 - len(LEFT_OUT), end - len(LEFT_OUT)
    rows, train = np.arange(total), slice(count)
    slope, offset = np.polyfit(rows[train], ppm[train], 1)
    rest = ppm[:total] - slope * rows - offset
    x = (rows - rows[train].mean()) / rows[train].std()
    y = rest / rest[train].std()
    period = YEAR / rows[train].std()
    return Series(x[train], y[train], x[count:], y[count:], float(rest[train].std()), float(period))


def scores(prediction: RegressionPrediction, target: Tensor) -> dict[str, float]:
    """Log likelihood and coverage of the later truth, and the error of the mean, in units of the training targets."""
    coverage = central_coverage(prediction, target, torch.tensor(LEVELS, dtype=target.dtype)).tolist()
    return {
        "log_likelihood": prediction.log_prob(target).mean().item(),
        "rmse": (prediction.mean - target).square().mean().sqrt().item(),
        **{f"coverage_{100 * level:.0f}": share for level, share in zip(LEVELS, coverage, strict=True)},
    }


def explained(y: NDArray[np.float64], fitted: NDArray[np.float64]) -> float:
    """Say what share of the seasons a fit explains: 1 is all of them, 0 is none, and below it adds some.

    Seasons are what a running mean over a year takes away; the years in between are no merit of the fit.

    Example:
        >>> months = np.arange(60)
        >>> year = np.sin(2 * np.pi * months / 12)
        >>> round(explained(0.1 * months + year, 0.1 * months), 6), round(explained(0.1 * months + year, 3 + year), 6)
        (0.0, 1.0)
    """
    return float(1 - _seasons(y - fitted).var() / _seasons(y).var())


def _seasons(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Take off the mean over a year around each month, of which the first and the last half year have none."""
    half = YEAR // 2
    weights = np.array([0.5, *[1.0] * (YEAR - 1), 0.5]) / YEAR
    return values[half:-half] - np.convolve(values, weights, "valid")
