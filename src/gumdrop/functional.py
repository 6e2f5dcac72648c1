"""Keep-masks, dropout with a learned rate, entropy and KL terms: pure functions of tensors.

The drop probability is always given by its logit, ``p = sigmoid(p_logit)``. Nothing here forms
``log(p)`` or ``log(1 - p)`` from a rounded ``p``: values and gradients are finite for every finite
logit. All masks are computed in float32 (float64 where the logit is float64), also for half-precision
activations and under autocast, because bfloat16 noise is exactly 0 once in 512 draws.

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).
    Maddison, Mnih & Teh 2017, "The Concrete Distribution" (arXiv:1611.00712).
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = [
    "bernoulli_entropy",
    "concrete_dropout",
    "dropout_kl",
    "dropout_kl_terms",
    "dropout_scale",
    "finite_exp",
    "hard_keep",
    "inverse_keep",
    "logit_of",
    "soft_keep",
    "split_gaussian",
    "uniform_noise",
    "widened",
]


def widened(value: Tensor) -> Tensor:
    """Convert to at least float32, in which masks are drawn, logarithms taken and sums formed.

    Args:
        value: Any tensor of real numbers.

    Returns:
        The same values, in float32 or float64.
    """
    return value.to(torch.promote_types(value.dtype, torch.float32))


def finite_exp(value: Tensor) -> Tensor:
    """Exponential that saturates just below the largest number of its dtype, so that 0 times it is 0.

    Args:
        value: Any real numbers.

    Returns:
        Finite values; the gradient is 0 where they are saturated.
    """
    return torch.exp(value.clamp(max=math.log(torch.finfo(value.dtype).max) - 1e-4))


def logit_of(scaled: Tensor, unit: float) -> Tensor:
    """Give the logit that an optimiser learns in other units, with a gradient that suits them.

    Optimisers of the Adam family move each number by their learning rate, whatever the size of its gradient, so that
    the logit moves ``unit`` times as far. Plain gradient descent goes by the size: under the chain rule it would take
    the logit ``unit ** 2`` times as far. So the gradient is divided by the unit, not multiplied: then gradient descent
    moves the logit as if it were learned by itself.

    Args:
        scaled: The logit over ``unit``.
        unit: The unit, positive.

    Returns:
        ``unit * scaled``, in float32 or float64. Its derivative, of any order and in either mode, is ``1 / unit``.
    """
    scaled = widened(scaled)
    if not torch.is_grad_enabled():
        return scaled * unit
    value = scaled.detach()
    return (value * unit).add(scaled - value, alpha=1 / unit)  # the difference is 0, and has the gradient


def _check_temperature(temperature: float) -> None:
    if not temperature > 0:
        raise ValueError(
            f"`temperature` must be a positive number, got {temperature}; 0.1 is the usual choice, and hard "
            "masks (`hard=True`) are the limit of 0"
        )


def uniform_noise(
    shape: Sequence[int],
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw the uniform noise from which masks are made.

    Args:
        shape: Shape of the noise.
        dtype: float32 or float64.
        device: Where the noise is wanted.
        generator: Source of randomness; torch's default generator if None. Its device may differ from
            ``device``: the noise is then drawn on the generator's device and moved, so that one seed gives the
            same masks on every device.

    Returns:
        Uniform draws from [0, 1).
    """
    if generator is None:
        return torch.rand(shape, dtype=dtype, device=device)
    return torch.rand(shape, dtype=dtype, device=generator.device, generator=generator).to(device)


def soft_keep(p_logit: Tensor, noise: Tensor, *, temperature: float = 0.1) -> Tensor:
    r"""Relaxed Bernoulli keep-mask, differentiable in the drop logit.

    .. math:: z = \sigma\big((\operatorname{logit} u - \operatorname{logit} p) / t\big)

    Args:
        p_logit: Logit of the drop probability; broadcasts with ``noise``.
        noise: Uniform draws ``u`` from [0, 1).
        temperature: ``t`` > 0. As ``t`` goes to 0 the mask becomes ``hard_keep`` of the same noise.

    Returns:
        Values in [0, 1]: 1 keeps, 0 drops.

    Raises:
        ValueError: If ``temperature`` is not positive.
    """
    return torch.sigmoid(_keep_logit(p_logit, noise, temperature))


