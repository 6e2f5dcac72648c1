"""Mean and variance behind each kind of layer, activations among them."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from gumdrop.functional.floats import finite_exp
from gumdrop.layers import PiecewiseLinear
from gumdrop.layers.output_noise import HomoscedasticNoise


class State(NamedTuple):
    """What is known about the units of a layer; the variance is None while nothing is random."""

    mean: Tensor
    variance: Tensor | None


@dataclass
class Source:
    """Noise at one place in the network."""

    mean: Tensor
    """Means of the units, which outputs are differentiated by."""
    independent: Tensor
    """Variance of noise that is added to each unit, independent of all other."""
    odds: Tensor | None = None
    """Variance of factors that several units share: of a shape that broadcasts to them, with size 1 to share."""

    def variance(self, slopes: Tensor) -> Tensor:
        """Variance that reaches an output with these slopes, one for each row."""
        total = (slopes.square() * self.independent).flatten(1).sum(1)
        if self.odds is not None:
            pushes = slopes * self.mean.detach()
            shared = [dim for dim in range(1, pushes.ndim) if self.odds.shape[dim] == 1 < pushes.shape[dim]]
            pushes = pushes.sum(shared, keepdim=True) if shared else pushes
            total = total + (pushes.square() * self.odds).flatten(1).sum(1)
        return total


Sources = list[Source]


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


def drop(state: State, p_logit: Tensor, shape: Sequence[int], sources: Sources) -> State:
    """Multiply by masks of mean 1 and variance p / (1 - p)."""
    mean, variance = state
    odds = finite_exp(p_logit).to(mean.dtype)
    odds = odds.view(shape) if odds.ndim else odds.expand(shape)
    if not sources:
        mean = mean.detach().requires_grad_()
    if not sources or sources[-1].mean is not mean:
        sources.append(Source(mean, torch.zeros_like(mean)))
    source = sources[-1]
    with torch.no_grad():
        variance = torch.zeros_like(mean) if variance is None else variance
        squares = mean.square()
        if shape[1:] == tuple(mean.shape[1:]):
            alone = odds * (squares + variance)
        else:
            alone, source.odds = odds * variance, odds
        source.independent = source.independent + alone
        return State(mean, variance + odds * (squares + variance))


def _plain_dropout(layer: Any, state: State, sources: Sources) -> State:
    if layer.p == 0:
        return state
    shape = tuple(state.mean.shape[1:])
    if not isinstance(layer, nn.Dropout):  # whole channels
        shape = (shape[0], *(1 for _ in shape[1:]))
    return drop(state, torch.logit(torch.tensor(float(layer.p), device=state.mean.device)), (1, *shape), sources)


def _fixed(layer: Any) -> tuple[Tensor, Tensor | None]:
    """Weight and bias, which have no gradient here."""
    return layer.weight.detach(), None if layer.bias is None else layer.bias.detach()


def _linear(layer: Any, state: State, sources: Sources) -> State:
    mean, variance = state
    if variance is not None:
        variance = F.linear(variance, layer.weight.detach().square())  # as if the units were independent
    return State(F.linear(mean, *_fixed(layer)), variance)


def _convolution(layer: Any, state: State, sources: Sources) -> State:
    mean, variance = state
    if variance is not None:
        variance = layer._conv_forward(variance, layer.weight.detach().square(), None)
    return State(layer._conv_forward(mean, *_fixed(layer)), variance)


def _batch_norm(layer: _BatchNorm, state: State, sources: Sources) -> State:
    mean, variance = state
    if layer.running_mean is None or layer.running_var is None:
        raise ValueError("batch normalisation without running statistics mixes rows; set track_running_stats=True")
    if variance is not None:
        weight = torch.ones_like(layer.running_var) if layer.weight is None else layer.weight.detach().square()
        factor = weight / (layer.running_var + layer.eps)
        variance = variance * factor.view(1, -1, *[1] * (variance.ndim - 2))
    arguments = (layer.running_mean, layer.running_var, layer.weight, layer.bias, False, 0.0, layer.eps)
    return State(F.batch_norm(mean, *arguments), variance)


def _same_for_both(layer: nn.Module, state: State, sources: Sources) -> State:
    """Reshape, or average over positions, whose noise is taken to be the same, as masks are."""
    mean, variance = state
    return State(plainly(layer, mean), None if variance is None else plainly(layer, variance))


def _known_noise(layer: Any, state: State, sources: Sources) -> State:
    mean, variance = state
    return State(plainly(layer, mean), None if variance is None else torch.cat([variance, variance * 0], dim=-1))


def _encoding(layer: nn.Module, state: State, sources: Sources) -> State:
    if state.variance is not None:
        raise ValueError("a PiecewiseLinear behind dropout has no known moments; let it stand in front of the network")
    return State(plainly(layer, state.mean), None)


Rule = Callable[[Any, State, Sources], State]

RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: _linear,
    HomoscedasticNoise: _known_noise,
    PiecewiseLinear: _encoding,
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), _convolution),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), _batch_norm),
    **dict.fromkeys((nn.Identity, nn.Flatten, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d), _same_for_both),
    **dict.fromkeys((nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d), _same_for_both),
    **dict.fromkeys((nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.LogSigmoid), activation),
    **dict.fromkeys((nn.GELU, nn.SiLU, nn.Mish, nn.ELU, nn.CELU), activation),
    **dict.fromkeys((nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d), _plain_dropout),
}


def rule_of(name: str, layer: nn.Module) -> Rule:
    """Look up the rule of a layer, or say which layers have one."""
    rule = RULES.get(type(layer))
    if rule is None:
        where = f"layer {name!r}" if name else "`model`"
        raise ValueError(
            f"{where} is a {type(layer).__name__}, whose moments are not known; build the model as an nn.Sequential of "
            "known layers, or sample, as `predict_regression` does with method='draws'"
        )
    return rule
