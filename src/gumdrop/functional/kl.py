"""Entropy of masks, and the KL of a site with a Gaussian prior."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gumdrop.functional.floats import finite_exp, widened
from gumdrop.functional.masks import inverse_keep
from gumdrop.functional.noise import is_traced


def bernoulli_entropy(p_logit: Tensor) -> Tensor:
    r"""Return the entropy of Bernoulli variables by their logits, in nats, elementwise.

    .. math:: H(p) = -p \log p - (1-p) \log (1-p)

    Example:
        >>> bernoulli_entropy(torch.tensor([0.0, 2.0]))
        tensor([0.6931, 0.3653])
    """
    logit = widened(p_logit)
    # -log p = softplus(-logit) and -log(1-p) = softplus(logit)
    return torch.sigmoid(logit) * F.softplus(-logit) + torch.sigmoid(-logit) * F.softplus(logit)


def dropout_kl(
    p_logit: Tensor,
    square_norm: Tensor,
    num_units: int,
    *,
    precision: float | Tensor = 1.0,
    strength: float = 1.0,
) -> Tensor:
    r"""KL divergence of a dropout posterior from its Gaussian prior, up to a constant, in nats.

    .. math:: \mathrm{KL} = \frac{l^2}{2} \frac{\lVert W \rVert^2}{1-p} - K H(p)

    with the stored weight ``W = M (1 - p)``, because inverted dropout multiplies by ``1/(1-p)``.

    Args:
        p_logit: Logit of the drop probability: one for all ``K`` units, or one for each.
        square_norm: Sum of squared weights: of all of them where ``p_logit`` is one number, of each unit's
            outgoing weights, shape ``(K,)``, where it is one for each unit.
        num_units: ``K``, the number of units that can be dropped.
        precision: Prior precision ``l^2`` of each weight.
        strength: What the entropy is multiplied by; the KL divergence has 1.

    Returns:
        A scalar tensor, in float32 or float64.

    Raises:
        ValueError: If the shapes of ``p_logit`` and ``square_norm`` differ, or are neither for one nor for ``K``.

    References:
        Gal, Hron & Kendall 2017 (arXiv:1705.07832), eq. 3; the weight term carries ``1 - p``, not its square.

    Example:
        >>> dropout_kl(torch.tensor(0.0), torch.tensor(3.0), 8)  # 3 / 2 / (1 - p) less 8 ln 2
        tensor(-2.5452)
    """
    if p_logit.shape != square_norm.shape:
        raise ValueError(
            f"`square_norm` must have the shape of `p_logit`, {tuple(p_logit.shape)}, got {tuple(square_norm.shape)}"
        )
    if p_logit.numel() not in (1, num_units):
        raise ValueError(f"`p_logit` must hold one rate, or one for each of {num_units} units, got {p_logit.numel()}")
    units = strength * (num_units // p_logit.numel())
    logit = widened(p_logit)
    kept = square_norm.to(logit.dtype) * _times(inverse_keep(logit), 0.5 * precision)
    return (kept - units * bernoulli_entropy(logit)).sum()


def total_kl(p_logits: Tensor, units: Tensor, halves: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """Sum the KL of T weights, as `dropout_kl` has that of one, and of tensors behind them that are never dropped.

    Args:
        p_logits: Logits of the rates of the weights, shape (T,).
        units: Units of each site, times its strength, shape (T,).
        halves: Half of the prior precision of each tensor.
        tensors: The weights, then the others.

    Returns:
        A scalar tensor.
    """
    if is_traced() or any(hasattr(tensor, "full_tensor") for tensor in tensors):
        squares = torch.stack([whole(widened(each).square().sum()).to(p_logits) for each in tensors])
        coefficients = _all_coefficients(inverse_keep(p_logits), halves)
        return torch.dot(squares, coefficients) - torch.dot(units, bernoulli_entropy(p_logits))
    return _Total.apply(p_logits, units, halves, *tensors)


def _all_coefficients(inverse: Tensor, halves: Tensor) -> Tensor:
    """Coefficients of the squared norms of weights, and of tensors behind them that are never dropped."""
    return torch.cat([_times(inverse, halves[: len(inverse)]), halves[len(inverse) :]])


def _times(inverse: Tensor, half: Tensor | float) -> Tensor:
    """Half of the precision of weights that are dropped, finite when doubled: a weight of 0 has a gradient of 0."""
    return (half * inverse).clamp(max=torch.finfo(inverse.dtype).max / 2)


class _Total(torch.autograd.Function):
    """The same with the gradient by hand: a small network has as many operations in its KL as in all else."""

    @staticmethod
    def forward(ctx: Any, p_logits: Tensor, units: Tensor, halves: Tensor, *tensors: Tensor) -> Tensor:
        norms = torch._foreach_norm(tensors, 2, dtype=p_logits.dtype)
        squares = torch.stack([norm.to(p_logits) for norm in norms]).square_()
        surprise, p = F.softplus(p_logits), torch.sigmoid(p_logits)  # -log(1 - p)
        coefficients = _all_coefficients(finite_exp(surprise), halves)
        ctx.save_for_backward(p_logits, p, units, halves, squares, coefficients, *tensors)
        entropies = surprise - p * p_logits  # to an absolute rounding, which a sum has anyway
        return torch.dot(squares, coefficients) - torch.dot(units, entropies)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        p_logits, p, units, halves, squares, coefficients, *tensors = ctx.saved_tensors
        if torch.is_grad_enabled():  # this gradient is to have one, too
            coefficients = _all_coefficients(inverse_keep(p_logits), halves)
            squares = torch.stack([tensor.to(p_logits).square().sum() for tensor in tensors])
            p = torch.sigmoid(p_logits)
        dropped = (squares * coefficients)[: len(p_logits)]
        slopes = g * p * torch.addcmul(dropped, units * p_logits, 1 - p)
        pulls = zip(tensors, (2 * g * coefficients).unbind(), strict=True)
        return slopes, None, None, *torch._foreach_mul(tensors, [pull.to(tensor.device) for tensor, pull in pulls])


def whole(value: Tensor) -> Tensor:
    """Sum what processes found, each from its part of a weight that is spread over them (FSDP2)."""
    full_tensor = getattr(value, "full_tensor", None)
    return value if full_tensor is None else full_tensor()