def _keep_logit(p_logit: Tensor, noise: Tensor, temperature: float) -> Tensor:
    _check_temperature(temperature)
    # A uniform draw can be exactly 0, and in lower precision exactly 1: its logit must stay finite.
    smallest = torch.finfo(noise.dtype).eps / 2
    logit = widened(p_logit)
    return (torch.logit(noise, eps=smallest).to(logit.dtype) - logit) / temperature


def hard_keep(p_logit: Tensor, noise: Tensor) -> Tensor:
    """Bernoulli keep-mask, True with probability ``1 - p``.

    Args:
        p_logit: Logit of the drop probability; broadcasts with ``noise``.
        noise: Uniform draws from [0, 1).

    Returns:
        Boolean mask: True keeps, False drops. It carries no gradient.
    """
    return noise >= torch.sigmoid(widened(p_logit))


def inverse_keep(p_logit: Tensor) -> Tensor:
    r"""Scale of inverted dropout, :math:`1/(1-p) = 1 + e^{\operatorname{logit} p}`.

    Args:
        p_logit: Logit of the drop probability.

    Returns:
        Values in [1, largest finite number]: where the exact value overflows the dtype, it saturates there
        instead of giving ``inf``, so that a product with 0 stays 0.
    """
    return finite_exp(F.softplus(widened(p_logit)))


def dropout_scale(p_logit: Tensor, noise: Tensor, *, temperature: float = 0.1, hard: bool = False) -> Tensor:
    r"""Factor that dropout puts on each unit, :math:`z / (1 - p)`.

    The soft factor is the exponential of :math:`\log z + \log\frac{1}{1-p}`, which stays finite where the two
    factors alone do not (``p`` to 1 drops everything while its scale grows without bound).

    Args:
        p_logit: Logit of the drop probability; broadcasts with ``noise``.
        noise: Uniform draws from [0, 1).
        temperature: Temperature of the soft mask; a hard mask has none.
        hard: Draw a Bernoulli mask, which carries no gradient, instead of the relaxed one.

    Returns:
        The factor, in float32 or float64, of the broadcast shape.

    Raises:
        ValueError: If ``temperature`` is not positive.
    """
    if hard:
        p_logit = p_logit.detach()
        return hard_keep(p_logit, noise) * inverse_keep(p_logit)
    logit = widened(p_logit)  # once: the two parts of its gradient cancel, and must add up in float32
    return finite_exp(F.logsigmoid(_keep_logit(logit, noise, temperature)) + F.softplus(logit))


