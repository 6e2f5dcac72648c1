"""Predict numbers: a mixture of Gaussians for each row."""

from collections.abc import Callable, Collection
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gumdrop.functional.floats import split_gaussian, widened
from gumdrop.prediction.inputs import Arguments, Batches, Inputs, by_batches
from gumdrop.prediction.mixture import RegressionPrediction
from gumdrop.prediction.moments.propagation import propagate_moments
from gumdrop.prediction.running import RunningMoments
from gumdrop.prediction.ways.evaluate import drawn

__all__ = ["noise_variance", "predict_regression"]


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
        moments = RunningMoments()
        aleatoric: Any = 0.0
        kept: list[tuple[Tensor, Tensor]] = []
        for result in drawn(model, part, num_samples, seed, batch_size, output):
            mean, variance = _gaussian(widened(result), log_variance)
            moments.add(mean)
            aleatoric = aleatoric + (variance / num_samples).sum(0)  # divided first: it may be huge
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
    return mean, noise_variance(log_noise).expand_as(mean)


def noise_variance(log_variance: Tensor) -> Tensor:
    """Variance of the noise, of which 0 and infinity have no density.

    Args:
        log_variance: Its logarithm.

    Returns:
        The same shape, positive and finite.
    """
    limits = torch.finfo(log_variance.dtype)
    return log_variance.exp().clamp(limits.tiny, limits.max)
