"""Keep-masks and dropout with a learned rate: pure functions of tensors.

The drop probability is always given by its logit, ``p = sigmoid(p_logit)``. Nothing here forms
``log(p)`` or ``log(1 - p)`` from a rounded ``p``: values and gradients are finite for every finite
logit. All masks are computed in float32 (float64 where the logit is float64), also for half-precision
activations and under autocast, because bfloat16 noise is exactly 0 once in 512 draws.

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).
    Maddison, Mnih & Teh 2017, "The Concrete Distribution" (arXiv:1611.00712).
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gumdrop.functional.floats import finite_exp, widened
from gumdrop.functional.noise import is_traced, uniform_noise


def _check_temperature(temperature: float) -> None:
    if not temperature > 0:
        raise ValueError(
            f"`temperature` must be a positive number, got {temperature}; 0.1 is the usual choice, and hard "
            "masks (`hard=True`) are the limit of 0"
        )


def soft_keep(p_logit: Tensor, noise: Tensor, *, temperature: float = 0.1) -> Tensor:
    r"""Return a relaxed Bernoulli keep-mask of uniform noise, 1 keeps and 0 drops, differentiable in the drop logit.

    .. math:: z = \sigma\big((\operatorname{logit} u - \operatorname{logit} p) / t\big)

    As the temperature t goes to 0 it becomes the hard mask of the same noise, which keeps where u is at least p.

    Example:
        >>> soft_keep(torch.zeros(3), torch.tensor([0.2, 0.5, 0.8]), temperature=1.0)
        tensor([0.2000, 0.5000, 0.8000])
    """
    return torch.sigmoid(_keep_logit(p_logit, noise, temperature))


def _keep_logit(p_logit: Tensor, noise: Tensor, temperature: float) -> Tensor:
    _check_temperature(temperature)
    logit = widened(p_logit)
    return (finite_logit(noise).to(logit.dtype) - logit) / temperature


def finite_logit(probability: Tensor) -> Tensor:
    """Logit of what can be exactly 0 or 1, as a uniform draw in lower precision."""
    return torch.logit(probability, eps=torch.finfo(probability.dtype).eps / 2)


def inverse_keep(p_logit: Tensor) -> Tensor:
    """Scale of inverted dropout, 1 / (1 - p), which saturates at the largest finite number, so that 0 times it is 0."""
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

    Example:
        >>> dropout_scale(torch.zeros(3), torch.tensor([0.2, 0.6, 0.8]), hard=True)
        tensor([0., 2., 2.])
    """
    if hard:
        p_logit = p_logit.detach()
        p, full = torch.sigmoid(widened(p_logit)), inverse_keep(p_logit)
        if is_traced() or noise.dtype != full.dtype or not broadcasts_to(p.shape, noise.shape):
            return (noise >= p) * full
        return torch.ge(noise, p, out=torch.empty_like(noise)).mul_(full)  # a fifth of the time of the line above
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
    if not (broadcasts_to(noise.shape, x.shape) and broadcasts_to(p_logit.shape, x.shape)):
        raise ValueError(
            f"`noise` of shape {tuple(noise.shape)} and `p_logit` of shape {tuple(p_logit.shape)} must broadcast "
            f"to `x` of shape {tuple(x.shape)}; dimensions of size 1 share their mask"
        )
    if hard:
        return (x * dropout_scale(p_logit, noise, hard=True)).to(x.dtype)
    _check_temperature(temperature)
    return relaxed_dropout(x, p_logit, noise, temperature)


def relaxed_dropout(x: Tensor, p_logit: Tensor, noise: Tensor, temperature: float) -> Tensor:
    """Drop with a soft mask, as `concrete_dropout` does, without a look at the arguments."""
    if is_traced():  # a compiler fuses the formula better
        return (x * dropout_scale(p_logit, noise, temperature=temperature)).to(x.dtype)
    return _Relaxed.apply(x, widened(p_logit), noise, temperature)


class _Relaxed(torch.autograd.Function):
    r"""The product with a soft factor, in fewer passes over memory than the formula, with the gradient by hand.

    With the factor :math:`s = z / (1 - p)` and :math:`a` the logit of p,

    .. math:: \frac{\partial s}{\partial a} = s \, \Big(p - \frac{1 - z}{t}\Big), \qquad
              \frac{\partial L}{\partial a} = \sum y \, g \, \Big(p - \frac{1 - z}{t}\Big)

    which asks for the output :math:`y`, that the layer behind keeps anyway, and not for the input.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, p_logit: Tensor, noise: Tensor, temperature: float) -> Tensor:
        keep_logit = (finite_logit(noise).to(p_logit.dtype) - p_logit).div_(temperature)
        ctx.full = inverse_keep(p_logit)  # the factor of a unit that is kept
        scale = keep_logit.sigmoid_().mul_(ctx.full)
        y = torch.mul(x, scale, out=torch.empty_like(x))  # rounded to its dtype without a copy in between
        ctx.save_for_backward(y, p_logit, scale)
        ctx.temperature = temperature
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        y, p_logit, scale = ctx.saved_tensors
        t, full = ctx.temperature, ctx.full
        if torch.is_grad_enabled():  # this gradient is to have one, too, in which the factor follows the logit
            full = inverse_keep(p_logit)
            keep_logit = finite_logit(scale / ctx.full)
            scale = torch.sigmoid(keep_logit - (p_logit - p_logit.detach()) / t) * full
        grad_x = (g * scale).to(g.dtype) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return grad_x, None, None, None
        product = (widened(y) * g).sum_to_size(scale.shape)
        # Where nothing is dropped, the difference is 0 exactly.
        slope = torch.addcmul(torch.sigmoid(p_logit), scale - full, 1 / (t * full))
        return grad_x, (product * slope).sum_to_size(p_logit.shape), None, None


def broadcasts_to(shape: torch.Size, target: torch.Size) -> bool:
    """Tell whether a shape can be expanded to another; `torch.broadcast_shapes` would load a computer algebra first."""
    return len(shape) <= len(target) and all(a in (1, b) for a, b in zip(shape[::-1], target[::-1], strict=False))
