r"""Mean and variance of a network's outputs without sampling: one pass forward and one backward for each output.

Forward, each unit has a mean and a variance, as if it were Gaussian and apart from the others. A mask turns a unit of
mean m and variance v into one of mean m and variance :math:`v + \frac{p}{1-p}(m^2 + v)`; a linear map adds variances up
with squared weights; an activation gives the mean and variance of :math:`f(a), a \sim N(m, v)`.

Variances alone would lose that all units of a layer depend on the same masks. So the variance of an output is not what
comes out in the end, but the sum over all sources of noise, the masks and what an activation adds to its linear part,
of the source's variance times the square of the output's slope in it, averaged over the noise:

.. math:: \operatorname{var} y = \sum_k \Big(\frac{\partial\, E y}{\partial \epsilon_k}\Big)^2 \operatorname{var}
          \epsilon_k

The slopes come from one backward pass. For dense layers this is what a covariance matrix of all units gives to first
order, at a cost that does not grow with its square, and a mask that many pixels share counts as one. Dropout in front
of a linear map is exact.

References:
    Wang & Manning 2013, "Fast dropout training" (ICML 2013): Gaussian moments of dropout.
    Postels et al. 2019, "Sampling-free Epistemic Uncertainty Estimation Using Approximated Variance Propagation"
    (arXiv:1908.00598): covariance matrices, or variances alone.
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from gumdrop.functional import finite_exp
from gumdrop.layers import SITE, ConcreteDropout, HomoscedasticNoise

__all__ = ["OutputMoments", "propagate_moments"]

NODES = 12
"""Nodes of the Gauss-Hermite quadrature for smooth activations."""


class OutputMoments(NamedTuple):
    """Moments of the outputs of a network over its dropout masks."""

    mean: Tensor
    """Shape (N, D)."""
    variance: Tensor
    """Shape (N, D)."""


class _State(NamedTuple):
    """What is known about the units of a layer; the variance is None while nothing is random."""

    mean: Tensor
    variance: Tensor | None


Sources = list[tuple[Tensor, Tensor]]
"""Zeros that were added to means, to differentiate by, and the variances of the noise in their place."""


def propagate_moments(model: nn.Module, x: Tensor, *, batch_size: int | None = None) -> OutputMoments:
    """Compute mean and variance of a network's outputs over its dropout masks, without sampling.

    Args:
        model: A chain of layers (``nn.Sequential``, nested or not) with learned rates or plain ``nn.Dropout*``: dense
            and convolutional layers, ReLU and other activations, batch normalisation, average pooling, flattening.
        x: Input, shape (N, ...).
        batch_size: Rows that run at once; all if None.

    Returns:
        Mean and variance, shape (N, D). They are exact for dropout in front of a linear map, and otherwise as good as
        the assumption that what enters an activation is Gaussian.

    Raises:
        ValueError: If the model holds a layer whose moments are not known, has no dropout, does not return shape
            (N, D), or ``batch_size`` is out of range.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(2, 1, bias=False), p=0.2)
        >>> _ = nn.init.ones_(model.weight)
        >>> propagate_moments(model, torch.tensor([[1.0, 2.0]])).variance  # p / (1 - p) times (1 + 4)
        tensor([[1.2500]])
    """
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1, got {batch_size}; None takes all rows at once")
    layers = [(name, layer, _rule(name, layer)) for name, layer in _layers(model, "")]
    parts = [_propagate(layers, rows) for rows in (x.split(batch_size) if batch_size else [x])]
    return OutputMoments(*(torch.cat(each) for each in zip(*parts, strict=True)))


def _layers(model: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    if type(model) is not nn.Sequential:
        yield prefix, model
        return
    for name, child in zip(model._modules, model, strict=True):  # a layer may come twice
        yield from _layers(child, f"{prefix}.{name}".removeprefix("."))


def _propagate(layers: list[tuple[str, nn.Module, Any]], x: Tensor) -> OutputMoments:
    sources: Sources = []
    with torch.enable_grad():
        state = _State(x.detach(), None)
        for _, layer, rule in layers:
            site = layer._modules.get(SITE)
            if isinstance(site, ConcreteDropout):  # rows are in dimension 0 of every layer of a chain
                state = _drop(state, site.p_logit.detach(), _mask_shape(site, state.mean), sources)
            state = rule(layer, state, sources)
        mean = state.mean
        if mean.ndim != 2:
            raise ValueError(f"the model must return shape (N, D), got {tuple(mean.shape)}")
        if not sources:
            raise ValueError("`model` has no dropout; convert it with `gumdrop.learn_dropout(model)`")
        variance = torch.zeros_like(mean)
        if mean.requires_grad:
            zeros, variances = zip(*sources, strict=True)
            for d, column in enumerate(mean.unbind(1)):
                slopes = torch.autograd.grad(column.sum(), zeros, retain_graph=True, allow_unused=True)
                variance[:, d] = sum(
                    (slope.square() * source).flatten(1).sum(1)
                    for slope, source in zip(slopes, variances, strict=True)
                    if slope is not None
                )
    return OutputMoments(mean.detach(), variance.detach())


def _source(mean: Tensor, variance: Tensor, sources: Sources, shape: tuple[int, ...] | None = None) -> Tensor:
    """Zeros that stand for independent noise of a variance."""
    zeros = mean.new_zeros(mean.shape if shape is None else shape, requires_grad=True)
    sources.append((zeros, variance.detach()))
    return zeros


def _mask_shape(site: ConcreteDropout, x: Tensor) -> tuple[int, ...]:
    """Shape of the masks of a site for all rows: one mask for each row, whatever its positions."""
    feature = x.ndim + site.feature_dim
    if feature < 1 or x.shape[feature] != site.num_units:
        raise ValueError(f"the input must have {site.num_units} units, got shape {tuple(x.shape)}")
    return (x.shape[0], *(size if dim == feature else 1 for dim, size in enumerate(x.shape) if dim > 0))


def _drop(state: _State, p_logit: Tensor, shape: tuple[int, ...], sources: Sources) -> _State:
    mean, variance = state
    odds = finite_exp(p_logit).to(mean.dtype)  # p / (1 - p), the variance of a mask that has mean 1
    odds = odds.view(*(-1 if size > 1 and odds.ndim else 1 for size in (1, *shape[1:])))
    dropped = mean * (1 + _source(mean, odds.expand(shape), sources, shape))
    added = odds * mean.detach().square()
    if variance is None:
        return _State(dropped, added.expand_as(mean))
    return _State(dropped + _source(mean, odds * variance, sources), variance + added + odds * variance)


def _plain_dropout(layer: Any, state: _State, sources: Sources) -> _State:
    if layer.p == 0:
        return state
    shape = tuple(state.mean.shape)
    if not isinstance(layer, nn.Dropout):
        shape = (*shape[:2], *(1 for _ in shape[2:]))
    p_logit = torch.logit(torch.tensor(float(layer.p), device=state.mean.device))
    return _drop(state, p_logit, shape, sources)


def _linear(layer: Any, state: _State, sources: Sources) -> _State:
    mean, variance = state
    if variance is not None:
        variance = F.linear(variance, layer.weight.detach().square())
    return _State(F.linear(mean, layer.weight, layer.bias), variance)


def _convolution(layer: Any, state: _State, sources: Sources) -> _State:
    mean, variance = state
    if variance is not None:
        variance = layer._conv_forward(variance, layer.weight.detach().square(), None)
    return _State(layer._conv_forward(mean, layer.weight, layer.bias), variance)


def _batch_norm(layer: _BatchNorm, state: _State, sources: Sources) -> _State:
    mean, variance = state
    if layer.running_mean is None or layer.running_var is None:
        raise ValueError("batch normalisation without running statistics mixes rows; set track_running_stats=True")
    if variance is not None:
        weight = torch.ones_like(layer.running_var) if layer.weight is None else layer.weight.detach().square()
        factor = weight / (layer.running_var + layer.eps)
        variance = variance * factor.view(1, -1, *[1] * (variance.ndim - 2))
    arguments = (layer.running_mean, layer.running_var, layer.weight, layer.bias, False, 0.0, layer.eps)
    return _State(F.batch_norm(mean, *arguments), variance)


def _same_for_both(layer: nn.Module, state: _State, sources: Sources) -> _State:
    """Reshape, or average over positions, whose noise is taken to be the same, as masks are."""
    mean, variance = state
    return _State(_plainly(layer, mean), None if variance is None else _plainly(layer, variance))


def _plainly(layer: Any, x: Tensor) -> Tensor:
    return type(layer).forward(layer, x)


def _known_noise(layer: Any, state: _State, sources: Sources) -> _State:
    mean, variance = state
    return _State(_plainly(layer, mean), None if variance is None else torch.cat([variance, variance * 0], dim=-1))


def _activation(layer: Any, state: _State, sources: Sources) -> _State:
    mean, variance = state
    if variance is None:
        return _State(_plainly(layer, mean), None)
    moments = _rectified if isinstance(layer, (nn.ReLU, nn.LeakyReLU)) else _by_quadrature
    new_mean, new_variance, linear_part = moments(layer, mean, variance)
    rest = (new_variance - linear_part).clamp(min=0)
    return _State(new_mean + _source(new_mean, rest, sources), new_variance.detach())


def _rectified(layer: Any, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Moments of max(a, 0) + slope * min(a, 0) for a Gaussian a, and the part of the variance that is linear in a."""
    slope = getattr(layer, "negative_slope", 0.0)
    std = variance.clamp(min=torch.finfo(variance.dtype).tiny ** 0.5).sqrt()
    ratio = mean / std
    above = torch.special.ndtr(ratio)
    density = torch.exp(-0.5 * ratio.square()) * (std / math.sqrt(2 * math.pi))
    rectified = mean * above + density
    m = mean.detach()
    new_variance = ((m.square() + variance) * above + m * density - rectified.square()).clamp(min=0)
    if slope:  # slope * a + (1 - slope) * max(a, 0), whose covariance is above * variance
        new_variance = slope**2 * variance + (1 - slope) * (2 * slope * above * variance + (1 - slope) * new_variance)
        rectified = slope * mean + (1 - slope) * rectified
    expected_slope = slope + (1 - slope) * above
    return rectified, new_variance.detach(), (expected_slope.square() * variance).detach()


