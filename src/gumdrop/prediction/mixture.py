"""A mixture of Gaussians for each row: what drawn functions say of a number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["RegressionPrediction"]


@dataclass(frozen=True)
class RegressionPrediction:
    """A mixture of Gaussians for each row, one component for each drawn function; N rows, D outputs, S draws."""

    mean: Tensor
    """Predictive mean, shape (N, D), in units of the target."""
    epistemic: Tensor
    """Variance of the drawn functions' means, (N, D), squared units: what more data would remove."""
    aleatoric: Tensor
    """Mean of the drawn functions' noise variances, (N, D), squared units: what more data would not remove."""
    draw_means: Tensor | None
    """Mean of each draw, (S, N, D); None if the draws were not kept."""
    draw_variances: Tensor | None
    """Noise variance of each draw, (S, N, D); None if the draws were not kept."""

    @property
    def variance(self) -> Tensor:
        """Total predictive variance, ``epistemic + aleatoric``, shape (N, D)."""
        return self.epistemic + self.aleatoric

    @property
    def std(self) -> Tensor:
        """Predictive standard deviation, shape (N, D), in units of the target."""
        return self.variance.sqrt()

    def rescale(self, scale: Tensor | float, shift: Tensor | float = 0.0) -> "RegressionPrediction":
        """Carry the prediction over to ``scale * target + shift``: back to the units of a standardised target.

        Args:
            scale: Factor, as the standard deviation that the target was divided by; broadcasts to (N, D).
            shift: Offset, as the mean that was taken off the target.

        Returns:
            The prediction in the new units.
        """
        factor = torch.as_tensor(scale, dtype=self.mean.dtype, device=self.mean.device)
        square = factor.square()
        return RegressionPrediction(
            self.mean * factor + shift,
            self.epistemic * square,
            self.aleatoric * square,
            None if self.draw_means is None else self.draw_means * factor + shift,
            None if self.draw_variances is None else self.draw_variances * square,
        )

    @staticmethod
    def gaussian(mean: Tensor, variance: Tensor) -> "RegressionPrediction":
        """Say one Gaussian for each row, as a model without drawn functions does; all of its variance is noise.

        Args:
            mean: Mean, shape (N, D).
            variance: Variance, shape (N, D).

        Returns:
            A mixture of one component.
        """
        return RegressionPrediction(mean, torch.zeros_like(mean), variance, mean[None], variance[None])

    @staticmethod
    def mixture(parts: Sequence["RegressionPrediction"]) -> "RegressionPrediction":
        """Mix predictions of the same rows, each with the same weight, as those of the members of an ensemble.

        Args:
            parts: Predictions of N rows, with the same number of draws each.

        Returns:
            One prediction with all draws, whose epistemic variance holds the spread between the parts.

        Raises:
            ValueError: If there are no parts, or their numbers of draws differ.
        """
        draws = {None if part.draw_means is None else len(part.draw_means) for part in parts}
        if len(draws) != 1:
            raise ValueError(f"`parts` must be predictions with the same number of draws, at least one, got {draws}")
        means = torch.stack([part.mean for part in parts])
        within, aleatoric = (
            torch.stack([getattr(part, name) for part in parts]).mean(0) for name in ("epistemic", "aleatoric")
        )
        return RegressionPrediction(
            means.mean(0), within + means.var(0, correction=0), aleatoric, *_concatenated(parts, dim=0)
        )

    @staticmethod
    def joined(parts: Sequence["RegressionPrediction"]) -> "RegressionPrediction":
        """Put predictions of different rows one below the other.

        Args:
            parts: Predictions with the same number of draws each.

        Returns:
            One prediction with the rows of all.
        """
        moments = [torch.cat([getattr(part, n) for part in parts]) for n in ("mean", "epistemic", "aleatoric")]
        return RegressionPrediction(*moments, *_concatenated(parts, dim=1))

    def scale_noise(self, factor: Tensor | float) -> "RegressionPrediction":
        """Multiply the noise variance of every draw.

        Args:
            factor: Positive; broadcasts to (N, D).

        Returns:
            The prediction with this noise.
        """
        variances = None if self.draw_variances is None else self.draw_variances * factor
        return RegressionPrediction(self.mean, self.epistemic, self.aleatoric * factor, self.draw_means, variances)

    def components(self) -> tuple[Tensor, Tensor]:
        """Give the means and variances of the draws.

        Returns:
            Shape (S, N, D) each.

        Raises:
            ValueError: If the draws were not kept.
        """
        if self.draw_means is None or self.draw_variances is None:
            raise ValueError("the draws were not kept; predict with `keep_draws=True`")
        return self.draw_means, self.draw_variances

    def log_prob(self, target: Tensor) -> Tensor:
        r"""Log density of observations under the mixture, per row, in nats.

        .. math:: \log \frac1S \sum_s \prod_d N(y_d; \mu_{sd}, \sigma^2_{sd})

        Args:
            target: Observations, shape (N, D).

        Returns:
            Shape (N,).

        Raises:
            ValueError: If the shape differs or the draws were not kept.
        """
        if target.shape != self.mean.shape:
            raise ValueError(f"`target` must have shape {tuple(self.mean.shape)}, got {tuple(target.shape)}")
        means, variances = self.components()
        log_density = -0.5 * (math.log(2 * math.pi) + variances.log() + (target - means).square() / variances)
        return torch.logsumexp(log_density.flatten(2).sum(2), dim=0) - math.log(len(means))

    def cdf(self, value: Tensor) -> Tensor:
        """Probability that the target is at most a value, for each row and output.

        Args:
            value: Broadcasts to shape (N, D).

        Returns:
            Shape (N, D), in [0, 1].

        Raises:
            ValueError: If the draws were not kept.
        """
        means, variances = self.components()
        return torch.special.ndtr((value - means) / variances.sqrt()).mean(0)

    def log_probability(self, lower: Tensor, upper: Tensor) -> Tensor:
        r"""Log of the probability that the target lies between two values, per row, in nats.

        .. math:: \log \frac1S \sum_s \prod_d P(l_d < y_d < u_d \mid \mu_{sd}, \sigma^2_{sd})

        With bounds half a step below and above observations that are recorded in steps, this is their log likelihood at
        the resolution of the recording, which no density raises by piling up on the levels.

        Args:
            lower: Lower ends; broadcasts to shape (N, D).
            upper: Upper ends, above them.

        Returns:
            Shape (N,), in float64.

        Raises:
            ValueError: If the draws were not kept.

        Example:
            >>> fair = RegressionPrediction.gaussian(torch.zeros(1, 1), torch.ones(1, 1))
            >>> fair.log_probability(torch.tensor(-1.0), torch.tensor(1.0)).exp()
            tensor([0.6827], dtype=torch.float64)
        """
        means, variances = (part.double() for part in self.components())
        log_mass = log_normal_mass((lower - means) / variances.sqrt(), (upper - means) / variances.sqrt())
        return torch.logsumexp(log_mass.flatten(2).sum(2), dim=0) - math.log(len(means))

    def level_probabilities(self, levels: Sequence[float], step: float) -> Tensor:
        """Probability of each level of a target that is recorded in steps: that it lies within half a step of it.

        Args:
            levels: In units of the target.
            step: Distance of neighbouring levels.

        Returns:
            Shape (N, D, L). What is missing to a sum of 1 lies beyond the levels.

        Raises:
            ValueError: If ``step`` is not positive, or the draws were not kept.
        """
        if not step > 0:
            raise ValueError(f"`step` must be positive, got {step}")
        ends = [[self.cdf(self.mean.new_tensor(level + side)) for side in (-step / 2, step / 2)] for level in levels]
        return torch.stack([above - below for below, above in ends], dim=-1)

    def quantile(self, probability: float) -> Tensor:
        """Quantile of the mixture, by bisection of its distribution function.

        Args:
            probability: In (0, 1).

        Returns:
            Shape (N, D), in units of the target.

        Raises:
            ValueError: If ``probability`` is out of range or the draws were not kept.
        """
        if not 0 < probability < 1:
            raise ValueError(f"`probability` must be strictly between 0 and 1, got {probability}")
        means, variances = self.components()
        normal = torch.special.ndtri(torch.tensor(probability, dtype=torch.float64)).item()
        components = means + normal * variances.sqrt()  # the mixture's quantile lies between its components'
        low, high = components.amin(0), components.amax(0)
        for _ in range(40):
            middle = (low + high) / 2
            below = self.cdf(middle) < probability
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval that holds the target with a given probability.

        Args:
            coverage: Probability, in (0, 1).

        Returns:
            Lower and upper ends, each of shape (N, D).

        Raises:
            ValueError: If ``coverage`` is out of range or the draws were not kept.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"`coverage` must be strictly between 0 and 1, got {coverage}")
        return self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)


def log_normal_mass(low: Tensor, high: Tensor) -> Tensor:
    """Log of the probability of standard normal numbers between two ends, also far out."""
    right = low > 0  # there the lower tail is the accurate one
    low, high = torch.where(right, -high, low), torch.where(right, -low, high)
    whole = torch.special.log_ndtr(high)
    return whole + torch.log(-torch.expm1(torch.special.log_ndtr(low) - whole))


def _concatenated(parts: Sequence["RegressionPrediction"], dim: int) -> list[Tensor | None]:
    """Draws of several predictions; none unless all were kept."""
    kept = [part.components() for part in parts if part.draw_means is not None]
    return [torch.cat(each, dim) for each in zip(*kept, strict=True)] if len(kept) == len(parts) else [None, None]
