"""Floating point: wide enough to count with, never infinite."""

import math

import torch
from torch import Tensor

__all__ = ["finite_exp", "logit_of", "split_gaussian", "widened"]


def widened(value: Tensor) -> Tensor:
    """Convert to at least float32, in which masks are drawn, logarithms taken and sums formed.

    Args:
        value: Any tensor of real numbers.

    Returns:
        The same values, in float32 or float64.

    Example:
        >>> widened(torch.ones(2, dtype=torch.float16)).dtype
        torch.float32
    """
    if value.dtype in (torch.float32, torch.float64):  # mostly, and the look is quicker than the two calls
        return value
    return value.to(torch.promote_types(value.dtype, torch.float32))


def finite_exp(value: Tensor) -> Tensor:
    """Exponential that saturates just below the largest number of its dtype, so that 0 times it is 0.

    Args:
        value: Any real numbers.

    Returns:
        Finite values; the gradient is 0 where they are saturated.

    Example:
        >>> 0 * finite_exp(torch.tensor([0.0, 1000.0]))
        tensor([0., 0.])
    """
    return torch.exp(value.clamp(max=math.log(torch.finfo(value.dtype).max) - 1e-4))


def logit_of(scaled: Tensor, unit: float) -> Tensor:
    """Give the logit that an optimiser learns in other units, with a gradient that suits them.

    Optimisers of the Adam family move each number by their learning rate, whatever the size of its gradient, so that
    the logit moves ``unit`` times as far. Plain gradient descent goes by the size: under the chain rule it would take
    the logit ``unit ** 2`` times as far. So the gradient is divided by the unit, not multiplied: then gradient descent
    moves the logit as if it were learned by itself.

    Args:
        scaled: The logit over ``unit``.
        unit: The unit, positive.

    Returns:
        ``unit * scaled``, in float32 or float64. Its derivative, of any order and in either mode, is ``1 / unit``.

    Example:
        >>> scaled = torch.tensor(-0.2, requires_grad=True)
        >>> logit_of(scaled, 10.0).backward()
        >>> scaled.grad
        tensor(0.1000)
    """
    scaled = widened(scaled)
    if not torch.is_grad_enabled():
        return scaled * unit
    value = scaled.detach()
    return (value * unit).add(scaled - value, alpha=1 / unit)  # the difference is 0, and has the gradient


def split_gaussian(output: Tensor) -> tuple[Tensor, Tensor]:
    """Split a network's output into mean and log variance, the two halves of its last dimension.

    Args:
        output: Shape (..., 2 D).

    Returns:
        Mean and log variance, each of shape (..., D).

    Raises:
        ValueError: If the last dimension is odd.

    Example:
        >>> mean, log_variance = split_gaussian(torch.arange(8.0).reshape(2, 4))
        >>> mean
        tensor([[0., 1.],
                [4., 5.]])
    """
    if output.ndim == 0 or output.shape[-1] % 2:
        raise ValueError(
            f"a Gaussian output holds means and log variances in halves of its last dimension, got shape "
            f"{tuple(output.shape)}; end the model with 2 D outputs, or with `gumdrop.HomoscedasticNoise(D)`"
        )
    mean, log_variance = output.chunk(2, dim=-1)
    return mean, log_variance
