"""Floating point: wide enough to count with, never infinite."""

import math

import torch
from torch import Tensor


def widened(value: Tensor) -> Tensor:
    """Convert to at least float32, in which masks are drawn, logarithms taken and sums formed."""
    if value.dtype in (torch.float32, torch.float64):  # mostly, and the look is quicker than the two calls
        return value
    return value.to(torch.promote_types(value.dtype, torch.float32))


def finite_exp(value: Tensor) -> Tensor:
    """Exponential that saturates, without a slope, below the largest number of its dtype, so that 0 times it is 0."""
    return torch.exp(value.clamp(max=math.log(torch.finfo(value.dtype).max) - 1e-4))
