"""Mean and variance behind an activation."""

import functools
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gumdrop.prediction.moments.state import Source, Sources, State


def plainly(layer: Any, x: Tensor) -> Tensor:
    """Run a layer by its class, past hooks and forwards of the instance."""
    return type(layer).forward(layer, x)


def activation(layer: Any, state: State, sources: Sources) -> State:
    """Mean and variance behind an activation, and the source of what its slope does not explain."""
    mean, variance = state
    if variance is None:
        return State(plainly(layer, mean), None)
    moments = _rectified if isinstance(layer, (nn.ReLU, nn.LeakyReLU)) else _by_quadrature
    with torch.no_grad():
        new_mean, new_variance, slope = moments(layer, mean, variance)
        rest = torch.addcmul(new_variance, slope.square(), variance, value=-1).clamp_(min=0)
    # The gradient is the expected slope; the difference is 0.
    new_mean = torch.addcmul(new_mean, slope, mean - mean.detach())
    sources.append(Source(new_mean, rest))
    return State(new_mean, new_variance)


def _rectified(layer: Any, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and expected slope of max(a, 0) + slope * min(a, 0) for a Gaussian a."""
    slope = getattr(layer, "negative_slope", 0.0)
    std = variance.clamp(min=torch.finfo(variance.dtype).tiny ** 0.5).sqrt()
    ratio = mean / std
    above = torch.special.ndtr(ratio)
    density = torch.exp(-0.5 * ratio.square()) * (std / math.sqrt(2 * math.pi))
    rectified = torch.addcmul(density, mean, above)
    # E[max(a, 0)^2] = m E[max(a, 0)] + v P(a > 0)
    spread = (mean * rectified + variance * above - rectified.square()).clamp(min=0)
    if not slope:
        return rectified, spread, above
    other = 1 - slope  # slope * a + other * max(a, 0), whose covariance is v P(a > 0)
    spread = slope**2 * variance + other * (2 * slope * above * variance + other * spread)
    return slope * mean + other * rectified, spread, slope + other * above


def _by_quadrature(layer: Any, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same for a smooth activation f; the expected slope is E[f(a) (a - m)] / v (Stein)."""
    nodes, weights = (torch.as_tensor(each, dtype=mean.dtype, device=mean.device) for each in _hermite(12))
    std = variance.clamp(min=torch.finfo(variance.dtype).tiny ** 0.5).sqrt()
    values = plainly(layer, mean + std * nodes.view(-1, *[1] * mean.ndim))
    new_mean = torch.tensordot(weights, values, dims=1)
    centred = values - new_mean
    slope = torch.tensordot(weights * nodes, centred, dims=1) / std
    return new_mean, torch.tensordot(weights, centred.square(), dims=1), slope


@functools.cache
def _hermite(count: int) -> tuple[Any, Any]:
    """Nodes and weights for a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()
