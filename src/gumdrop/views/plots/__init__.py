"""Figures of a fitted model: plain arrays in, matplotlib axes out.

Every function draws on the axes it is given, or on a fresh figure outside pyplot when `ax` is None, and
returns the axes. Colours come from `INK` and `PALETTE`, so that a page can replace them by its own.
"""

from gumdrop.views.plots.errors import (
    effect_of_category,
    effect_of_number,
    error_after_rejection,
    error_by_uncertainty,
    grouped_error,
    residuals_by_category,
    residuals_by_number,
)
from gumdrop.views.plots.predictions import (
    calibration,
    confusion,
    distribution,
    frequencies,
    precision_recall,
    predicted_against_observed,
    reliability,
    shares_by_bin,
    sorted_intervals,
    survival_calibration,
    survival_curves,
    uncertainty_parts,
)
from gumdrop.views.plots.style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PALETTE,
    PERCENT,
    RELEVANCE,
    SIZE,
    Summary,
    set_apart,
)
from gumdrop.views.plots.training import rates_over_training, site_colours, training_curve

__all__ = [
    "BLUE",
    "GREEN",
    "INK",
    "ORANGE",
    "PALETTE",
    "PERCENT",
    "RELEVANCE",
    "SIZE",
    "Summary",
    "calibration",
    "confusion",
    "distribution",
    "effect_of_category",
    "effect_of_number",
    "error_by_uncertainty",
    "frequencies",
    "grouped_error",
    "precision_recall",
    "predicted_against_observed",
    "rates_over_training",
    "reliability",
    "residuals_by_category",
    "residuals_by_number",
    "error_after_rejection",
    "set_apart",
    "shares_by_bin",
    "site_colours",
    "sorted_intervals",
    "survival_calibration",
    "survival_curves",
    "training_curve",
    "uncertainty_parts",
]
