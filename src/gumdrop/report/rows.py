"""The test rows of a fit: how wrong each was, and how unsure the model was of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gumdrop import plots

__all__ = ["DASH", "Results", "TestRows", "asked_coverage", "association", "number", "percent", "wilson"]

DASH, MINUS, SPACE = "\N{EN DASH}", "\N{MINUS SIGN}", "\N{NO-BREAK SPACE}"
Results = Mapping[str, Any]


def number(value: float | None, digits: int = 3) -> str:
    """A number as the page shows it."""
    if value is None or not math.isfinite(value):
        return DASH
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits - 1}e}".replace("-", MINUS)
    places = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{places}f}".replace("-", MINUS)


def percent(share: float | None) -> str:
    """A share as the page shows it."""
    if share is None or not math.isfinite(share):
        return DASH
    value = round(100 * share, 1)
    return f"{value:.{0 if 10 <= value <= 99 or value in (0, 100) else 1}f}{SPACE}%"


def asked_coverage(results: Results) -> float:
    """The probability that the intervals were asked to have."""
    return float(results["settings"].get("coverage") or 0.9)


def wilson(count: int, rows: int) -> tuple[float, float]:
    """Between which shares the true one lies, with 95 % confidence, where so many of the rows were counted.

    Args:
        count: Rows that were counted.
        rows: All rows, at least 1.

    Returns:
        Lower and upper end.

    References:
        Wilson 1927, "Probable inference, the law of succession, and statistical inference" (JASA 22).

    Example:
        >>> [round(end, 3) for end in wilson(9, 10)]
        [0.596, 0.982]
    """
    z = 1.959964
    middle, spread = count + z * z / 2, z * math.sqrt(count * (rows - count) / rows + z * z / 4)
    return (middle - spread) / (rows + z * z), (middle + spread) / (rows + z * z)


class TestRows:
    """The test rows as arrays: how wrong each was, how unsure the model was, how wrong it expected to be."""

    def __init__(self, results: Results) -> None:
        self.regression = results["task"] == "regression"
        columns = {name: np.asarray(values) for name, values in results["test"].items()}
        if self.regression:
            numbers = {name: values.astype(float) for name, values in columns.items()}
            keep = np.all([np.isfinite(values) for values in numbers.values()], axis=0)
            columns = {name: values[keep] for name, values in numbers.items()}
            self.uncertainty = np.hypot(columns["epistemic_std"], columns["aleatoric_std"])
            self.error = np.abs(columns["observed"] - columns["mean"])
            self.expected = self.uncertainty
            self.unfamiliar = (columns["epistemic_std"] / np.maximum(self.uncertainty, 1e-300)) ** 2
        else:
            columns |= {name: columns[name].astype(str) for name in ("observed", "predicted")}
            self.uncertainty = columns["predictive_entropy"].astype(float)
            self.error = (columns["observed"] != columns["predicted"]).astype(float)
            self.expected = 1 - columns["probability"].astype(float)
            self.unfamiliar = columns["mutual_information"].astype(float) / np.maximum(self.uncertainty, 1e-300)
        if not self.error.size:
            raise ValueError("no test rows")
        self.columns, self.rows = columns, int(self.error.size)
        self.summary: plots.Summary = "rms" if self.regression else "mean"
        weight = self.uncertainty**2 if self.regression else self.uncertainty
        self.unfamiliar_share = float(np.clip(np.sum(self.unfamiliar * weight) / max(weight.sum(), 1e-300), 0, 1))

    def wobble(self) -> float:
        """Two standard errors of the error."""
        cost = self.error**2 if self.regression else self.error
        spread = 2 * float(np.std(cost)) / math.sqrt(self.rows)
        return spread / (2 * max(float(np.sqrt(cost.mean())), 1e-300)) if self.regression else spread


def association(test: TestRows) -> tuple[float | None, float]:
    """How doubt and error go together, and what chance alone reaches.

    Args:
        test: The test rows.

    Returns:
        Rank correlation, or 2 AUROC - 1 of doubt for wrong rows; None if one of the two does not vary.
    """
    doubt, error = _ranks(test.uncertainty), _ranks(test.error)
    if test.rows < 3 or np.ptp(doubt) == 0 or np.ptp(error) == 0:
        return None, 0.0
    if test.regression:
        return float(np.corrcoef(doubt, error)[0, 1]), 2 / math.sqrt(test.rows - 1)
    wrong = int(test.error.sum())
    right = test.rows - wrong
    auroc = (doubt[test.error > 0].sum() - wrong * (wrong + 1) / 2) / (wrong * right)
    return 2 * float(auroc) - 1, 4 * math.sqrt((test.rows + 1) / (12 * wrong * right))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last: np.ndarray = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]
