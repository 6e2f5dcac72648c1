"""Score a prediction, give it a guarantee, act on it.

`scores.py` and `crps.py` compare predictions with targets, `survival.py` with targets that are known in
part, `calibration.py` makes intervals, sets and p-values that hold on new rows out of held-out ones, and
`acquisition.py` chooses the rows to label next. Takes tensors and the records of `prediction`, and nothing else.
"""

from gumdrop.metrics.acquisition import choose, choose_classes_jointly, choose_jointly
from gumdrop.metrics.calibration import conformal_sets, fit_temperature, outlier_p_values
from gumdrop.metrics.crps import crps, energy_score
from gumdrop.metrics.scores import (
    accuracy,
    aurc,
    brier_score,
    calibration_error,
    central_coverage,
    interval_coverage,
    reliability,
    rmse,
)
from gumdrop.metrics.survival import concordance, integrated_brier, kaplan_meier, share_below, uniform_p_value

__all__ = [
    "accuracy",
    "aurc",
    "brier_score",
    "calibration_error",
    "central_coverage",
    "choose",
    "choose_classes_jointly",
    "choose_jointly",
    "concordance",
    "conformal_sets",
    "crps",
    "energy_score",
    "fit_temperature",
    "integrated_brier",
    "interval_coverage",
    "kaplan_meier",
    "outlier_p_values",
    "reliability",
    "rmse",
    "share_below",
    "uniform_p_value",
]
