"""A mixture of Gaussians for each row: what drawn functions say of a number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import torch
from torch import Tensor

from gumdrop.likelihoods import scaled_mixture
from gumdrop.likelihoods.conformal import ConformalPrediction
from gumdrop.likelihoods.prediction import kept
from gumdrop.likelihoods.target_scale import PLAIN, TargetScale


@dataclass(frozen=True)
class RegressionPrediction(ConformalPrediction):
    """A mixture of Gaussians for each row, one component for each drawn function; N rows, D outputs, S draws."""

    by_draw = frozenset({"draw_means", "draw_variances"})
    of_all_rows = frozenset({"correlation"})
    aleatoric: Tensor
    """Mean of the drawn functions' noise variances, (N, D), squared units: what more data would not remove."""
    draw_means: Tensor | None
    """Mean of each draw, (S, N, D), on `scale`; None if the draws were not kept."""
    draw_variances: Tensor | None
    """Noise variance of each draw, (S, N, D); None if the draws were not kept."""
    scale: TargetScale = PLAIN
    """Scale of the draws; all else is in units of the target."""
    correlation: Tensor | None = None
    """Correlation of the noise between the outputs of a draw, (D, D); None if they are independent given the draw."""

    @property
    def _kind(self) -> object:
        return self.scale

    def on(self, scale: TargetScale) -> Self:
        """Say that the draws are on a scale, such as that of a logarithm, and compute the moments of the target.

        Densities, quantiles, intervals and scores are then those of the target. They are exact, and so are moments,
        but those of a logarithm whose variance is above 10 are taken as if it were 10.

        Args:
            scale: The scale.

        Returns:
            The same draws.

        Raises:
            ValueError: If the draws were not kept, or there are several outputs and the scale has a bound.
        """
        if scale == PLAIN and self.scale == PLAIN:
            return self
        if scale != PLAIN and self.mean.shape[1:] != (1,):
            raise ValueError(f"`scale` must be plain for several outputs, got {scale} for {tuple(self.mean.shape)}")
        mean, epistemic, aleatoric = scaled_mixture.mixed_moments(*self.components(), scale)
        return replace(self, mean=mean, epistemic=epistemic, aleatoric=aleatoric, scale=scale)

    def rescale(self, scale: Tensor | float, shift: Tensor | float = 0.0) -> Self:
        """Carry the prediction over to ``scale * target + shift``: back to the units of a standardised target.

        Args:
            scale: Factor, as the standard deviation that the target was divided by; broadcasts to (N, D). Positive and
                one number where the draws are on a scale with a bound.
            shift: Offset, as the mean that was taken off the target.

        Returns:
            The prediction in the new units.
        """
        factor = torch.as_tensor(scale, dtype=self.mean.dtype, device=self.mean.device)
        square, means, variances = factor.square(), self.draw_means, self.draw_variances
        if means is not None and variances is not None:
            means, variances = scaled_mixture.rescaled(means, variances, self.scale, factor, shift)
        return replace(
            self,
            mean=self.mean * factor + shift,
            epistemic=self.epistemic * square,
            aleatoric=self.aleatoric * square,
            draw_means=means,
            draw_variances=variances,
            scale=self.scale if self.scale == PLAIN else self.scale.rescaled(float(factor), float(shift)),
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

    @classmethod
    def mixture(cls, parts: Sequence[Self]) -> Self:
        """Mix predictions of the same rows, each with the same weight, as those of the members of an ensemble.

        Args:
            parts: Predictions of N rows, with the same number of draws each.

        Returns:
            One prediction with all draws, whose epistemic variance holds the spread between the parts.

        Raises:
            ValueError: If there are no parts, or their numbers of draws or scales differ.
        """
        draws = {None if part.draw_means is None else len(part.draw_means) for part in parts}
        if len(draws) != 1:
            raise ValueError(f"`parts` must be predictions with the same number of draws, at least one, got {draws}")
        scale = _scale_of(parts)
        means = torch.stack([part.mean for part in parts])
        within, aleatoric = (
            torch.stack([getattr(part, name) for part in parts]).mean(0) for name in ("epistemic", "aleatoric")
        )
        draws_of = {name: [getattr(part, name) for part in parts] for name in cls.by_draw}
        joined = {name: None if any(each is None for each in of) else torch.cat(of) for name, of in draws_of.items()}
        epistemic = within + means.var(0, correction=0)
        moments = {"mean": means.mean(0), "epistemic": epistemic, "aleatoric": aleatoric}
        return replace(parts[0], outlier_p_value=None, **moments, **joined).on(scale)  # type: ignore[arg-type]

    def scale_noise(self, factor: Tensor | float) -> Self:
        """Multiply the noise variance of every draw, on the scale of the draws.

        Args:
            factor: Positive; broadcasts to (N, D).

        Returns:
            The prediction with this noise.
        """
        variances = None if self.draw_variances is None else self.draw_variances * factor
        return replace(self, aleatoric=self.aleatoric * factor, draw_variances=variances).on(self.scale)

    def components(self) -> tuple[Tensor, Tensor]:
        """Give the means and variances of the draws.

        Returns:
            Shape (S, N, D) each, on `scale`.

        Raises:
            ValueError: If the draws were not kept.
        """
        return kept(self.draw_means), kept(self.draw_variances)

    @property
    def covariance(self) -> Tensor:
        r"""Covariance of the outputs of each row, shape (N, D, D), whose diagonal is `variance`.

        .. math:: \mathrm{Cov}_s(\mu_{sd}, \mu_{se}) + R_{de} \frac1S \sum_s \sigma_{sd} \sigma_{se}

        Drawn functions move several outputs at once, and their noise has the correlation R.

        Raises:
            ValueError: If the draws were not kept, or are not on a plain scale.
        """
        if self.scale != PLAIN:
            raise ValueError(f"`covariance` is of several outputs on a plain scale, got {self.scale}; see `variance`")
        means, variances = self.components()
        moved, std = means - means.mean(0), variances.sqrt()
        noise = torch.einsum("snd,sne->nde", std, std) / len(means)
        alone = torch.eye(means.shape[2]).to(means)
        return torch.einsum("snd,sne->nde", moved, moved) / len(means) + noise * (
            alone if self.correlation is None else self.correlation
        )

    def log_prob(self, target: Tensor) -> Tensor:
        r"""Log density of observations under the mixture, per row, in nats, jointly over the outputs.

        .. math:: \log \frac1S \sum_s N(y; \mu_s, \Sigma_s), \quad
            \Sigma_{s,de} = \sigma_{sd} R_{de} \sigma_{se}

        On a scale that is not plain it is still a density of the target: the slope of a root or a logarithm is counted,
        and what is cut off. Where there is no density, below the bound, it is the log of the smallest float, so that a
        mean over rows stays a number.

        Args:
            target: Observations, shape (N, D); of one output also (N, 2), the ends of the interval that is known of
                each, whose probability counts unless they are equal.

        Returns:
            Shape (N,).

        Raises:
            ValueError: If the shape differs or the draws were not kept.
        """
        if target.shape != (len(self.mean), 2) or self.mean.shape[1] != 1:
            self._check_target(target)
        at = self.scale.to_gaussian(target)
        density = scaled_mixture.log_density
        if self.correlation is not None:
            density = partial(scaled_mixture.log_correlated_density, correlation=self.correlation)
        result = scaled_mixture.in_parts(density, *self.components(), self.scale, at)
        if self.scale == PLAIN:
            return result
        return torch.where(self.scale.holds(target[:, -1]), result, math.log(torch.finfo(result.dtype).tiny))

    def cdf(self, value: Tensor) -> Tensor:
        """See `NumberPrediction.cdf`."""
        at = self.scale.to_gaussian(value)
        return scaled_mixture.in_parts(scaled_mixture.below, *self.components(), self.scale, at)

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
            ValueError: If the draws were not kept, or the noise is correlated: draw targets then, and count.

        Example:
            >>> fair = RegressionPrediction.gaussian(torch.zeros(1, 1), torch.ones(1, 1))
            >>> fair.log_probability(torch.tensor(-1.0), torch.tensor(1.0)).exp()
            tensor([0.6827], dtype=torch.float64)
        """
        if self.correlation is not None:
            raise ValueError(
                "`log_probability` is of independent noise, got a `correlation`: draw targets and count those inside"
            )
        return scaled_mixture.in_parts(scaled_mixture.log_mass, *self.components(), self.scale, lower, upper)

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

    def _inside(self, value: Tensor) -> Tensor:
        return value.clamp(min=self.scale.least)

    def _quantile(self, probability: float | Tensor) -> Tensor:
        """Quantile of each row, of a probability or of (N, D)."""
        values = (probability.to(self.mean),) if isinstance(probability, Tensor) else ()
        solve = scaled_mixture.quantile if values else partial(scaled_mixture.quantile, probability=probability)
        return self.scale.from_gaussian(scaled_mixture.in_parts(solve, *self.components(), self.scale, *values))


def _scale_of(parts: Sequence["RegressionPrediction"]) -> TargetScale:
    """The one scale of several predictions."""
    scales = {part.scale for part in parts}
    if len(scales) != 1:
        raise ValueError(f"`parts` must have draws on the same scale, got {scales}")
    return scales.pop()
