"""A number of which many rows share a value, such as 0 of amounts of rain: its probability, and the density beside."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from gumdrop.functional.floats import finite_exp, widened
from gumdrop.likelihoods.gaussian import Gaussian, gaussian_nll, split_gaussian
from gumdrop.likelihoods.mixture import RegressionPrediction
from gumdrop.likelihoods.prediction import kept
from gumdrop.likelihoods.scaled_mixture import draw_moments, in_parts, quantile
from gumdrop.likelihoods.target_scale import TargetScale

LEAST_REST = 1e-6
"""Least probability of the density, and least distance of one of its quantiles from 0 and 1."""


@dataclass(frozen=True)
class HurdlePrediction(RegressionPrediction):
    r"""Atoms, values with a probability of their own, and a mixture of Gaussians for all other values of a target.

    .. math:: P(y) = \sum_k \pi_k \delta_{a_k}(y) + \Big(1 - \sum_k \pi_k\Big) f(y)

    The atoms :math:`a_k` are those of `scale`, their probabilities the mean over the draws. Moments are those of the
    whole; a density of a target is that of :math:`f`, and at an atom a probability. One output.
    """

    by_draw = RegressionPrediction.by_draw | {"draw_atoms"}
    draw_atoms: Tensor | None = None
    """Probability of each atom under each draw, (S, N, K)."""

    @property
    def atom_probabilities(self) -> Tensor:
        """Probability of each atom, shape (N, K).

        Raises:
            ValueError: If the draws were not kept.
        """
        return kept(self.draw_atoms).mean(0)

    @property
    def _rest(self) -> Tensor:
        """Probability of the density, shape (N, 1)."""
        return (1 - self.atom_probabilities.sum(1, keepdim=True)).clamp(min=LEAST_REST)

    def _atoms(self) -> list[tuple[float, Tensor]]:
        """Each atom and its probability, shape (N, 1)."""
        return list(zip(self.scale.atoms, self.atom_probabilities.split(1, dim=1), strict=True))

    def censored(self, bound: float) -> "HurdlePrediction":
        """Give the one atom the probability that the draws, on a scale that is linear, have below a bound."""
        means, variances = self.components()
        return replace(self, draw_atoms=torch.special.ndtr((bound - means) / variances.sqrt()))

    def on(self, scale: TargetScale) -> "HurdlePrediction":
        """See `RegressionPrediction.on`; moments are those of atoms and density together, if the scale has atoms."""
        density = super().on(scale)
        if not scale.atoms:
            return density
        of_draws, atoms = draw_moments(*self.components(), scale)[0], kept(self.draw_atoms)
        mean, epistemic, aleatoric = beside_atoms(density.mean, density.variance, of_draws, atoms, scale.atoms)
        return replace(density, mean=mean, epistemic=epistemic, aleatoric=aleatoric)

    def log_prob(self, target: Tensor) -> Tensor:
        """Log density of observations, and at an atom the log of its probability, shape (N,), in nats."""
        result = super().log_prob(target) + self._rest.log()[:, 0]
        for atom, probability in self._atoms():
            result = torch.where(target[:, 0] == atom, probability[:, 0].log(), result)
        return result

    def cdf(self, value: Tensor) -> Tensor:
        """Probability that the target is at most a value, see `RegressionPrediction.cdf`; it jumps at the atoms."""
        result = self._rest * super().cdf(value)
        for atom, probability in self._atoms():
            result = result + torch.where(value >= atom, probability, 0.0)
        return result

    def log_probability(self, lower: Tensor, upper: Tensor) -> Tensor:
        """See `RegressionPrediction.log_probability`; atoms count if they are above the lower end, up to the upper."""
        mass = self._rest[:, 0] * super().log_probability(lower, upper).exp()
        for atom, probability in self._atoms():
            mass = mass + torch.where((lower < atom) & (upper >= atom), probability, 0.0).expand(len(mass), 1)[:, 0]
        return mass.clamp(min=torch.finfo(torch.float64).tiny).log()

    def _quantile(self, probability: float | Tensor) -> Tensor:
        """Quantile of each row, of a probability or of (N, 1); where the distribution jumps over it, the atom."""
        probability = torch.as_tensor(probability, dtype=torch.float64, device=self.mean.device).expand_as(self.mean)
        below = passed = torch.zeros_like(probability)
        result = torch.full_like(self.mean, torch.nan)
        for atom, its_own in self._atoms():
            start = self._rest * super().cdf(self.mean.new_tensor(atom)) + below
            result = torch.where((probability > start) & (probability <= start + its_own), atom, result)
            passed = passed + torch.where(probability > start + its_own, its_own, 0.0)
            below = below + its_own
        of_density = ((probability - passed) / self._rest).clamp(LEAST_REST, 1 - LEAST_REST)
        gaussian = in_parts(quantile, *self.components(), self.scale, of_density.to(self.mean))
        return torch.where(result.isnan(), self.scale.from_gaussian(gaussian), result)

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Interval that holds the target with a given probability.

        It is the central one, but where an end is an atom with more than its share of the probability, the other end is
        nearer by the rest: from 0 to the quantile of .9, where 0 alone has .2.

        Args:
            coverage: Probability, in (0, 1).

        Returns:
            Lower and upper ends, each of shape (N, 1).

        Raises:
            ValueError: If ``coverage`` is out of range or the draws were not kept.
        """
        lower, upper = super().interval(coverage)
        if self.levels:  # which hold the share that they promise, whatever the ends are
            return lower, upper
        at_lower, at_upper = self._mass_at(lower), self._mass_at(upper)
        below, above = self._below(lower), 1 - self.cdf(upper)
        nearer_upper = self._quantile((coverage + below).clamp(LEAST_REST, 1 - LEAST_REST)).maximum(lower)
        nearer_lower = self._quantile((1 - coverage - above).clamp(LEAST_REST, 1 - LEAST_REST)).minimum(upper)
        return (
            torch.where((at_upper > 0) & (at_lower == 0), nearer_lower, lower),
            torch.where((at_lower > 0) & (at_upper == 0), nearer_upper, upper),
        )

    def mass_between(self, lower: Tensor, upper: Tensor) -> Tensor:
        """Probability that the target lies between two values or is one of them, shape (N, 1)."""
        return self.cdf(upper) - self._below(lower)

    def _below(self, value: Tensor) -> Tensor:
        return torch.where(value <= self.scale.least, 0.0, self.cdf(value) - self._mass_at(value))

    def _mass_at(self, value: Tensor) -> Tensor:
        """Probability of a value itself, shape (N, 1): 0 where it is no atom."""
        result = torch.zeros_like(value)
        for atom, probability in self._atoms():
            result = torch.where(value == atom, probability, result)
        return result


