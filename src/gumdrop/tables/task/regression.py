"""The target is a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from gumdrop.ensembles import Architecture, NoiseFunction, RegressionEnsemble
from gumdrop.layers import PiecewiseLinear
from gumdrop.machine.numerals import cell, readable
from gumdrop.metrics.scores import central_coverage, crps, interval_coverage, rmse
from gumdrop.prediction import RegressionPrediction
from gumdrop.tables.results import LIKELIHOOD, Calibration, RegressionRows
from gumdrop.tables.schema.cells import numbers_of
from gumdrop.tables.task.base import Cut, ScoreMeaning, TableTask

__all__ = ["Regression"]


@dataclass(frozen=True)
class Regression(TableTask[RegressionPrediction]):
    """Predict a number."""

    unskilled = "mean of the training part"
    epistemic = "epistemic_std"
    likelihood = "Gaussian for each draw, with noise that depends on the inputs; a mixture of them in all"

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of the training values."""
        return self.target.mean, self.target.std

    def network(
        self, num_features: int, architecture: Architecture, encoding: PiecewiseLinear | None = None
    ) -> nn.Sequential:
        """Build a network with one noise variance.

        A variance that the network makes of the inputs learns its residuals on small tables, and is then too small.
        How the noise depends on the inputs is found by the ensemble, from rows that its networks have not seen.

        Args:
            num_features: Encoded inputs.
            architecture: What kind of network.
            encoding: What stands in front, or None.

        Returns:
            A network with learned dropout.
        """
        return architecture.network(num_features, 1, encoding, homoscedastic_noise=True)

    def ensemble(self, members: Sequence[nn.Module], num_features: int) -> RegressionEnsemble:
        """Put networks together, with a noise that depends on the inputs."""
        return RegressionEnsemble(members, NoiseFunction(num_features, 1))

    def baselines(self, x_train: Tensor, y_train: Tensor, x: Tensor, seed: int) -> dict[str, RegressionPrediction]:
        """Predict with trees and a line."""
        from gumdrop.tables.baselines import boosted_regression, linear_regression  # half a second

        return {
            "gradient-boosted trees": self.in_units(boosted_regression(x_train, y_train, x, seed=seed)),
            "linear model": self.in_units(linear_regression(x_train, y_train, x, seed=seed)),
        }

    def blind(self, y_train: Tensor, num_rows: int) -> RegressionPrediction:
        """Predict with the mean and the variance of the training targets."""
        from gumdrop.tables.baselines import mean_of_targets

        return self.in_units(mean_of_targets(y_train, num_rows))

    def in_units(self, prediction: RegressionPrediction) -> RegressionPrediction:
        """Undo the standardisation, in float64 where the values need it."""
        dtype = torch.float64 if self.target.needs_float64 else torch.float32
        parts: dict[str, Tensor | None] = {each.name: getattr(prediction, each.name) for each in fields(prediction)}
        exact = replace(prediction, **{name: part.to(dtype) for name, part in parts.items() if part is not None})
        return exact.rescale(self.target.std, self.target.mean)

    def columns(self, prediction: RegressionPrediction, coverage: float) -> pd.DataFrame:
        """Mean, spread, interval, and the parts of the spread."""
        lower, upper = prediction.interval(coverage)
        columns = {"prediction": prediction.mean, "std": prediction.std, "lower": lower, "upper": upper}
        columns |= {"epistemic_std": prediction.epistemic.sqrt(), "aleatoric_std": prediction.aleatoric.sqrt()}
        return pd.DataFrame({name: value.squeeze(1).numpy() for name, value in columns.items()})

    def quantiles(self, prediction: RegressionPrediction, probabilities: Sequence[float]) -> pd.DataFrame:
        """Of the mixture, so that they agree with the interval."""
        return pd.DataFrame({f"q{100 * p:.12g}": prediction.quantile(p).squeeze(1).numpy() for p in probabilities})

    def observed(self, encoded: np.ndarray, cells: pd.Series) -> Tensor:
        """Targets in units, in float64."""
        return torch.from_numpy(numbers_of(self.target.name, cells)).unsqueeze(1)

    def test_rows(self, encoded: np.ndarray, count: int, seed: int) -> np.ndarray:
        """Draw rows at random."""
        from sklearn.model_selection import train_test_split

        return np.asarray(train_test_split(np.arange(len(encoded)), test_size=count, random_state=seed)[1])

    def meanings(self, coverage: float, unit: str, num_samples: int) -> dict[str, ScoreMeaning]:
        """What each score is."""
        where = f"in {unit or f'units of {self.target.name}'}"
        mixture = f"of this model an equal mixture of {num_samples} Gaussians"
        return {
            "RMSE": ScoreMeaning("lower", f"typical error of the prediction, {where}; lower is better"),
            "CRPS": ScoreMeaning(
                "lower", f"error of the whole predicted distribution, {mixture}, {where}; lower is better"
            ),
            LIKELIHOOD: ScoreMeaning(
                "higher",
                "log density that this mixture gives to the observed value, in nats per row (it depends on the unit); "
                "higher is better",
            ),
            f"coverage of {coverage:.0%} interval": ScoreMeaning(
                "target", f"share of test rows inside their interval; should be {coverage:.0%}"
            ),
        }

    def scores(self, prediction: RegressionPrediction, observed: Tensor, coverage: float) -> dict[str, float | None]:
        """Error, error of the whole distribution, log likelihood, and coverage."""
        return {
            "RMSE": rmse(prediction.mean, observed).item(),
            "CRPS": crps(prediction, observed).item(),
            LIKELIHOOD: prediction.log_prob(observed).mean().item(),
            f"coverage of {coverage:.0%} interval": interval_coverage(*prediction.interval(coverage), observed).item(),
        }

    def guess_gains(
        self, ours: RegressionPrediction, other: RegressionPrediction, observed: Tensor
    ) -> tuple[str, Tensor]:
        """How much nearer the truth each guess is."""
        return "distance", ((other.mean - observed).abs() - (ours.mean - observed).abs()).flatten()

    def ranking(self, prediction: RegressionPrediction, observed: Tensor, cut: Cut | None) -> None:
        """Numbers have none."""

    def best_cut(self, prediction: RegressionPrediction, observed: Tensor) -> None:
        """Numbers have none."""

    def calibration(self, prediction: RegressionPrediction, observed: Tensor) -> Calibration:
        """Of central intervals of all sizes."""
        levels = torch.arange(5, 100, 5) / 100
        return Calibration(levels.tolist(), central_coverage(prediction, observed, levels).tolist())

    def rows(self, tested: pd.DataFrame) -> RegressionRows:
        """The test part, for the results."""
        names = ("row", "observed", "lower", "upper", "epistemic_std", "aleatoric_std")
        columns: dict[str, list[Any]] = {name: tested[name].tolist() for name in names}
        return RegressionRows(mean=tested["prediction"].tolist(), **columns)

    def words(self, row: pd.Series) -> tuple[str, str, str]:
        """What was observed of a test row, what is predicted, and its interval."""
        interval = " to ".join(readable(float(row[end])) for end in ("lower", "upper"))
        return cell(float(row["observed"])), readable(float(row["prediction"])), interval

    def labels(self, prediction: RegressionPrediction) -> None:
        """Numbers have none."""

    def explained(self, prediction: RegressionPrediction, labels: Tensor | None) -> Tensor:
        """The predicted number, and the standard deviation of the drawn functions."""
        return torch.cat([prediction.mean, prediction.epistemic.sqrt()], dim=1)
