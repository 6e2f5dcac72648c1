"""The target is a number that is known in part: a time that may not be over, a number in a range."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gumdrop.ensembles.scaling import Scaling
from gumdrop.likelihoods import PartKnown, RegressionPrediction
from gumdrop.metrics.survival import concordance, d_calibration, integrated_brier, kaplan_meier, share_below, survival
from gumdrop.tables.results import LIKELIHOOD, Calibration, CalibrationAt, CurveOfRow, Curves, RegressionRows
from gumdrop.tables.schema.cells import LARGEST, ends_of, known_words
from gumdrop.tables.task.base import Measure, mean_log_prob
from gumdrop.tables.task.regression import Regression

ROWS, TIMES = 5, 3
"""Rows whose curves are shown, and times at which survival is calibrated."""
ROWS_OF_A_GROUP, MOST_GROUPS = 20, 5
"""Rows that a Kaplan-Meier estimate is to have, and groups of them."""


@dataclass(frozen=True)
class PartKnownRegression(Regression):
    """Predict a number of which an interval is known; a prediction is the median."""

    null_model = "one curve for all rows"

    @property
    def likelihood(self) -> PartKnown:
        """Gaussian; its mass where the number is not seen."""
        return PartKnown()

    @property
    def likelihood_words(self) -> str:
        """The same, and what counts of a row that is not seen."""
        return f"{super().likelihood_words}; of a row that is not seen the probability of its interval"

    @property
    def notes(self) -> list[str]:
        """None: levels are no matter here."""
        return []

    def baselines(
        self, x_train: Tensor, y_train: Tensor, x: Tensor, seed: int
    ) -> dict[str, Callable[[], RegressionPrediction]]:
        """None: trees and lines take numbers that are seen."""
        return {}

    def predict_null(self, y_train: Tensor, num_rows: int) -> RegressionPrediction:
        """Predict with one distribution, on the scale of a logarithm where what is seen is above 0."""
        seen = y_train[:, 0] == y_train[:, 1]
        above = self.target.positive and bool((y_train[seen] > self.scale.bound).all())
        scale = replace(self.scale, kind="log") if above else self.scale
        scaling = Scaling.of_intervals(scale, y_train)
        alike = RegressionPrediction.gaussian(torch.zeros(num_rows, 1), torch.ones(num_rows, 1))
        return self.in_units(scaling.in_units(alike))

    def columns(self, prediction: RegressionPrediction, coverage: float) -> dict[str, np.ndarray]:
        """The median in the place of the mean, which a tail that nobody saw decides on."""
        median = prediction.quantile(0.5).squeeze(1).numpy()
        columns = super().columns(prediction, coverage) | {"prediction": median}
        return {name: np.minimum(values, LARGEST) for name, values in columns.items()}  # no tail is infinite in a file

    def observed(self, encoded: np.ndarray, cells: pd.Series) -> Tensor:
        """Both ends in units, shape (N, 2)."""
        return torch.from_numpy(ends_of(cells))

    def written(self, cells: pd.Series) -> dict[str, np.ndarray]:
        """The ends that there are: equal where the number was seen."""
        ends = np.where(np.isinf(ends := ends_of(cells)), np.nan, ends)
        return {"observed": ends[:, 0], "observed_upper": ends[:, 1]}

    def measures(self, coverage: float, unit: str, num_samples: int) -> dict[str, Measure]:
        """Log likelihood and calibration; of times error of the survivals, and their order."""
        given = "log density of what was seen, log probability of the interval of all else, in nats per row"
        measures = {LIKELIHOOD: Measure("higher", f"{given} (it depends on the unit)", mean_log_prob)}
        if len(self.target.known) == 1:
            square = "square error of the probability to last longer, mean over time and rows, weighted for what is not"
            order = "share of pairs of rows whose order in time is predicted"
            measures["integrated Brier score"] = Measure("lower", f"{square} seen", integrated_brier)
            measures["concordance"] = Measure("higher", order, concordance)
        right = "chance of distributions as uneven as these if they are right (D-calibration), below .05 they are off"
        return measures | {"calibration p": Measure("higher", right, d_calibration)}

    def guess_gains(
        self, ours: RegressionPrediction, other: RegressionPrediction, observed: Tensor
    ) -> tuple[str, Tensor]:
        """How much nearer to what is known each median is."""
        return "distance", (_distance(other, observed) - _distance(ours, observed)).flatten()

    def calibration(self, prediction: RegressionPrediction, observed: Tensor) -> Calibration:
        """Of quantiles: the share of rows below each; one that is not seen counts in part, as the prediction says."""
        levels = torch.arange(5, 100, 5) / 100
        return Calibration(levels.tolist(), share_below(prediction, observed, levels).mean(0).tolist())

    def curves(self, prediction: RegressionPrediction, observed: Tensor, numbers: np.ndarray) -> Curves:
        """Survival of the test part."""
        return curves_of(prediction, observed, numbers, is_time=len(self.target.known) == 1)

    def promises(self, tested: pd.DataFrame, observed: Tensor, coverage: float) -> None:
        """None: of a row that is not seen nobody knows whether it lies in its interval."""

    def rows(self, tested: pd.DataFrame) -> RegressionRows:
        """The test part, with both ends of what is known."""
        upper: list[Any] = [None if np.isnan(end) else end for end in tested["observed_upper"].tolist()]
        lower = [None if np.isnan(end) else end for end in tested["observed"].tolist()]
        return replace(super().rows(tested), observed=lower, observed_upper=upper)

    def explained(self, prediction: RegressionPrediction, labels: Tensor | None) -> Tensor:
        """The median, and the standard deviation of the drawn functions."""
        return torch.cat([prediction.quantile(0.5), prediction.epistemic.sqrt().clamp(max=LARGEST)], dim=1)


def _distance(prediction: RegressionPrediction, observed: Tensor) -> Tensor:
    """How far the median is from what is known of each row, (N, 1)."""
    median = prediction.quantile(0.5)
    return (observed[:, :1] - median).clamp(min=0.0) + (median - observed[:, 1:]).clamp(min=0.0)


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
    points = []
    for k, time in enumerate(at):
        groups = stated[:, k].argsort().tensor_split(count)
        actual = [kaplan_meier(times[g], seen[g], time[None]).item() for g in groups]
        expected = [stated[g, k].mean().item() for g in groups]
        points.append(CalibrationAt(time=time.item(), expected=expected, observed=actual))
    return points
