"""Estimators of the gradient of E[f(mask)] for drop logits, each by the formula of its source.

The simplified one bounds its exponent, where its source masks what is not a number and adds a margin.

A mask holds 1 where a unit is kept, with probability ``1 - p``. An estimator takes the drop logits, two uniform draws
for each unit and a function of a mask, and gives the gradient for the logits from two evaluations of the function:
relaxations average two masks, the others pair them. So all have the same noise and the same number of evaluations.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from gumdrop.functional import soft_keep

Objective = Callable[[Tensor], Tensor]
"""Of masks (R, K), or (R, ...), with one number for each: shape (R,)."""
Estimator = Callable[[Tensor, Tensor, Objective, float], tuple[Tensor, Tensor]]
"""From logits (R, ...), noise (2, R, ...), objective and temperature to gradients (R, ...) and objectives (R,)."""


def _original_keep(p_logit: Tensor, u: Tensor, temperature: float) -> Tensor:
    """The mask as the reference code of Concrete Dropout writes it, through p and logarithms with a margin."""
    eps = 1e-7
    p = torch.sigmoid(p_logit)
    drop = torch.log(p + eps) - torch.log(1 - p + eps) + torch.log(1 - u + eps) - torch.log(u + eps)
    return 1 - torch.sigmoid(drop / temperature)


class _SimplifiedKeep(torch.autograd.Function):
    """The mask with the backward pass of Korsch et al. 2023: z^2 exp(-a) / t, for z = 1 / (1 + exp(-a))."""

    @staticmethod
    def forward(ctx: FunctionCtx, p_logit: Tensor, u: Tensor, temperature: float) -> Tensor:
        # As written it overflows in float32, and 0 times infinity is no gradient: the exponent is bounded.
        exponent = torch.exp((-(torch.logit(u) - p_logit) / temperature).clamp(max=40))
        keep = 1 / (1 + exponent)
        ctx.save_for_backward(keep, exponent)
        ctx.temperature = temperature  # type: ignore[attr-defined]
        return keep

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        keep, exponent = ctx.saved_tensors
        return -slopes[0] * keep.square() * exponent / ctx.temperature, None, None


def _straight_through(p_logit: Tensor, u: Tensor, temperature: float) -> Tensor:
    """A hard mask, whose gradient is taken to be that of its mean (Bengio, Leonard & Courville 2013)."""
    mean = torch.sigmoid(-p_logit)
    hard = (u < mean).to(mean.dtype)
    return mean + (hard - mean).detach()


def _reparametrised(keep: Callable[[Tensor, Tensor, float], Tensor]) -> Estimator:
    """An estimator that goes through the mask, averaged over two draws."""

    def estimate(p_logit: Tensor, u: Tensor, f: Objective, temperature: float) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            logit = p_logit.detach().requires_grad_()
            values = torch.stack([f(keep(logit, each, temperature)) for each in u])
            (slope,) = torch.autograd.grad(values.mean(dim=0).sum(), logit)
        return slope, values.detach().mean(dim=0)

    return estimate


def _rows(values: Tensor, like: Tensor) -> Tensor:
    return values.reshape(-1, *[1] * (like.ndim - 1))


@torch.no_grad()
def _reinforce(p_logit: Tensor, u: Tensor, f: Objective, temperature: float) -> tuple[Tensor, Tensor]:
    """Score function; the baseline of each draw is the other (Williams 1992; Kool, van Hoof & Welling 2019)."""
    mean = torch.sigmoid(-p_logit)
    first, second = ((each < mean).to(mean.dtype) for each in u)
    values = f(first), f(second)
    # d log q(b) / d keep logit = b - mean; the sign turns it to the drop logit.
    slope = -_rows(values[0] - values[1], mean) * ((first - mean) - (second - mean)) / 2
    return slope, (values[0] + values[1]) / 2


@torch.no_grad()
def _disarm(p_logit: Tensor, u: Tensor, f: Objective, temperature: float) -> tuple[Tensor, Tensor]:
    """Antithetic pair, the noise between the two integrated out (DisARM, Dong et al. 2020; U2G, Yin et al. 2020)."""
    keep_logit = -p_logit  # the second mask comes from the mirrored noise, so one draw is enough
    mean = torch.sigmoid(keep_logit)
    first, second = (1 - u[0] < mean).to(mean.dtype), (u[0] < mean).to(mean.dtype)
    values = f(first), f(second)
    sign = torch.where(second > 0, -1.0, 1.0) * (first != second)
    slope = _rows(values[0] - values[1], mean) / 2 * sign * torch.sigmoid(keep_logit.abs())
    return -slope, (values[0] + values[1]) / 2


RELAXED: dict[str, Estimator] = {
    "original": _reparametrised(_original_keep),
    "simplified": _reparametrised(_SimplifiedKeep.apply),
    "ours": _reparametrised(lambda p_logit, u, temperature: soft_keep(p_logit, u, temperature=temperature)),
}
"""Biased estimators that have a temperature."""

ESTIMATORS: dict[str, Estimator] = {
    **RELAXED,
    "straight-through": _reparametrised(_straight_through),
    "REINFORCE": _reinforce,
    "DisARM": _disarm,
}

TEMPERATURES = (0.05, 0.1, 0.2, 0.5, 1.0)


def at_temperatures() -> dict[str, tuple[str, float]]:
    """Name each estimator at each temperature that it has."""
    relaxed = {f"{name} t={t:g}": (name, t) for name in RELAXED for t in TEMPERATURES}
    return relaxed | {name: (name, 1.0) for name in ESTIMATORS if name not in RELAXED}


@torch.no_grad()
def exact_gradient(p_logit: Tensor, f: Objective) -> Tensor:
    r"""Gradient of E[f] for a few logits (K,), over all masks: :math:`\sum_b f(b)\, q(b)\, \partial \log q(b)`."""
    count = len(p_logit)
    masks = (torch.arange(2**count)[:, None] >> torch.arange(count) & 1).to(p_logit.dtype)
    mean = torch.sigmoid(-p_logit)
    weight = torch.where(masks > 0, mean, 1 - mean).prod(dim=1)
    return -((f(masks) * weight)[:, None] * (masks - mean)).sum(dim=0)
