"""What methods say of a row: a density, quantiles alone, or probabilities of classes."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gumdrop.likelihoods import ClassificationPrediction, RegressionPrediction

LEVEL = 0.9
"""Probability of the intervals whose width is told."""
QUANTILE_LEVELS = (0.025, *(i / 20 for i in range(1, 20)), 0.975)
"""What methods that give quantiles alone are asked for: the ends of all intervals, and a grid for the CRPS."""
LEAST_PROBABILITY = 1e-6
LEAST_STD = 1e-3


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of each row at `QUANTILE_LEVELS`, of a method that gives no density."""

    middle: Tensor
    """Point prediction, shape (N,)."""
    values: Tensor
    """Shape (N, L), ascending in each row."""
    least_std: float
    """Standard deviation that its Gaussian has at least: where targets come in steps, quantiles often coincide."""

    @staticmethod
    def of(
        values: NDArray[np.float64], y_train: NDArray[np.float64], middle: NDArray[np.float64] | None = None
    ) -> "Quantiles":
        """Take quantiles (N, L) as a method gives them, in order where they cross (Chernozhukov et al. 2010).

        The least distance of two training targets that differ is a step, and a Gaussian narrower than the rounding to
        it, ``step / sqrt(12)``, says nothing more. The point prediction is the median if None.
        """
        ordered = torch.from_numpy(np.sort(values, axis=1)).double()
        median = ordered[:, QUANTILE_LEVELS.index(0.5)]
        step = np.diff(np.unique(y_train)).min(initial=np.inf)
        least_std = float(step / 12**0.5) if np.isfinite(step) else LEAST_STD
        return Quantiles(median if middle is None else torch.from_numpy(middle).double(), ordered, least_std)

    def at(self, level: float) -> Tensor:
        """Quantile of each row at one of `QUANTILE_LEVELS`, shape (N,)."""
        return self.values[:, int(np.argmin(np.abs(np.array(QUANTILE_LEVELS) - level)))]

    def gaussian(self) -> RegressionPrediction:
        """Give the Gaussian that has the same 5 and 95 % quantiles, for scores that need a density."""
        lower, upper = self.at((1 - LEVEL) / 2), self.at((1 + LEVEL) / 2)
        reach = 2 * torch.special.ndtri(torch.tensor((1 + LEVEL) / 2, dtype=torch.float64)).item()
        std = ((upper - lower) / reach).clamp(min=self.least_std)
        return gaussian(((lower + upper) / 2).numpy(), std.numpy())

    def crps(self, y: Tensor) -> Tensor:
        """Score by the pinball loss, integrated over levels by the trapezoidal rule, in units of the target.

        CRPS is twice that integral (Gneiting & Ranjan 2011, JBES 29). Against a Gaussian this grid gives 0.5 % too
        little.
        """
        levels = torch.tensor([0.0, *QUANTILE_LEVELS, 1.0], dtype=torch.float64)
        error = y.unsqueeze(1) - self.values
        pinball = torch.maximum(levels[1:-1] * error, (levels[1:-1] - 1) * error)
        nothing = torch.zeros(len(y), 1, dtype=torch.float64)  # the loss vanishes at both ends
        return 2 * torch.trapezoid(torch.cat([nothing, pinball, nothing], dim=1), levels).mean()


Prediction = RegressionPrediction | ClassificationPrediction | Quantiles


def gaussian(mean: NDArray[np.float64], std: NDArray[np.float64]) -> RegressionPrediction:
    """Say a Gaussian of each row; standard deviations below 0.001 are raised to it."""
    middle = torch.from_numpy(mean).unsqueeze(1)
    variance = torch.from_numpy(np.maximum(std, LEAST_STD)).square().unsqueeze(1)
    return RegressionPrediction.gaussian(middle, variance)


def probabilities(found: NDArray[np.float64]) -> ClassificationPrediction:
    """Say probabilities of classes (N, C); those below 1e-6 are raised to it."""
    p = torch.from_numpy(found).clamp(min=LEAST_PROBABILITY)
    return ClassificationPrediction.from_log_probabilities((p / p.sum(1, keepdim=True)).log())
