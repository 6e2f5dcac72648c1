"""Numbers with Gaussian noise."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from gumdrop.functional.floats import finite_exp, widened
from gumdrop.likelihoods.likelihood import (
    Lengthscale,
    Likelihood,
    changes,
    check_same_shape,
    check_temperature,
    per_example,
)

if TYPE_CHECKING:
    from gumdrop.likelihoods.mixture import RegressionPrediction


def gaussian_nll(mean: Tensor, log_variance: Tensor, target: Tensor) -> Tensor:
    r"""Negative log likelihood of a Gaussian, in nats per example.

    .. math:: \tfrac12 \sum_d \left(\log 2\pi + s_d + (y_d - \mu_d)^2 e^{-s_d}\right)

    Args:
        mean: Predicted mean, shape (N, ...).
        log_variance: Log of the noise variance, in squared units of the target: of the shape of ``mean``
            (heteroscedastic), of its event shape ``mean.shape[1:]``, or a scalar (homoscedastic).
        target: Observations, of the shape of ``mean``.

    Returns:
        Shape (N,): summed over all dimensions but the first.

    Raises:
        ValueError: If the shapes disagree.

    Example:
        >>> gaussian_nll(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([[0.0], [2.0]]))
        tensor([0.9189, 2.9189])
    """
    check_same_shape("mean", mean, target)
    if log_variance.shape not in (mean.shape, mean.shape[1:], torch.Size([])):
        raise ValueError(
            f"`log_variance` must be a scalar or have the shape of `mean`, {tuple(mean.shape)}, or of one example, "
            f"{tuple(mean.shape[1:])}, got {tuple(log_variance.shape)}"
        )
    log_variance = widened(log_variance)
    # The standardised residual is squared, not the residual, which over- or underflows alone.
    standardised = (widened(target) - widened(mean)) * finite_exp(-0.5 * log_variance)
    return per_example(0.5 * (math.log(2 * math.pi) + log_variance) + 0.5 * standardised * standardised)


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """A number with Gaussian noise; the output holds means and log variances in halves of its last dimension."""

    log_variance: Tensor | float | None = None
    """Noise of a network whose output is the mean alone: a number, or shape (D,)."""
    temperature: Tensor | float = 1.0
    """Variances of the noise are multiplied by it, see `gumdrop.training.fit_rates`."""
    name = "gaussian"
    is_density = True
    lengthscale: ClassVar[Lengthscale] = "regression"
    watched_lengthscale: ClassVar[Lengthscale] = "weak"

    def __post_init__(self) -> None:
        """Check the temperature."""
        check_temperature(self.temperature)

    def nll(self, output: Tensor, target: Tensor) -> Tensor:
        """Negative log likelihood, see `gaussian_nll`."""
        return gaussian_nll(*self._parameters(output), target)

    def tempered(self, temperature: Tensor | float) -> Self:
        """Multiply the variances of the noise, of all outputs alike."""
        return replace(self, temperature=temperature)

    def _parameters(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log variances."""
        if self.log_variance is None:
            mean, log_variance = split_gaussian(output)
        else:
            mean, log_variance = output, torch.as_tensor(self.log_variance, device=output.device)
        return mean, _tempered(log_variance, self.temperature)

    def slope(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Negative log likelihood and its derivative, by hand, in a tenth of the time of autograd."""
        if self.log_variance is not None or changes(self.temperature):
            return super().slope(output, target)
        mean, log_variance = split_gaussian(output)
        check_same_shape("mean", mean, target)
        inverse = finite_exp(-0.5 * log_variance)
        standardised = (mean - target).to(mean.dtype) * inverse
        half_squares = 0.5 * standardised * standardised
        nll = per_example(0.5 * (math.log(2 * math.pi) + log_variance) + half_squares)
        return nll, torch.cat([standardised * inverse, 0.5 - half_squares], dim=-1)

    def square_residuals(self, output: Tensor, target: Tensor) -> Tensor:
        """Mean square of what is left of targets, (..., N, D), by outputs, (..., N, 2 D), shape (..., D)."""
        return (target - split_gaussian(output)[0]).square().mean(-2)

    def predict(self, draws: Iterable[Tensor], num_samples: int, *, keep_draws: bool = True) -> "RegressionPrediction":
        """Make a Gaussian mixture for each row."""
        from gumdrop.likelihoods.mixture import RegressionPrediction  # which a loss does not need
        from gumdrop.likelihoods.prediction import RunningMoments

        moments, kept = RunningMoments(), []
        aleatoric: Any = 0.0
        for result in draws:
            mean, variance = gaussians_of(widened(result), self.log_variance, self.temperature)
            moments.add(mean)
            aleatoric = aleatoric + (variance / num_samples).sum(0)  # divided first: it may be huge
            if keep_draws:
                kept.append((mean, variance))
        means, variances = (torch.cat(each) for each in zip(*kept, strict=True)) if kept else (None, None)
        return RegressionPrediction(moments.mean, moments.variance, aleatoric, means, variances)


def split_gaussian(output: Tensor) -> tuple[Tensor, Tensor]:
    """Split a network's output, (..., 2 D), into mean and log variance, the two halves of its last dimension."""
    if output.ndim == 0 or output.shape[-1] % 2:
        raise ValueError(
            f"a Gaussian output holds means and log variances in halves of its last dimension, got shape "
            f"{tuple(output.shape)}; end the model with 2 D outputs, or with `gumdrop.HomoscedasticNoise(D)`"
        )
    mean, log_variance = output.chunk(2, dim=-1)
    return mean, log_variance


def _tempered(log_variance: Tensor, temperature: Tensor | float) -> Tensor:
    """Log of the variances times a temperature."""
    if not changes(temperature):
        return log_variance
    return widened(log_variance) + torch.as_tensor(temperature, device=log_variance.device).log()


def gaussians_of(
    result: Tensor, log_variance: Tensor | float | None, temperature: Tensor | float = 1.0
) -> tuple[Tensor, Tensor]:
    """Read means and variances, (S, N, D) each, out of what a network returned in some draws."""
    if result.ndim < 3:
        raise ValueError(
            f"the model must return shape (N, D), got {tuple(result.shape[1:])}; for one output add a dimension with "
            "`output=lambda result: result.unsqueeze(-1)`"
        )
    if log_variance is None:
        split_gaussian(result[0])  # an error should speak of one draw
        mean, log_noise = split_gaussian(result)
    else:
        mean, log_noise = result, torch.as_tensor(log_variance, dtype=result.dtype, device=result.device)
        if log_noise.shape not in (torch.Size([]), mean.shape[2:]):
            raise ValueError(
                f"`log_variance` must be a number or have shape {tuple(mean.shape[2:])}, got {tuple(log_noise.shape)}"
            )
    return mean, noise_variance(_tempered(log_noise, temperature)).expand_as(mean)


def noise_variance(log_variance: Tensor) -> Tensor:
    """Variance of the noise by its logarithm, positive and finite, as 0 and infinity have no density."""
    limits = torch.finfo(log_variance.dtype)
    return log_variance.exp().clamp(limits.tiny, limits.max)
