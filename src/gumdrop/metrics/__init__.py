"""Score a prediction, give it a guarantee, act on it.

Takes predictions and targets as tensors; imports `prediction` and the rooms below.
"""

from gumdrop.metrics.acquisition import choose, choose_jointly
from gumdrop.metrics.calibration import ConformalIntervals, conformal_sets, fit_temperature, outlier_p_values
from gumdrop.metrics.scores import (
    Reliability,
    accuracy,
    aurc,
    brier_score,
    calibration_error,
    central_coverage,
    crps,
    interval_coverage,
    reliability,
    rmse,
)

__all__ = [
    "ConformalIntervals",
    "Reliability",
    "accuracy",
    "aurc",
    "brier_score",
    "calibration_error",
    "central_coverage",
    "choose",
    "choose_jointly",
    "conformal_sets",
    "crps",
    "fit_temperature",
    "interval_coverage",
    "outlier_p_values",
    "reliability",
    "rmse",
]
