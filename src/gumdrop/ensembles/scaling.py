"""What the networks of a regression see of its target: the target, or its root or logarithm, standardised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from gumdrop.ensembles.noise import weighted_mean
from gumdrop.likelihoods import PLAIN, RegressionPrediction, TargetScale
from gumdrop.likelihoods.scaled_mixture import log_density
from gumdrop.likelihoods.target_scale import Kind

__all__ = ["AS_IT_IS", "Scaling"]

ROUNDING = 1e-5
"""Of a spread, below which a value is but what float32 has rounded."""
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Scaling:
    """What networks see of a target, and the way back."""

    scale: TargetScale = PLAIN
    """Where the target can lie, and what of it networks see."""
    center: float = 0.0
    """What is taken off the root or logarithm."""
    spread: float = 1.0
    """What it is then divided by."""

    @classmethod
    def fitted(cls, scale: TargetScale, y: Tensor, weights: Tensor | None = None) -> Scaling:
        """Take the mean and the standard deviation of the root or logarithm, if that is what networks are to see.

        Args:
            scale: Where targets can lie, in their units.
            y: Targets, shape (N, 1) where the scale has a bound.
            weights: Weight of each row; 1 if None.

        Returns:
            The scaling.
        """
        if scale.kind == "identity":
            return cls(scale)
        values = scale.to_gaussian(y.double())
        counts = torch.ones(len(y), dtype=torch.float64) if weights is None else weights.double()
        center = weighted_mean(values, counts)
        spread = weighted_mean((values - center).square(), counts).sqrt()
        return cls(scale, center.item(), spread.item() or 1.0)

    def encoded(self, y: Tensor) -> Tensor:
        """What networks see of targets, in the dtype that they train in."""
        if self.scale.kind == "identity":
            return y.float() if y.is_floating_point() else y
        return ((self.scale.to_gaussian(y.double()) - self.center) / self.spread).float()

    def log_prob(self, prediction: RegressionPrediction, seen: Tensor) -> Tensor:
        """Log density of targets, in their units, without the way back, which would round what is small.

        Args:
            prediction: Of what networks see, N rows.
            seen: The targets as networks see them, shape (N, D).

        Returns:
            Shape (N,).
        """
        latent, value = prediction.rescale(self.spread, self.center), seen * self.spread + self.center
        if self.scale.cuts:
            rounding = ROUNDING * self.spread if self.scale.kind == "sqrt" else 0.0  # a root of 0 has no density
            value = value.clamp(min=self.scale.floor + rounding)
        return log_density(*latent.components(), self.scale, value)

    def in_units(self, prediction: RegressionPrediction) -> RegressionPrediction:
        """Carry a prediction of what networks see over to the target."""
        if self == AS_IT_IS:
            return prediction
        return prediction.rescale(self.spread, self.center).on(self.scale)

    @property
    def numbers(self) -> list[float]:
        """The scaling as plain numbers, for a file."""
        return [self.scale.least, self.scale.step, float(KINDS.index(self.scale.kind)), self.center, self.spread]

    @classmethod
    def of_numbers(cls, numbers: Sequence[float]) -> Scaling:
        """Read what `numbers` gave."""
        least, step, kind, center, spread = numbers
        return cls(TargetScale(least, step, KINDS[int(kind)]), center, spread)


AS_IT_IS = Scaling()
"""Networks see the target as it is."""