def _by_quadrature(layer: Any, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same for a smooth activation; the expected slope times the deviation is E[f(a) (a - m)] / std (Stein)."""
    nodes, weights = (torch.as_tensor(each, dtype=mean.dtype, device=mean.device) for each in _hermite(NODES))
    values = [_plainly(layer, mean + variance.sqrt() * node) for node in nodes]
    new_mean = sum(weight * value for weight, value in zip(weights, values, strict=True))
    assert isinstance(new_mean, Tensor)
    centred = torch.stack([value.detach() for value in values]) - new_mean.detach()
    new_variance = torch.tensordot(weights, centred.square(), dims=1)
    return new_mean, new_variance, torch.tensordot(weights * nodes, centred, dims=1).square()


@functools.cache
def _hermite(count: int) -> tuple[Any, Any]:
    """Nodes and weights for a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


Rule = Callable[[Any, _State, Sources], _State]

RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: _linear,
    HomoscedasticNoise: _known_noise,
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), _convolution),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), _batch_norm),
    **dict.fromkeys((nn.Identity, nn.Flatten, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d), _same_for_both),
    **dict.fromkeys((nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d), _same_for_both),
    **dict.fromkeys((nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.LogSigmoid), _activation),
    **dict.fromkeys((nn.GELU, nn.SiLU, nn.Mish, nn.ELU, nn.CELU), _activation),
    **dict.fromkeys((nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d), _plain_dropout),
}


def _rule(name: str, layer: nn.Module) -> Rule:
    rule = RULES.get(type(layer))
    if rule is None:
        where = f"layer {name!r}" if name else "`model`"
        raise ValueError(
            f"{where} is a {type(layer).__name__}, whose moments are not known; build the model as an nn.Sequential of "
            "known layers, or sample, as `predict_regression` does with method='draws'"
        )
    return rule
