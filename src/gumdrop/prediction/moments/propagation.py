r"""Mean and variance of a network's outputs without sampling.

Where drops are rare and units few, each is dropped alone. Elsewhere it takes one pass forward and one backward for each
output.

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
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from gumdrop.functional.floats import finite_exp
from gumdrop.functional.masks import inverse_keep
from gumdrop.layers import SITE, ConcreteDropout
from gumdrop.prediction.moments.rules import Sources, State, drop, plainly, rule_of

RARE = 0.06
"""Largest rate up to which drops are rare."""
ROWS = 1 << 13
"""Rows, each without one unit, that run at once."""


class OutputMoments(NamedTuple):
    """Moments of the outputs of a network over its dropout masks."""

    mean: Tensor
    """Shape (N, D)."""
    variance: Tensor
    """Shape (N, D)."""


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
    layers = [(layer, rule_of(name, layer)) for name, layer in _layers(model, "")]
    by, rows = _by_slopes, batch_size
    if _drops_are_rare(layers):
        by, most = _by_single_drops, max(1, ROWS // max(site.num_units for site in _sites(layers)))
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


def _site_of(layer: nn.Module) -> ConcreteDropout | None:
    """Find the site in front of a layer."""
    site = layer._modules.get(SITE)
    return site if isinstance(site, ConcreteDropout) else None


def _sites(layers: Layers) -> list[ConcreteDropout]:
    return [site for layer, _ in layers if (site := _site_of(layer)) is not None]


def _drops_are_rare(layers: Layers) -> bool:
    """Tell whether the units of a chain drop so seldom, and are so few, that each may be dropped alone."""
    if any(isinstance(layer, _DropoutNd) and layer.p > 0 for layer, _ in layers):
        return False
    sites = _sites(layers)
    # A unit that is dropped alone asks for all that follows it once more.
    few = 0 < sum(site.num_units for site in sites) <= 256 and all(site.num_units for site in sites)
    return few and all(_largest(site.p_logit.tolist()) <= math.log(RARE / (1 - RARE)) for site in sites)


def _largest(logits: list[float] | float) -> float:  # read by `tolist`, which stays a number while a graph is made
    return max(logits) if isinstance(logits, list) else logits


Step = tuple[nn.Module, Callable[[Tensor], Tensor]]
"""A layer, and what it does without dropout; it may use the memory of its input."""


@torch.no_grad()
def _by_single_drops(layers: Layers, x: Tensor) -> OutputMoments:
    r"""Return moments to first order, by y, the output without masks, and :math:`y_k`, the one without unit k.

    .. math:: \operatorname{var} y = \sum_k \frac{p_k}{1 - p_k} (y_k - y)^2, \qquad
              \operatorname{E} y = y^+ + \sum_k \frac{p_k}{1 - p_k} (y_k - y)

    where :math:`y^+` is the output of units that are all kept, and so multiplied by :math:`1 / (1 - p)`. Both are exact
    for dropout in front of a linear map. A unit that is dropped is a long step, over which a ReLU further on is not
    linear; so this is closer than slopes are, as long as two drops seldom meet.
    """
    steps: list[Step] = [(layer, functools.partial(_step, layer, rule)) for layer, rule in layers]
    p_logit = torch.cat([site.p_logit.expand(site.num_units) for site in _sites(layers)])
    odds, inverse = (each.to(x.dtype) for each in (finite_exp(p_logit), inverse_keep(p_logit)))
    end = 1 + max(i for i, (layer, _) in enumerate(steps) if _site_of(layer) is not None)
    without: list[Tensor] = []  # (N, K, ...) for each site
    x, all_kept, first = x.clone(), x.clone(), 0  # for steps that work in place
    for i, (layer, step) in enumerate(steps[:end]):
        site, before = _site_of(layer), x
        if site is None:
            x, all_kept = step(before), step(all_kept)
            continue
        factor = inverse[first : first + site.num_units].view(site.factor_shape(x.shape, leading=1))
        x, all_kept, first = step(before), step(all_kept * factor), first + site.num_units
        outputs = _run(steps[i + 1 : end], _without_each(site, layer, step, before, x))
        without.append(outputs.unflatten(0, (-1, site.num_units)))
    all_rows = torch.cat([x.unsqueeze(1), all_kept.unsqueeze(1), *without], dim=1)
    all_rows = _run(steps[end:], all_rows.flatten(0, 1)).unflatten(0, (-1, all_rows.shape[1]))
    changes = all_rows[:, 2:] - all_rows[:, :1]
    weighted = odds.view(-1, *[1] * (changes.ndim - 2)) * changes
    mean = all_rows[:, 1] + weighted.sum(1)
    _check_shape(mean)
    return OutputMoments(mean, (weighted * changes).sum(1))


def _run(steps: Sequence[Step], x: Tensor) -> Tensor:
    for _, step in steps:
        x = step(x)
    return x


def _without_each(
    site: ConcreteDropout, layer: nn.Module, step: Callable[[Tensor], Tensor], before: Tensor, after: Tensor
) -> Tensor:
    """Output of a layer for each row without unit 0 of its input, without unit 1, and so on: (N K, ...)."""
    if type(layer) is nn.Linear and before.ndim == 2:  # a unit adds a product of two vectors
        columns = layer.weight.T.contiguous()
        return torch.addcmul(after.unsqueeze(1), before.unsqueeze(-1), columns, value=-1).flatten(0, 1)
    keep = 1 - torch.eye(site.num_units, dtype=before.dtype, device=before.device)
    shape = site.factor_shape(before.shape, leading=1)
    return step((before.unsqueeze(1) * keep.view(-1, *shape[1:])).flatten(0, 1))


def _step(layer: nn.Module, rule: Any, x: Tensor) -> Tensor:
    """Run a layer without dropout, in the memory of its input where it can."""
    if isinstance(layer, _BatchNorm):  # whatever its mode
        return rule(layer, State(x, None), []).mean
    return torch.relu_(x) if type(layer) is nn.ReLU else plainly(layer, x)


def _by_slopes(layers: Layers, x: Tensor) -> OutputMoments:
    sources: Sources = []
    with torch.enable_grad():
        state = State(x.clone(), None)  # for a first layer that works in place
        for layer, rule in layers:
            site = _site_of(layer)
            if site is not None:  # rows are in dimension 0 of every layer of a chain
                state = drop(state, site.p_logit.detach(), site.factor_shape(state.mean.shape, leading=1), sources)
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
