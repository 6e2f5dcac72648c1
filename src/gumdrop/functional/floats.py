"""Floating point: wide enough to count with, never infinite."""

import math

import torch
from torch import Tensor


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
