r"""The KL divergence of many weights at once: a few operations for all of them, and one pass over each backward.

.. math:: \sum_i \left(\frac{l_i^2}{2} \frac{\lVert W_i \rVert^2}{1-p_i} - K_i H(p_i)\right)
          + \sum_j \frac{l_j^2}{2} \lVert b_j \rVert^2

`gumdrop.functional.dropout_kl_terms` is the readable formula, and what is compiled, exported and transformed. Eager
training goes through here, with the gradient by hand: that of a weight is one product of it with a number, and all
that concerns the rates is a handful of operations on numbers, or on vectors with one element for each site.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumdrop.functional.devices import sent
from gumdrop.functional.floats import logit_of, widened
from gumdrop.functional.fused_masks import LARGEST_LOGIT
from gumdrop.functional.kl import dropout_kl_terms
from gumdrop.functional.noise import is_traced

__all__ = ["LARGEST_LEARNED", "Prior", "senseless", "shared_rate_kl", "whole"]

SUMMED = 1 << 18
"""Numbers in one dot product: one of very many is not summed by halves, as `sum` is."""
LARGEST_LEARNED = 1e4
"""Size of a logit that no training reaches, while memory that nobody wrote to is mostly beyond, or below all others."""


class Prior(NamedTuple):
    """What is known of a weight beside its values."""

    precision: float
    """``l^2`` of each number."""
    units: float = 0
    """``K``, the number of units that can be dropped, times the strength of their entropy; 0 for a bias."""


def shared_rate_kl(
    p_logits: Sequence[Tensor],
    tensors: Sequence[Tensor],
    priors: Sequence[Prior],
    scale: float | Tensor = 1.0,
    unit: float = 1.0,
) -> Tensor:
    """Sum the KL of weights that have one rate each, and of biases.

    Args:
        p_logits: Logit of the drop probability of each weight, scalars.
        tensors: The weights in the same order, and then the biases.
        priors: One for each of ``tensors``.
        scale: What all precisions are multiplied by, a number or a scalar tensor.
        unit: What ``p_logits`` are measured in, see `gumdrop.functional.logit_of`.

    Returns:
        A scalar tensor, in float32 or float64.
    """
    if is_traced() or isinstance(scale, Tensor) or any(hasattr(each, "full_tensor") for each in tensors):
        return _plain(p_logits, tensors, priors, scale, unit)
    return _SharedRateKl.apply(priors, scale, unit, *p_logits, *tensors)


def _plain(
    p_logits: Sequence[Tensor],
    tensors: Sequence[Tensor],
    priors: Sequence[Prior],
    scale: float | Tensor = 1.0,
    unit: float = 1.0,
) -> Tensor:
    """The formula by operations that have gradients."""
    norms = _stacked([whole(widened(each).square().sum()) for each in tensors])
    precisions, units = sent(torch.tensor(priors, dtype=norms.dtype), norms.device).T
    precisions = scale * precisions
    count = len(p_logits)
    value = 0.5 * norms[count:] @ precisions[count:]
    if count:
        logits = logit_of(torch.stack([each.to(norms) for each in p_logits]), unit)
        value = value + dropout_kl_terms(logits, norms[:count], units[:count], precisions[:count]).sum()
    return value


def _stacked(norms: Sequence[Tensor]) -> Tensor:
    dtype, device = norms[0].dtype, norms[0].device
    return torch.stack([each if each.dtype == dtype and each.device == device else each.to(norms[0]) for each in norms])


def _square_sums(tensors: Sequence[Tensor]) -> Tensor:
    """Sum the squares of each tensor, by parts where there are very many: a float32 sum of those loses digits."""
    wide = [widened(each) for each in tensors]
    if all(each.numel() <= SUMMED for each in wide):
        return _stacked(torch._foreach_norm(wide)).square_()
    parts = [each.flatten().split(SUMMED) for each in wide]
    norms = _stacked(torch._foreach_norm([part for each in parts for part in each])).square_()
    return torch.stack([each.sum() for each in norms.split([len(each) for each in parts])])


def _terms_of_numbers(
    p_logits: Sequence[Tensor], norms: Tensor, priors: Sequence[Prior], scale: float, unit: float = 1.0
) -> tuple[float, list[float], list[float]]:
    """Compute `_terms_of_tensors` on a CPU, where numbers of Python take a fraction of the time of small tensors."""
    logits = [each.item() * unit for each in p_logits]
    for logit in logits:
        if abs(logit) > LARGEST_LEARNED:  # one that is no number makes the loss the same, and training says so
            raise ValueError(senseless(logit))
    largest = torch.finfo(norms.dtype).max
    value, slopes, factors = 0.0, [], []
    biases = [-math.inf] * (len(priors) - len(logits))  # never dropped
    for logit, norm, prior in zip(logits + biases, norms.tolist(), priors, strict=True):
        logit = min(max(logit, -LARGEST_LOGIT), LARGEST_LOGIT)
        odds = math.exp(logit)
        p = odds / (1 + odds)
        factor = min(scale * prior.precision * (1 + odds), largest)
        half = 0.5 * norm * factor
        value += half - prior.units * (math.log1p(odds) - logit * p)
        slopes.append((half * p + prior.units * logit * p / (1 + odds)) / unit)
        factors.append(factor)
    return value, slopes[: len(logits)], factors


def _terms_of_tensors(
    p_logits: Sequence[Tensor], norms: Tensor, priors: Sequence[Prior], scale: float, unit: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the KL, its slopes in the logits, and what weights are multiplied by in their gradients.

    Args:
        p_logits: Logits of the rates over ``unit``.
        norms: Sums of squares of the weights, and then of the biases.
        priors: One for each norm.
        scale: What all precisions are multiplied by.
        unit: What ``p_logits`` are measured in.

    Returns:
        The three, on the device of ``norms``, which is not waited for.
    """
    count = len(p_logits)
    precisions, units = sent(torch.tensor(priors, dtype=norms.dtype), norms.device).T
    biases = norms.new_full((len(priors) - count,), -math.inf)  # never dropped
    logits = unit * torch.cat([*(each.to(norms).view(1) for each in p_logits), biases])
    logits = logits.clamp(-LARGEST_LOGIT, LARGEST_LOGIT)
    odds = logits.exp()
    p = odds / (1 + odds)
    factors = (scale * precisions * (1 + odds)).clamp(max=torch.finfo(norms.dtype).max)  # 0 times it is 0
    halves = 0.5 * norms * factors
    entropies = torch.log1p(odds) - logits * p
    slopes = (halves * p + units * logits * p / (1 + odds)) / unit
    return (halves - units * entropies).sum(), slopes[:count], factors


