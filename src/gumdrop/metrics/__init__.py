"""Score a prediction, give it a guarantee, act on it.

`scores.py` and `crps.py` compare predictions with targets, `calibration.py` makes intervals, sets and p-values that
hold on new rows out of held-out ones, and `acquisition.py` and `joint_choice.py` choose the rows to label next. Takes
tensors and the records of `prediction`, and imports nothing else.
"""

from gumdrop.metrics.acquisition import choose, choose_jointly
from gumdrop.metrics.calibration import ConformalIntervals, conformal_sets, fit_temperature, outlier_p_values
from gumdrop.metrics.crps import crps
from gumdrop.metrics.joint_choice import choose_classes_jointly
from gumdrop.metrics.scores import (
    Reliability,
    accuracy,
    aurc,
    brier_score,
    calibration_error,
    central_coverage,
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
    "choose_classes_jointly",
    "choose_jointly",
    "conformal_sets",
    "crps",
    "fit_temperature",
    "interval_coverage",
    "outlier_p_values",
    "reliability",
    "rmse",
]
