"""What the networks of a regression see of its target: the target, or its root or logarithm, standardised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from gumdrop.ensembles.noise import weighted_mean
from gumdrop.likelihoods import PLAIN, HurdlePrediction, RegressionPrediction, TargetScale
from gumdrop.likelihoods.part_known import interval_moments
from gumdrop.likelihoods.scaled_mixture import log_density
from gumdrop.likelihoods.target_scale import Kind

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
    def of_intervals(cls, scale: TargetScale, y: Tensor, weights: Tensor | None = None) -> Scaling:
        """Take the moments of the Gaussian on the scale under which weighted intervals, (N, 2), are likely."""
        counts = torch.ones(len(y)) if weights is None else weights
        lower, upper = scale.to_gaussian(y.double()).unbind(1)
        return cls(scale, *interval_moments(lower, upper, counts))

    @classmethod
    def fitted(cls, scale: TargetScale, y: Tensor, weights: Tensor | None = None) -> Scaling:
        """Take the weighted moments of the root or logarithm of targets, if that is what networks see."""
        if scale.is_linear:
            return cls(scale)
        values = scale.to_gaussian(y.double())
        counts = torch.ones(len(y), dtype=torch.float64) if weights is None else weights.double()
        if scale.atoms:
            outside = which_atom(y, scale.atoms) == 0
            values, counts = values[outside], counts[outside]
        center = weighted_mean(values, counts)
        spread = weighted_mean((values - center).square(), counts).sqrt()
        return cls(scale, center.item(), spread.item() or 1.0)

    def encoded(self, y: Tensor) -> Tensor:
        """What networks see of targets, in the dtype that they train in."""
        seen = y.float() if y.is_floating_point() else y
        if not self.scale.is_linear or self.spread != 1:
            seen = ((self.scale.to_gaussian(y.double()) - self.center) / self.spread).float()
        if not self.scale.atoms:
            return seen
        which = which_atom(y, self.scale.atoms)
        return torch.stack([torch.where(which == 0, seen[:, 0], 0.0), which], dim=1)  # as `Hurdle` takes them

    def cells(self, seen: Tensor) -> Tensor:
        """Ends of the cells that targets, (N, 1) as networks see them, are recorded in, (N, 2); themselves without."""
        if not self.scale.step or self.scale.atoms or seen.shape[1] > 1:
            return seen
        half, middle = self.scale.step / 2, self.scale.unbounded(seen.double() * self.spread + self.center)
        ends = (self.scale.to_gaussian(torch.cat([middle - half, middle + half], dim=1)) - self.center) / self.spread
        ends[:, :1] = torch.where(middle < self.scale.least + half, -torch.inf, ends[:, :1])
        return ends.to(seen)

    def decoded(self, seen: Tensor) -> Tensor:
        """Targets in their units, shape (N, D), of what networks see of them."""
        values = self.scale.from_gaussian(seen * self.spread + self.center)
        for index, atom in enumerate(self.scale.atoms, 1):
            values = torch.where(seen[:, 1:] == index, atom, values[:, :1])
        return values

    def log_prob(self, prediction: RegressionPrediction, seen: Tensor) -> Tensor:
        """Log density of targets, (N,), in their units, without the way back, which would round what is small."""
        if isinstance(prediction, HurdlePrediction):
            prediction = self._censored(prediction)
            rest = 1 - prediction.atom_probabilities.sum(1, keepdim=True)
            of_all = torch.cat([rest, prediction.atom_probabilities], dim=1)
            of_atoms = of_all.gather(1, seen[:, 1:].long()).log()[:, 0]
            return of_atoms + torch.where(seen[:, 1] == 0, self._log_density(prediction, seen[:, :1]), 0.0)
        return self._log_density(prediction, seen)

    def _log_density(self, prediction: RegressionPrediction, seen: Tensor) -> Tensor:
        latent, value = prediction.rescale(self.spread, self.center), seen * self.spread + self.center
        if self.scale.cuts:
            # A root of 0 has no density, and below 1e-5 of the spread float32 has rounded.
            rounding = 1e-5 * self.spread if self.scale.kind == "sqrt" else 0.0
            value = value.clamp(min=self.scale.floor + rounding)
        return log_density(*latent.components(), self.scale, value)

    def in_units(self, prediction: RegressionPrediction) -> RegressionPrediction:
        """Carry a prediction of what networks see over to the target."""
        if self == AS_IT_IS:
            return prediction
        if isinstance(prediction, HurdlePrediction):
            prediction = self._censored(prediction)
        return prediction.rescale(self.spread, self.center).on(self.scale)

    def _censored(self, prediction: HurdlePrediction) -> HurdlePrediction:
        """The same, if the scale is censored there with the probability of the bound that its noise has by now."""
        return prediction.censored(self.scale.floor) if self.scale.kind == "censored" else prediction

    @property
    def numbers(self) -> list[float]:
        """The scaling as plain numbers, for a file."""
        scale = self.scale
        return [scale.least, scale.step, float(KINDS.index(scale.kind)), self.center, self.spread, *scale.atoms]

    @classmethod
    def of_numbers(cls, numbers: Sequence[float]) -> Scaling:
        """Read what `numbers` gave."""
        least, step, kind, center, spread, *atoms = numbers
        return cls(TargetScale(least, step, KINDS[int(kind)], tuple(atoms)), center, spread)


def which_atom(y: Tensor, atoms: Sequence[float]) -> Tensor:
    """Tell which atom each target is, from 1 on, 0 for none; targets of shape (N, 1) or (N, 2), the result (N,)."""
    which = torch.zeros(len(y), dtype=torch.float32)
    for number, atom in enumerate(atoms, 1):
        which[(y[:, 0] - atom).abs() <= 1e-9] = number  # in standard deviations, which float64 has rounded
    return which


AS_IT_IS = Scaling()
"""Networks see the target as it is."""
