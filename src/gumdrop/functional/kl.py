"""Entropy of masks, and the KL of a site with a Gaussian prior: the formula."""

import torch
from torch import Tensor
from torch.nn import functional as F

from gumdrop.functional.floats import widened
from gumdrop.functional.masks import inverse_keep

__all__ = ["bernoulli_entropy", "dropout_kl", "dropout_kl_terms"]


def bernoulli_entropy(p_logit: Tensor) -> Tensor:
    r"""Entropy of a Bernoulli variable, in nats.

    .. math:: H(p) = -p \log p - (1-p) \log (1-p)

    Args:
        p_logit: Logit of the probability.

    Returns:
        Entropy in [0, log 2], elementwise, in float32 or float64.

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
    return dropout_kl_terms(p_logit, square_norm, strength * (num_units // p_logit.numel()), precision).sum()


def dropout_kl_terms(
    p_logit: Tensor, square_norm: Tensor, units_per_rate: Tensor | float, precision: Tensor | float
) -> Tensor:
    """Elements of the sum in `dropout_kl`, for rates of one site or of many.

    Args:
        p_logit: Logits of the drop probabilities.
        square_norm: Sum of squared weights behind each rate.
        units_per_rate: Number of units that share each rate, times the strength of their entropy.
        precision: Prior precision ``l^2`` of the weights behind each rate.

    Returns:
        One term for each rate, in float32 or float64.

    Example:
        >>> dropout_kl_terms(torch.zeros(2), torch.tensor([3.0, 1.0]), 4.0, 1.0)
        tensor([ 0.2274, -1.7726])
    """
    logit = widened(p_logit)
    inverse = inverse_keep(logit)
    # Finite, so that a weight of 0 has a gradient of 0 and not of 0 times infinity.
    coefficient = (0.5 * precision * inverse).clamp(max=torch.finfo(inverse.dtype).max)
    return square_norm.to(inverse.dtype) * coefficient - units_per_rate * bernoulli_entropy(logit)
