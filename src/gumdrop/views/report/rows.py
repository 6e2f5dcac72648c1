"""The test rows of a fit: how wrong each was, and how uncertain the model was of it."""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binomtest, hypergeom, norm, spearmanr
from sklearn.metrics import roc_auc_score

from gumdrop.tables.errors import TableError
from gumdrop.tables.results import FitResults, Gain, RegressionRows
from gumdrop.views import plots

DRAWS = 4000
"""Of random groups of rows; errors have long tails, for which a normal curve is no match."""


def wilson(count: int, rows: int) -> tuple[float, float]:
    """Return the Wilson 95 % confidence interval of a share of rows (Wilson 1927, JASA 22).

    Example:
        >>> [round(end, 3) for end in wilson(9, 10)]
        [0.596, 0.982]
    """
    low, high = binomtest(count, rows).proportion_ci(method="wilson")
    return float(low), float(high)


def auroc_interval(auroc: float, positive: int, negative: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of the area under the ROC curve.

    References:
        Newcombe 2006, "Confidence intervals for an effect size measure based on the Mann-Whitney statistic, part 2"
        (Statistics in Medicine 25), method 5: it leaves 1/2 out just where the rank test does.

    Example:
        >>> [round(end, 2) for end in auroc_interval(0.8, 20, 20)]
        [0.63, 0.9]
    """
    more, z = (positive + negative) / 2 - 1, float(norm.ppf(0.975))

    def excess(true: float) -> float:
        variance = true * (1 - true) * (1 + more * ((1 - true) / (2 - true) + true / (1 + true))) / positive / negative
        return (auroc - true) ** 2 - z**2 * variance

    low = brentq(excess, 0, min(auroc, 1 - 1e-9)) if auroc > 0 else 0.0
    return float(low), float(brentq(excess, max(auroc, 1e-9), 1)) if auroc < 1 else 1.0


class TestRows:
    """The test rows as arrays: how wrong each was, how uncertain the model was, how wrong it expected to be."""

    def __init__(self, results: FitResults) -> None:
        self.regression = isinstance(results.test, RegressionRows)
        known = {n: values for n, values in vars(results.test).items() if n not in ("log_likelihood", "observed_upper")}
        if self.regression:
            numbers = {name: np.asarray(values, dtype=float) for name, values in known.items()}
            keep = np.all([np.isfinite(values) for values in numbers.values()], axis=0)
            columns = {name: values[keep] for name, values in numbers.items()}
            self.uncertainty = self.expected = np.hypot(columns["epistemic_std"], columns["aleatoric_std"])
            self.error = np.abs(columns["observed"] - columns["mean"])
            self.epistemic = (columns["epistemic_std"] / np.maximum(self.uncertainty, 1e-300)) ** 2
        else:
            columns = {name: np.asarray(values) for name, values in known.items()}
            self.uncertainty = columns["predictive_entropy"].astype(float)
            self.error = (columns["observed"] != columns["predicted"]).astype(float)
            self.expected = 1 - columns["probability"].astype(float)
            self.epistemic = columns["mutual_information"].astype(float) / np.maximum(self.uncertainty, 1e-300)
        self.uncertainty = _without_rounding(self.uncertainty)
        if not self.error.size:
            raise TableError("`results.json` is damaged: `test` has no row whose numbers are all known; fit again.")
        self.columns, self.rows = columns, int(self.error.size)
        self.summary: plots.Summary = "rms" if self.regression else "mean"
        self.typical_error = float(np.sqrt(np.mean(self.error**2)))
        self.usual = ("", 0.0) if self.regression else _commonest(columns["observed"])
        weight = self.uncertainty**2 if self.regression else self.uncertainty
        self.epistemic_share = float(np.clip(np.sum(self.epistemic * weight) / max(weight.sum(), 1e-300), 0, 1))

    def by_chance(self, count: int) -> tuple[float, float]:
        """Central 95 % of the error of this many rows, drawn at random."""
        if not self.regression:
            low, high = hypergeom(self.rows, int(self.error.sum()), count).ppf((0.025, 0.975)) / count
            return float(low), float(high)
        cost, rng = self.error**2, np.random.default_rng(0)
        drawn = [rng.choice(cost, count, replace=False, shuffle=False).mean() for _ in range(DRAWS)]
        low, high = np.sqrt(np.quantile(drawn, (0.025, 0.975)))
        return float(low), float(high)

    def error_margin(self) -> float:
        """Half of the 95 % interval of the error."""
        cost = self.error**2 if self.regression else self.error
        spread = Gain(float(cost.mean()), float(np.std(cost)) / math.sqrt(max(self.rows - 1, 1))).margin(self.rows)
        return spread / (2 * max(float(np.sqrt(cost.mean())), 1e-300)) if self.regression else spread


def association(test: TestRows) -> tuple[float | None, float]:
    """How uncertainty and error go together, and what chance alone reaches."""
    if test.rows < 3 or np.ptp(test.uncertainty) == 0 or np.ptp(test.error) == 0:
        return None, 0.0
    z = float(norm.ppf(0.975))  # of an order by chance the spread is known, so there is none to estimate
    if test.regression:
        return float(spearmanr(test.uncertainty, test.error).statistic), min(1.0, z / math.sqrt(test.rows - 1))
    wrong = int(test.error.sum())
    auroc = roc_auc_score(test.error > 0, test.uncertainty)
    return 2 * float(auroc) - 1, min(1.0, 2 * z * math.sqrt((test.rows + 1) / (12 * wrong * (test.rows - wrong))))


def _commonest(observed: np.ndarray) -> tuple[str, float]:
    """The commonest class, and its share of the rows."""
    names, counts = np.unique(observed, return_counts=True)
    return str(names[counts.argmax()]), float(counts.max() / observed.size)


def _without_rounding(values: np.ndarray) -> np.ndarray:
    """Six digits of each: rows that are alike may differ by the rounding of a batch, and are to be ties."""
    part, power = np.frexp(values)
    return np.ldexp(np.round(part * 2**20) / 2**20, power)
