"""What the parts of `uci` say together: means over splits, and the comparison with the grid search."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from gumdrop_experiments.data.uci import Split
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.numbers import mean_and_error

OURS, REFERENCE = "gumdrop", "grid"
"""The method that is ours, and the one that others are compared with."""


def summaries(done: Plain, splits: Sequence[Split]) -> Plain:
    """Mean and standard error of each score, and the paired comparison with the grid search."""
    summaries = {}
    for key, part in done.items():
        columns = {score: np.array([each[score] for each in part["scores"]]) for score in part["scores"][0]}
        summary: Plain = {score: mean_and_error(values) for score, values in columns.items()}
        if REFERENCE in done and key != REFERENCE:
            reference = np.array([each["log_likelihood"] for each in done[REFERENCE]["scores"]])
            gain = columns["log_likelihood"] - reference
            summary["gain"] = float(gain.mean())
            summary["p_value"] = paired_test(gain, splits)
            summary["cost_ratio"] = part["row_passes"] / done[REFERENCE]["row_passes"]
            summary["seconds_ratio"] = part["seconds"] / done[REFERENCE]["seconds"]
        if part["rates"]:
            summary["rates"] = np.mean(part["rates"], axis=0).tolist()
        summaries[key] = summary
    return summaries


def paired_test(gain: Any, splits: Sequence[Split]) -> float | None:
    """Two-sided p-value of a t-test that allows for the overlap of the training parts (Nadeau & Bengio 2003)."""
    if len(gain) < 2 or gain.var() == 0:
        return None
    overlap = len(splits[0].x_test) / len(splits[0].x_train)
    error = math.sqrt(gain.var(ddof=1) * (1 / len(gain) + overlap))
    return float(2 * stats.t.sf(abs(gain.mean()) / error, len(gain) - 1))
