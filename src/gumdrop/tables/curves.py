"""Survival curves of a test part whose target is known in part: of a few rows, of all, and how well they hold."""

import numpy as np
import torch
from torch import Tensor

from gumdrop.likelihoods import RegressionPrediction
from gumdrop.metrics.survival import kaplan_meier, survival
from gumdrop.tables.results import CalibrationAt, CurveOfRow, Curves
from gumdrop.tables.schema.ends import known_words

ROWS, TIMES = 5, 3
"""Rows whose curves are shown, and times at which survival is calibrated."""
ROWS_OF_A_GROUP, MOST_GROUPS = 20, 5
"""Rows that a Kaplan-Meier estimate is to have, and groups of them."""


def curves_of(prediction: RegressionPrediction, observed: Tensor, numbers: np.ndarray, *, is_time: bool) -> Curves:
    """Take curves from the prediction of a test part, known by its ends, (N, 2); of times beside Kaplan-Meier."""
    ends = observed[observed.isfinite()]
    values = torch.linspace(0.0 if is_time else float(ends.min()), float(ends.max()), 60, dtype=torch.float64)
    above = survival(prediction, values)
    order = prediction.quantile(0.5)[:, 0].argsort()
    pick = order[torch.linspace(0, len(order) - 1, min(ROWS, len(order)) + 2).round().long()[1:-1].unique()]
    rows = [
        CurveOfRow(row=int(numbers[i]), known=known_words(*observed[i].tolist()), above=above[i].tolist())
        for i in pick.tolist()
    ]
    mean = above.mean(0).tolist()
    if not is_time:
        return Curves(values=values.tolist(), rows=rows, mean=mean)
    times, seen = observed[:, 0], observed[:, 0] == observed[:, 1]
    whole = kaplan_meier(times, seen, values).tolist()
    return Curves(values=values.tolist(), rows=rows, mean=mean, whole=whole, at=_calibration(prediction, times, seen))


def _calibration(prediction: RegressionPrediction, times: Tensor, seen: Tensor) -> list[CalibrationAt]:
    """Stated against actual survival at the quarters of the times that were seen."""
    if not seen.any():
        return []
    shares = torch.arange(1, TIMES + 1, dtype=torch.float64) / (TIMES + 1)
    at = torch.quantile(times[seen].double(), shares).unique()
    stated = survival(prediction, at)
    count = min(MOST_GROUPS, max(1, len(times) // ROWS_OF_A_GROUP))
    found = []
    for k, time in enumerate(at):
        groups = stated[:, k].argsort().tensor_split(count)
        actual = [kaplan_meier(times[g], seen[g], time[None]).item() for g in groups]
        expected = [stated[g, k].mean().item() for g in groups]
        found.append(CalibrationAt(time=time.item(), expected=expected, observed=actual))
    return found
