"""Negative log likelihoods, in nats for each row."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from gumdrop.functional.floats import finite_exp, split_gaussian, widened
from gumdrop.functional.noise import is_traced

__all__ = ["LIKELIHOODS", "bernoulli_nll", "categorical_nll", "gaussian_nll", "poisson_nll"]


def _marked(nll: Tensor, target: Tensor) -> Tensor:
    """Sum over all dimensions but the first, which counts examples, and keep the target beside the values."""
    nll = nll.flatten(1).sum(1) if nll.ndim > 1 else nll
    if not is_traced():
        nll.target = target  # type: ignore[attr-defined]  # `negative_elbo` sees by it whether batches are all the data
    return nll


def _check_same_shape(name: str, value: Tensor, target: Tensor) -> None:
    if value.shape != target.shape or value.ndim == 0:
        raise ValueError(
            f"`{name}` and `target` must have the same shape, examples first, got {tuple(value.shape)} and "
            f"{tuple(target.shape)}; (N,) and (N, 1) differ, see Tensor.unsqueeze"
        )


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
    _check_same_shape("mean", mean, target)
    if log_variance.shape not in (mean.shape, mean.shape[1:], torch.Size([])):
        raise ValueError(
            f"`log_variance` must be a scalar or have the shape of `mean`, {tuple(mean.shape)}, or of one example, "
            f"{tuple(mean.shape[1:])}, got {tuple(log_variance.shape)}"
        )
    log_variance = widened(log_variance)
    # The standardised residual is squared, not the residual, which over- or underflows alone.
    standardised = (widened(target) - widened(mean)) * finite_exp(-0.5 * log_variance)
    nll = _marked(0.5 * (math.log(2 * math.pi) + log_variance + standardised.square()), target)
    nll.is_density = True  # type: ignore[attr-defined]  # what `default_lengthscale` asks for
    nll.learns_noise = log_variance.requires_grad  # type: ignore[attr-defined]  # what `negative_elbo` asks for
    return nll


_NO_LABEL = torch.iinfo(torch.int64).min  # PyTorch's own default would ignore -100 unasked


def categorical_nll(logits: Tensor, target: Tensor, *, ignore_index: int | None = None) -> Tensor:
    """Negative log likelihood of classes, in nats per example.

    Args:
        logits: Unnormalised log probabilities, shape (N, C, ...).
        target: Class indices in [0, C), shape (N, ...).
        ignore_index: Label of positions that count nothing, such as void pixels.

    Returns:
        Shape (N,): summed over all positions of an example.

    Raises:
        ValueError: If the shapes disagree.
        TypeError: If ``target`` does not hold integers.

    Example:
        >>> categorical_nll(torch.zeros(2, 4), torch.tensor([0, 3]))
        tensor([1.3863, 1.3863])
    """
    if logits.ndim < 2 or target.shape != logits.shape[:1] + logits.shape[2:]:
        raise ValueError(
            f"`target` must have the shape of `logits` without its class dimension 1, got logits "
            f"{tuple(logits.shape)} and target {tuple(target.shape)}"
        )
    if target.is_floating_point():
        raise TypeError(f"`target` must hold class indices, got {target.dtype}; convert it with target.long()")
    ignored = _NO_LABEL if ignore_index is None else ignore_index
    return _marked(F.cross_entropy(widened(logits), target.long(), reduction="none", ignore_index=ignored), target)


def bernoulli_nll(logits: Tensor, target: Tensor) -> Tensor:
    """Negative log likelihood of yes/no outcomes, in nats per example.

    Args:
        logits: Logit of the probability of 1, shape (N, ...).
        target: 0 or 1 (or a probability between), of the shape of ``logits``.

    Returns:
        Shape (N,): summed over all dimensions but the first.

    Raises:
        ValueError: If the shapes disagree.

    Example:
        >>> bernoulli_nll(torch.zeros(2, 1), torch.tensor([[0.0], [1.0]]))
        tensor([0.6931, 0.6931])
    """
    _check_same_shape("logits", logits, target)
    logits = widened(logits)
    return _marked(F.binary_cross_entropy_with_logits(logits, target.to(logits.dtype), reduction="none"), target)


def poisson_nll(log_rate: Tensor, target: Tensor) -> Tensor:
    r"""Negative log likelihood of counts, in nats per example.

    .. math:: \sum_d \left(e^{r_d} - y_d r_d + \log y_d!\right)

    Args:
        log_rate: Log of the expected count ``r``, shape (N, ...).
        target: Counts, of the shape of ``log_rate``.

    Returns:
        Shape (N,): summed over all dimensions but the first.

    Raises:
        ValueError: If the shapes disagree.

    Example:
        >>> poisson_nll(torch.zeros(2, 1), torch.tensor([[0.0], [2.0]]))
        tensor([1.0000, 1.6931])
    """
    _check_same_shape("log_rate", log_rate, target)
    log_rate = widened(log_rate)
    counts = target.to(log_rate.dtype)
    return _marked(torch.exp(log_rate) - counts * log_rate + torch.lgamma(counts + 1), target)


LIKELIHOODS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gaussian": lambda output, target: gaussian_nll(*split_gaussian(output), target),
    "categorical": categorical_nll,
    "bernoulli": bernoulli_nll,
    "poisson": poisson_nll,
}
"""Negative log likelihood of each kind of target, as a function of a network's output and the target."""
