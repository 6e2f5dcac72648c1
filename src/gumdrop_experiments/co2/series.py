"""The record as the tutorial prepares it, and the judge of what is said of later months."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gumdrop.metrics import central_coverage
from gumdrop.prediction import RegressionPrediction
from gumdrop_experiments.data.mauna_loa import MaunaLoa

__all__ = ["LEFT_OUT", "Series", "scores", "series"]

LAST_TRAINING, LAST_ASKED = "1981-03", "1992-11"
LEFT_OUT = ("1958-06", "1958-10", "1964-02", "1964-03", "1964-04")
"""Months without measurements, which the record fills in and the tutorial leaves out."""
YEAR = 12
LEVELS = (0.5, 0.9, 0.95)


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

    Rows are evenly spaced, although five months are left out. The line and both scales come from the training rows
    and are carried on to the months that follow.

    Args:
        record: Monthly means from March 1958 to November 1992 or later.

    Returns:
        Training rows and what followed.

    Raises:
        ValueError: If the record begins later or ends earlier.
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