def concrete_dropout(
    x: Tensor,
    p_logit: Tensor,
    *,
    temperature: float = 0.1,
    hard: bool = False,
    noise: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Dropout whose rate has a gradient.

    .. math:: y = x \cdot z / (1 - p), \qquad
              z = \sigma\big((\operatorname{logit} u - \operatorname{logit} p) / t\big)

    Args:
        x: Activations of any shape and floating dtype.
        p_logit: Logit of the drop probability; broadcasts to ``x``.
        temperature: Temperature ``t`` of the soft mask.
        hard: Use a Bernoulli mask: no relaxation and no gradient for ``p_logit``.
        noise: Uniform draws that broadcast to ``x``: a dimension of size 1 shares its mask. Drawn here, one
            for each element of ``x``, if None.
        generator: Source of the noise where ``noise`` is None.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        ValueError: If ``temperature`` is not positive or a shape does not broadcast to that of ``x``.
        TypeError: If ``x`` is not a floating tensor.

    References:
        Gal, Hron & Kendall 2017 (arXiv:1705.07832), eq. 5.

    Example:
        >>> x = torch.ones(2, 3)
        >>> noise = torch.tensor([[0.9, 0.05, 0.5], [0.01, 0.7, 0.99]])
        >>> concrete_dropout(x, torch.tensor(0.2).logit(), noise=noise, hard=True)
        tensor([[1.2500, 0.0000, 1.2500],
                [0.0000, 1.2500, 1.2500]])
    """
    if not x.is_floating_point():
        raise TypeError(f"`x` must be a floating tensor, got {x.dtype}; convert it with x.float()")
    if noise is None:
        dtype = torch.promote_types(p_logit.dtype, torch.float32)
        noise = uniform_noise(x.shape, dtype=dtype, device=x.device, generator=generator)
    if not (_broadcasts_to(noise.shape, x.shape) and _broadcasts_to(p_logit.shape, x.shape)):
        raise ValueError(
            f"`noise` of shape {tuple(noise.shape)} and `p_logit` of shape {tuple(p_logit.shape)} must broadcast "
            f"to `x` of shape {tuple(x.shape)}; dimensions of size 1 share their mask"
        )
    return (x * dropout_scale(p_logit, noise, temperature=temperature, hard=hard)).to(x.dtype)


def _broadcasts_to(shape: torch.Size, target: torch.Size) -> bool:
    return len(shape) <= len(target) and all(a in (1, b) for a, b in zip(shape[::-1], target[::-1], strict=False))


def bernoulli_entropy(p_logit: Tensor) -> Tensor:
    r"""Entropy of a Bernoulli variable, in nats.

    .. math:: H(p) = -p \log p - (1-p) \log (1-p)

    Args:
        p_logit: Logit of the probability.

    Returns:
        Entropy in [0, log 2], elementwise, in float32 or float64.
    """
    logit = widened(p_logit)
    # -log p = softplus(-logit) and -log(1-p) = softplus(logit)
    return torch.sigmoid(logit) * F.softplus(-logit) + torch.sigmoid(-logit) * F.softplus(logit)


def dropout_kl(p_logit: Tensor, square_norm: Tensor, num_units: int, *, precision: float | Tensor = 1.0) -> Tensor:
    r"""KL divergence of a dropout posterior from its Gaussian prior, up to a constant, in nats.

    .. math:: \mathrm{KL} = \frac{l^2}{2} \frac{\lVert W \rVert^2}{1-p} - K H(p)

    with the stored weight ``W = M (1 - p)``, because inverted dropout multiplies by ``1/(1-p)``.

    Args:
        p_logit: Logit of the drop probability: one for all ``K`` units, or one for each.
        square_norm: Sum of squared weights: of all of them where ``p_logit`` is one number, of each unit's
            outgoing weights, shape ``(K,)``, where it is one for each unit.
        num_units: ``K``, the number of units that can be dropped.
        precision: Prior precision ``l^2`` of each weight.

    Returns:
        A scalar tensor, in float32 or float64.

    Raises:
        ValueError: If the shapes of ``p_logit`` and ``square_norm`` differ, or are neither for one nor for ``K``.

    References:
        Gal, Hron & Kendall 2017 (arXiv:1705.07832), eq. 3; the weight term carries ``1 - p``, not its square.
    """
    if p_logit.shape != square_norm.shape:
        raise ValueError(
            f"`square_norm` must have the shape of `p_logit`, {tuple(p_logit.shape)}, got {tuple(square_norm.shape)}"
        )
    if p_logit.numel() not in (1, num_units):
        raise ValueError(f"`p_logit` must hold one rate, or one for each of {num_units} units, got {p_logit.numel()}")
    return dropout_kl_terms(p_logit, square_norm, num_units // p_logit.numel(), precision).sum()


def dropout_kl_terms(
    p_logit: Tensor, square_norm: Tensor, units_per_rate: Tensor | int, precision: Tensor | float
) -> Tensor:
    """Elements of the sum in `dropout_kl`, for rates of one site or of many.

    Args:
        p_logit: Logits of the drop probabilities.
        square_norm: Sum of squared weights behind each rate.
        units_per_rate: Number of units that share each rate.
        precision: Prior precision ``l^2`` of the weights behind each rate.

    Returns:
        One term for each rate, in float32 or float64.
    """
    logit = widened(p_logit)
    inverse = inverse_keep(logit)
    # Finite, so that a weight of 0 has a gradient of 0 and not of 0 times infinity.
    coefficient = (0.5 * precision * inverse).clamp(max=torch.finfo(inverse.dtype).max)
    return square_norm.to(inverse.dtype) * coefficient - units_per_rate * bernoulli_entropy(logit)


def split_gaussian(output: Tensor) -> tuple[Tensor, Tensor]:
    """Split a network's output into mean and log variance, the two halves of its last dimension.

    Args:
        output: Shape (..., 2 D).

    Returns:
        Mean and log variance, each of shape (..., D).

    Raises:
        ValueError: If the last dimension is odd.
    """
    if output.ndim == 0 or output.shape[-1] % 2:
        raise ValueError(
            f"a Gaussian output holds means and log variances in halves of its last dimension, got shape "
            f"{tuple(output.shape)}; end the model with 2 D outputs, or with `gumdrop.HomoscedasticNoise(D)`"
        )
    mean, log_variance = output.chunk(2, dim=-1)
    return mean, log_variance