class _SharedRateKl(torch.autograd.Function):
    """The same with a gradient by hand."""

    @staticmethod
    def forward(ctx: Any, priors: Sequence[Prior], scale: float, unit: float, *tensors: Tensor) -> Tensor:
        count = len(tensors) - len(priors)
        norms = _square_sums(tensors[count:])
        ctx.on_cpu = norms.device.type == "cpu"
        compute: Callable[..., Any] = _terms_of_numbers if ctx.on_cpu else _terms_of_tensors
        value, ctx.slopes, ctx.factors = compute(tensors[:count], norms, priors, scale, unit)
        ctx.save_for_backward(*tensors)
        ctx.priors, ctx.scale, ctx.unit = priors, scale, unit
        return norms.new_tensor(value) if ctx.on_cpu else value

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        tensors, wanted = ctx.saved_tensors, ctx.needs_input_grad[3:]
        count = len(ctx.slopes)
        if torch.is_grad_enabled():  # this gradient is to have one, too
            tensors = [each.view_as(each) for each in tensors]  # one may be computed from another
            value = _plain(tensors[:count], tensors[count:], ctx.priors, ctx.scale, ctx.unit)
            found = iter(torch.autograd.grad(value, list(itertools.compress(tensors, wanted)), g, create_graph=True))
            return None, None, None, *(next(found) if is_wanted else None for is_wanted in wanted)
        asked = list(itertools.compress(tensors[count:], wanted[count:]))
        if ctx.on_cpu:
            number = g.item()
            slopes = g.new_tensor(ctx.slopes).mul_(number)
            factors = [number * factor for factor in itertools.compress(ctx.factors, wanted[count:])]
            products = iter(torch._foreach_mul(asked, factors) if asked else [])
        else:
            slopes = g * ctx.slopes
            on_device = itertools.compress((g * ctx.factors).unbind(), wanted[count:])
            products = (each * factor.to(each.device) for each, factor in zip(asked, on_device, strict=True))
        of_rates = [slope.to(each) for slope, each in zip(slopes.unbind(), tensors, strict=False)]
        return None, None, None, *of_rates, *(next(products) if is_wanted else None for is_wanted in wanted[count:])


def senseless(logit: float, name: str | None = None) -> str:
    """Say that a logit cannot have been learned.

    Args:
        logit: Logit of a drop probability that is not a number, or larger than `LARGEST_LEARNED`.
        name: Name of its site, if the caller has it.

    Returns:
        The message of an error.
    """
    place = "of a site (`gumdrop.dropout_rates(model)` says which)" if name is None else f"of {name or 'the model'!r}"
    return (
        f"the logit of the drop probability {place} must be a number between {-LARGEST_LEARNED:g} and "
        f"{LARGEST_LEARNED:g}, got {logit:g}: training diverged, or it was never initialised because the model was "
        "built on the meta device and loaded from a checkpoint without rates; call `reset_parameters()` of each "
        "`gumdrop.layers.ConcreteDropout` in `model.modules()`, or convert the model after loading"
    )


def whole(value: Tensor) -> Tensor:
    """Sum what processes found, each from its part of a weight that is spread over them (FSDP2).

    Args:
        value: A sum over a weight; any other tensor is given back as it is.

    Returns:
        An ordinary tensor.
    """
    full_tensor = getattr(value, "full_tensor", None)
    return value if full_tensor is None else full_tensor()
