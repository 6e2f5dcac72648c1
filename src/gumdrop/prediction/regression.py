"""Predict numbers: a mixture of Gaussians for each row."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gumdrop.functional.floats import split_gaussian, widened
from gumdrop.prediction.inputs import Arguments, Batches, Inputs, by_batches
from gumdrop.prediction.moments.propagation import propagate_moments
from gumdrop.prediction.running import RunningMoments
from gumdrop.prediction.ways.evaluate import drawn

__all__ = ["RegressionPrediction", "predict_regression"]


def _concatenated(parts: Sequence["RegressionPrediction"], dim: int) -> list[Tensor | None]:
    """Draws of several predictions; none unless all were kept."""
    kept = [part._components() for part in parts if part.draw_means is not None]
    return [torch.cat(each, dim) for each in zip(*kept, strict=True)] if len(kept) == len(parts) else [None, None]


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

    def _components(self) -> tuple[Tensor, Tensor]:
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
        means, variances = self._components()
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
        means, variances = self._components()
        return torch.special.ndtr((value - means) / variances.sqrt()).mean(0)

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
        means, variances = self._components()
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


def predict_regression(
    model: nn.Module,
    x: Inputs | Batches,
    *,
    num_samples: int = 100,
    seed: int | None = None,
    batch_size: int | None = None,
    log_variance: Tensor | float | None = None,
    keep_draws: bool = True,
    shared: Collection[int | str] = (),
    output: Callable[[Any], Tensor] | None = None,
    method: Literal["draws", "moments"] = "draws",
) -> RegressionPrediction:
    """Predict a Gaussian mixture for each row.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``, whose output holds means and log variances
            in the halves of its last dimension.
        x: Input with rows in dimension 0; a tuple or mapping is passed as arguments; a DataLoader or another iterable
            is predicted batch by batch, see `sample`.
        num_samples: Number of draws, S.
        seed: Same seed, same prediction.
        batch_size: Rows that run at once, which bounds memory; all if None. It does not change the
            result, save for dropout without masks (see `docs/gotchas.md`).
        log_variance: Noise of a model whose output is the mean alone: a number, or shape (D,).
        keep_draws: Keep each draw's mean and variance, 2 S N D numbers, for `log_prob` and `quantile`.
        shared: Places or names of the arguments that have no rows, see `sample`.
        output: Takes the output tensor out of what the model returns.
        method: ``"moments"`` computes mean and variances without draws, see `propagate_moments`: for chains of
            layers, in a fraction of the time; then ``num_samples``, ``seed`` and ``keep_draws`` say nothing.

    Returns:
        Mean and variances, split into what the model does not know and what is noise.

    Raises:
        ValueError: If a number is out of range, ``x`` or ``shared`` is wrong as `sample` says, the output has no
            dimension for D or cannot be split, ``log_variance`` does not fit it, nothing in the model is stochastic,
            ``method`` is unknown, or the model holds a layer that ``"moments"`` does not know.
        TypeError: If ``x`` holds something else than tensors, or the model does not return a tensor and ``output``
            is None.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 2), p=0.2)
        >>> prediction = predict_regression(model, torch.randn(5, 8), seed=0)
        >>> prediction.mean.shape, prediction.epistemic.shape
        (torch.Size([5, 1]), torch.Size([5, 1]))
    """
    if method not in ("draws", "moments"):
        raise ValueError(f"`method` must be 'draws' or 'moments', got {method!r}")

    def predict(part: Arguments, seed: int | None) -> RegressionPrediction:
        if method == "moments":
            return _from_moments(model, part, batch_size, log_variance, output)
        moments, aleatoric = RunningMoments(), torch.zeros(())
        kept: list[tuple[Tensor, Tensor]] = []
        for result in drawn(model, part, num_samples, seed, batch_size, output):
            mean, variance = _gaussian(widened(result), log_variance)
            moments.add(mean)
            aleatoric = aleatoric.to(variance) + (variance / num_samples).sum(0)  # divided first: it may be huge
            if keep_draws:
                kept.append((mean, variance))
        means, variances = (torch.cat(each) for each in zip(*kept, strict=True)) if kept else (None, None)
        return RegressionPrediction(moments.mean, moments.variance, aleatoric, means, variances)

    return by_batches(predict, RegressionPrediction.joined, model, x, shared, seed)


def _from_moments(
    model: nn.Module,
    x: Arguments,
    batch_size: int | None,
    log_variance: Tensor | float | None,
    output: Callable[[Any], Tensor] | None,
) -> RegressionPrediction:
    """Predict from the moments of the outputs; the noise variance is that of a log-normal variable."""
    if x.alone is None or output is not None:
        raise ValueError(
            "`method='moments'` needs a model of one input tensor that returns its output, without `output`"
        )
    result, variance = (widened(part) for part in propagate_moments(model, x.alone, batch_size=batch_size))
    epistemic = variance
    if log_variance is None:
        mean, log_noise = split_gaussian(result)
        epistemic, spread = split_gaussian(variance)
        result = torch.cat([mean, log_noise + spread / 2], dim=-1)
    mean, aleatoric = (part.squeeze(0) for part in _gaussian(result.unsqueeze(0), log_variance))
    return RegressionPrediction(mean, epistemic, aleatoric, None, None)


def _gaussian(result: Tensor, log_variance: Tensor | float | None) -> tuple[Tensor, Tensor]:
    """Read mean and variance, of the same shape, out of what the model returned in some draws, (S, N, D)."""
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
    limits = torch.finfo(mean.dtype)  # a variance of 0, or of infinity, has no density
    return mean, log_noise.exp().clamp(limits.tiny, limits.max).expand_as(mean)