def beside_atoms(
    mean: Tensor, variance: Tensor, draw_means: Tensor, draw_atoms: Tensor, atoms: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, epistemic and aleatoric variance, (N, 1) each, of K atoms, (S, N, K) by draw, and a density together."""
    values, shares = mean.new_tensor(atoms), draw_atoms.mean(0)
    rest = 1 - shares.sum(1, keepdim=True)
    whole = rest * mean + (shares * values).sum(1, keepdim=True)
    inner = rest * (variance + (mean - whole).square())
    total = inner + (shares * (values - whole).square()).sum(1, keepdim=True)
    of_draws = (1 - draw_atoms.sum(2, keepdim=True)) * draw_means + (draw_atoms * values).sum(2, keepdim=True)
    epistemic = torch.minimum(of_draws.var(0, correction=0), total)
    return whole, epistemic, total - epistemic


def atom_draws(logits: Tensor) -> Tensor:
    """Probability of each of K atoms, of their logits against the density, shape (..., K)."""
    return torch.softmax(F.pad(logits, (1, 0)), dim=-1)[..., 1:]


@dataclass(frozen=True)
class Hurdle(Gaussian):
    """A number with Gaussian noise that many rows share some values of, its atoms.

    The output is that of a `Gaussian` of 1 + K numbers: the first is the number, the others are the logits of the
    atoms against the density, whose log variances count for nothing. A target has two columns: the number, and which
    atom it is, from 1 to K, 0 for none; at an atom the number counts for nothing.
    """

    num_atoms: int = 1
    """K."""
    bound: float | None = None
    """Where the Gaussian is censored (Tobin 1958): the probability of the one atom is that of all below, and its logit
    counts for nothing."""
    name = "hurdle"

    def nll(self, output: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy of the atoms and, where the target is none, `gaussian_nll` of the number."""
        mean, log_variance = self._parameters(output)
        which, density = target[:, 1].long(), gaussian_nll(mean[:, :1], log_variance[:, :1], target[:, :1])
        if self.bound is not None:
            distance = (self.bound - mean[:, 0]) * finite_exp(-0.5 * log_variance[:, 0])
            return torch.where(which == 0, density, -torch.special.log_ndtr(distance))
        of_atoms = F.cross_entropy(F.pad(widened(mean[:, 1:]), (1, 0)), which, reduction="none")
        return of_atoms + (which == 0) * density

    def num_outputs(self, target: Tensor) -> int:
        """One number, beside which atom it is."""
        return 1

    def square_residuals(self, output: Tensor, target: Tensor) -> Tensor:
        """Of the number, where the target is no atom; the noise of the logits, which counts for nothing, stays at 1."""
        mean, log_variance = split_gaussian(output)
        counts, square = target[..., 1:] == 0, (target[..., :1] - mean[..., :1]).square()
        if self.bound is not None:
            alpha = (self.bound - mean[..., :1]) * torch.exp(-0.5 * log_variance[..., :1])
            hazard = torch.exp(-0.5 * (alpha.square() + math.log(2 * math.pi)) - torch.special.log_ndtr(alpha))
            # What is censored has the square that is expected below the bound.
            square = torch.where(counts, square, log_variance[..., :1].exp() * (1 - alpha * hazard).clamp(min=0.0))
            counts = torch.ones_like(counts)
        square = (square * counts).sum(-2) / counts.sum(-2).clamp(min=1)
        return torch.cat([square, torch.ones_like(mean[..., 0, 1:])], dim=-1)

    def predict(self, draws: Iterable[Tensor], num_samples: int, *, keep_draws: bool = True) -> HurdlePrediction:
        """Make atoms and a Gaussian mixture for each row; the draws are always kept."""
        halves = [split_gaussian(widened(each)) for each in draws]
        numbers = [torch.cat([mean[..., :1], log_variance[..., :1]], dim=-1) for mean, log_variance in halves]
        atoms = torch.cat([atom_draws(mean[..., 1:]) for mean, _ in halves])
        return HurdlePrediction(**vars(super().predict(numbers, num_samples)), draw_atoms=atoms)


def gaussian_on(scale: TargetScale) -> Gaussian:
    """Likelihood of numbers on a scale: a `Hurdle` if it has atoms."""
    if not scale.atoms:
        return Gaussian()
    return Hurdle(num_atoms=len(scale.atoms), bound=scale.floor if scale.kind == "censored" else None)
