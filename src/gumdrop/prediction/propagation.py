r"""Mean and variance of a network's outputs without sampling.

Where drops are rare and units few, each is dropped alone, see `gumdrop.prediction.single_drops`. Elsewhere it takes one
pass forward and one backward for each output.

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from gumdrop.functional import finite_exp
from gumdrop.layers import HomoscedasticNoise
from gumdrop.prediction.single_drops import Step, drops_are_rare, mask_shape, rows_at_once, single_drops, site_of

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


@dataclass
class _Source:
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
            each = _sum_to(slopes * self.mean.detach(), self.odds.shape)
            total = total + (each.square() * self.odds).flatten(1).sum(1)
        return total


def _sum_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Sum over the dimensions, other than that of the rows, in which a shape has size 1."""
    shared = [dim for dim in range(1, x.ndim) if shape[dim] == 1 < x.shape[dim]]
    return x.sum(shared, keepdim=True) if shared else x


Sources = list[_Source]


def propagate_moments(model: nn.Module, x: Tensor, *, batch_size: int | None = None) -> OutputMoments:
    """Compute mean and variance of a network's outputs over its dropout masks, without sampling.

    Args:
        model: A chain of layers (``nn.Sequential``, nested or not) with learned rates or plain ``nn.Dropout*``: dense
            and convolutional layers, ReLU and other activations, batch normalisation, average pooling, flattening.
        x: Input, shape (N, ...).
        batch_size: Rows that run at once; all if None.

    Returns:
        Mean and variance, shape (N, D). They are exact for dropout in front of a linear map. Otherwise they are right
        to first order in the rates where no rate is above 0.06 and all sites have 256 units or fewer, and elsewhere as
        good as the assumption that what enters an activation is Gaussian.

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
    layers = [(layer, _rule(name, layer)) for name, layer in _layers(model, "")]
    by, rows = _by_slopes, batch_size
    if _drops_are_rare(layers):
        by, most = _by_single_drops, rows_at_once([layer for layer, _ in layers])
        # What is traced for an export stands for any number of rows.
        rows = batch_size if type(x) is not Tensor else min(batch_size or most, most)
    parts = [by(layers, part) for part in (x.detach().split(rows) if rows else [x.detach()])]
    return parts[0] if len(parts) == 1 else OutputMoments(*(torch.cat(each) for each in zip(*parts, strict=True)))


Layers = list[tuple[nn.Module, Any]]
"""The layers of a chain, each with its rule."""


def _layers(model: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    if type(model) is not nn.Sequential:
        yield prefix, model
        return
    for name, child in zip(model._modules, model, strict=True):  # a layer may come twice
        yield from _layers(child, f"{prefix}.{name}".removeprefix("."))


def _drops_are_rare(layers: Layers) -> bool:
    has_plain = any(isinstance(layer, _DropoutNd) and layer.p > 0 for layer, _ in layers)
    return not has_plain and drops_are_rare([layer for layer, _ in layers])


def _by_single_drops(layers: Layers, x: Tensor) -> OutputMoments:
    steps: list[Step] = [(layer, functools.partial(_step, layer, rule)) for layer, rule in layers]
    mean, variance = single_drops(steps, x)
    _check_shape(mean)
    return OutputMoments(mean, variance)


def _step(layer: nn.Module, rule: Any, x: Tensor) -> Tensor:
    """Run a layer without dropout, in the memory of its input where it can."""
    if isinstance(layer, _BatchNorm):  # whatever its mode
        return rule(layer, _State(x, None), []).mean
    return torch.relu_(x) if type(layer) is nn.ReLU else _plainly(layer, x)


def _by_slopes(layers: Layers, x: Tensor) -> OutputMoments:
    sources: Sources = []
    with torch.enable_grad():
        state = _State(x, None)
        for layer, rule in layers:
            site = site_of(layer)
            if site is not None:  # rows are in dimension 0 of every layer of a chain
                state = _drop(state, site.p_logit.detach(), mask_shape(site, state.mean), sources)
            state = rule(layer, state, sources)
    mean, variance = state
    _check_shape(mean)
    if variance is None:
        raise ValueError("`model` has no dropout; convert it with `gumdrop.learn_dropout(model)`")
    columns = [  # what is traced for an export holds no values that could be asked
        _variance(mean, d, sources) if type(alone) is not Tensor or bool(alone.any()) else torch.zeros_like(alone)
        for d, alone in enumerate(variance.unbind(1))
    ]
    return OutputMoments(mean.detach(), torch.stack(columns, dim=1))


def _check_shape(mean: Tensor) -> None:
    if mean.ndim != 2:
        raise ValueError(f"the model must return shape (N, D), got {tuple(mean.shape)}")


def _variance(mean: Tensor, output: int, sources: Sources) -> Tensor:
    """Variance of one output; rows do not mix, so one backward pass serves them all."""
    chosen = torch.zeros_like(mean)
    chosen[:, output] = 1
    slopes = torch.autograd.grad(mean, [source.mean for source in sources], chosen, retain_graph=True)
    return torch.stack([source.variance(slope) for source, slope in zip(sources, slopes, strict=True)]).sum(0)


def _drop(state: _State, p_logit: Tensor, shape: tuple[int, ...], sources: Sources) -> _State:
    """Multiply by masks of mean 1 and variance p / (1 - p)."""
    mean, variance = state
    odds = finite_exp(p_logit).to(mean.dtype)
    odds = odds.view(shape) if odds.ndim else odds.expand(shape)
    if not sources:
        mean = mean.detach().requires_grad_()
    if not sources or sources[-1].mean is not mean:
        sources.append(_Source(mean, torch.zeros_like(mean)))
    source = sources[-1]
    with torch.no_grad():
        variance = torch.zeros_like(mean) if variance is None else variance
        squares = mean.square()
        if shape[1:] == tuple(mean.shape[1:]):
            alone = odds * (squares + variance)
        else:
            alone, source.odds = odds * variance, odds
        source.independent = source.independent + alone
        return _State(mean, variance + odds * (squares + variance))


def _plain_dropout(layer: Any, state: _State, sources: Sources) -> _State:
    if layer.p == 0:
        return state
    shape = tuple(state.mean.shape[1:])
    if not isinstance(layer, nn.Dropout):  # whole channels
        shape = (shape[0], *(1 for _ in shape[1:]))
    return _drop(state, torch.logit(torch.tensor(float(layer.p), device=state.mean.device)), (1, *shape), sources)


def _fixed(layer: Any) -> tuple[Tensor, Tensor | None]:
    """Weight and bias, which have no gradient here."""
    return layer.weight.detach(), None if layer.bias is None else layer.bias.detach()


def _linear(layer: Any, state: _State, sources: Sources) -> _State:
    mean, variance = state
    if variance is not None:
        variance = F.linear(variance, layer.weight.detach().square())  # as if the units were independent
    return _State(F.linear(mean, *_fixed(layer)), variance)


def _convolution(layer: Any, state: _State, sources: Sources) -> _State:
    mean, variance = state
    if variance is not None:
        variance = layer._conv_forward(variance, layer.weight.detach().square(), None)
    return _State(layer._conv_forward(mean, *_fixed(layer)), variance)


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
    with torch.no_grad():
        new_mean, new_variance, slope = moments(layer, mean, variance)
        rest = torch.addcmul(new_variance, slope.square(), variance, value=-1).clamp_(min=0)
    # The gradient is the expected slope; the difference is 0.
    new_mean = torch.addcmul(new_mean, slope, mean - mean.detach())
    sources.append(_Source(new_mean, rest))
    return _State(new_mean, new_variance)


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
    nodes, weights = (torch.as_tensor(each, dtype=mean.dtype, device=mean.device) for each in _hermite(NODES))
    std = variance.clamp(min=torch.finfo(variance.dtype).tiny ** 0.5).sqrt()
    values = _plainly(layer, mean + std * nodes.view(-1, *[1] * mean.ndim))
    new_mean = torch.tensordot(weights, values, dims=1)
    centred = values - new_mean
    slope = torch.tensordot(weights * nodes, centred, dims=1) / std
    return new_mean, torch.tensordot(weights, centred.square(), dims=1), slope


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
