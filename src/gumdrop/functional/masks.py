"""Keep-masks and dropout with a learned rate: pure functions of tensors.

The drop probability is always given by its logit, ``p = sigmoid(p_logit)``. Nothing here forms
``log(p)`` or ``log(1 - p)`` from a rounded ``p``: values and gradients are finite for every finite
logit. All masks are computed in float32 (float64 where the logit is float64), also for half-precision
activations and under autocast, because bfloat16 noise is exactly 0 once in 512 draws.

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).
    Maddison, Mnih & Teh 2017, "The Concrete Distribution" (arXiv:1611.00712).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

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
    mask = relaxed_mask(p_logit, noise, temperature)
    return apply_mask(x, mask, mask.factor.shape)


class Mask(NamedTuple):
    """Factors of dropout, one for each unit that is dropped whole."""

    factor: Tensor
    """:math:`z / (1 - p)`, with a gradient where the rate is learned."""
    log: Tensor | None = None
    """Stands for the logarithm of the factor in gradients, and holds no numbers; None where the rate has none."""


class Columns(NamedTuple):
    """Logits of the columns of a table of masks."""

    positions: Tensor
    """Position of the logit of each column, shape (C,); ascending."""
    counts: Tensor
    """Number of columns of each logit."""


class Kept(NamedTuple):
    """Numbers of soft masks, by which they and their gradient are computed."""

    logit: Tensor
    """Logits of the rates; broadcasts to the factor."""
    full: Tensor
    """Factor of a unit that is kept, of the same shape."""
    factor: Tensor
    """Factors of all units."""

    @classmethod
    def of(cls, p_logit: Tensor, noise: Tensor, temperature: float, columns: Columns | None = None) -> "Kept":
        """Compute `dropout_scale` of a soft mask in few passes over memory, without a gradient."""
        logit = widened(p_logit.detach())
        logit = logit if columns is None else logit[columns.positions]
        full = inverse_keep(logit)
        keep_logit = (finite_logit(noise).to(logit.dtype) - logit).div_(temperature)
        return cls(logit, full, keep_logit.sigmoid_().mul_(full))


def relaxed_mask(p_logit: Tensor, noise: Tensor, temperature: float) -> Mask:
    """Make the soft mask of some noise, whose gradient is written by hand outside of graphs and transforms."""
    _check_temperature(temperature)
    if is_traced():  # a compiler fuses the formula better
        return Mask(dropout_scale(p_logit, noise, temperature=temperature))
    return attach_mask(p_logit, Kept.of(p_logit, noise, temperature), temperature)


def attach_mask(p_logit: Tensor, kept: Kept, temperature: float, columns: Columns | None = None) -> Mask:
    """Let soft factors depend on their logits in gradients."""
    if not (torch.is_grad_enabled() and p_logit.requires_grad):
        return Mask(kept.factor)
    return Mask(*_Relaxed.apply(widened(p_logit), kept, temperature, columns))


def apply_mask(x: Tensor, mask: Mask, shape: Sequence[int]) -> Tensor:
    """Multiply by the factors of a mask, viewed in a shape that broadcasts to ``x``; keep the dtype."""
    # Where positions share a mask, its gradient goes through the logarithm, which asks for the output; elsewhere
    # PyTorch's own product has no more to keep, and is quicker.
    factor, log = mask
    if not is_traced() and factor.shape == x.shape and factor.dtype == x.dtype:  # an export would fix the rows by it
        return x * factor
    if log is None:
        return (x * factor.view(shape)).to(x.dtype)
    return _Product.apply(x, factor, log, shape)


class _Relaxed(torch.autograd.Function):
    r"""The gradient of soft factors, by hand: for all masks of a table it is a dozen operations, whatever their number.

    With the factor :math:`s = z / (1 - p)` and :math:`a` the logit of p,

    .. math:: \frac{\partial \log s}{\partial a} = p - \frac{1 - z}{t}, \qquad
              \frac{\partial L}{\partial a} = \sum \Big(s \frac{\partial L}{\partial s} +
              \frac{\partial L}{\partial \log s}\Big) \Big(p - \frac{1 - z}{t}\Big)

    The results are the factors, and what stands for their logarithms. Nothing is kept by ``save_for_backward``, so that
    several parts of a pass may be differentiated one after the other, as gradient checkpointing does.
    """

    @staticmethod
    def forward(
        ctx: Any, p_logits: Tensor, kept: Kept, temperature: float, columns: Columns | None
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.p_logits, ctx.kept, ctx.temperature, ctx.columns = p_logits, kept, temperature, columns
        factor = kept.factor
        return factor.view_as(factor), factor.new_zeros(()).expand_as(factor)

    @staticmethod
    def backward(ctx: Any, by_factor: Tensor | None, by_log: Tensor | None) -> tuple[Tensor | None, ...]:
        t, columns, kept = ctx.temperature, ctx.columns, ctx.kept
        if torch.is_grad_enabled():  # this gradient is to have one, too, in which the factor follows the logit
            logit = ctx.p_logits if columns is None else ctx.p_logits[columns.positions]
            keep_logit = finite_logit(kept.factor / kept.full) - (logit - logit.detach()) / t
            full = inverse_keep(logit)
            kept = Kept(logit, full, torch.sigmoid(keep_logit) * full)
        pulls = [by_log] if by_log is not None else []
        pulls += [by_factor * kept.factor] if by_factor is not None else []
        if not pulls:
            return None, None, None, None
        pull = pulls[0] if len(pulls) == 1 else torch.add(*pulls)
        p = torch.sigmoid(kept.logit)
        dropped = torch.addcdiv(p.new_full((), -1), kept.factor, kept.full)  # z - 1, which is 0 exactly where z is 1
        if columns is None:
            return (pull * torch.add(p, dropped, alpha=1 / t)).sum_to_size(ctx.p_logits.shape), None, None, None
        by_column = torch.add(p * pull.sum(0), torch.linalg.vecdot(pull, dropped, dim=0), alpha=1 / t)
        return _sum_by(columns, by_column), None, None, None


def _sum_by(columns: Columns, values: Tensor) -> Tensor:
    """Sum the values of all columns by their logit, in the same order each time on a GPU, too."""
    if values.device.type in ("cpu", "cuda") and not values.requires_grad:
        return torch.segment_reduce(values, "sum", lengths=columns.counts, unsafe=True)
    return values.new_zeros(len(columns.counts)).index_add(0, columns.positions, values)


class _Product(torch.autograd.Function):
    r"""The product with factors that positions share, or of another dtype, in few passes over memory.

    .. math:: \frac{\partial L}{\partial \log s} = \sum_\text{positions} y \, \frac{\partial L}{\partial y}

    asks for the output :math:`y`, which the layer behind keeps anyway, and not for the input.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor, log: Tensor, shape: Sequence[int]) -> Tensor:
        y = torch.mul(x, factor.view(shape), out=torch.empty_like(x))  # rounded to its dtype without a copy in between
        ctx.save_for_backward(y, factor)
        ctx.shape = shape
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        y, factor = ctx.saved_tensors
        grad_x = grad_log = None
        if ctx.needs_input_grad[0]:
            wide = factor.view(ctx.shape)
            is_plain = g.dtype == factor.dtype or torch.is_grad_enabled()
            grad_x = (g * wide).to(g.dtype) if is_plain else torch.mul(g, wide, out=torch.empty_like(g))
        if ctx.needs_input_grad[2]:
            shape = (*[1] * (y.ndim - len(ctx.shape)), *ctx.shape)
            shared = [i for i, (one, size) in enumerate(zip(shape, y.shape, strict=True)) if one == 1 != size]
            product = (widened(y) if y.dtype == torch.float16 else y) * g  # float16 would overflow
            grad_log = product.sum(shared, dtype=factor.dtype) if shared else product.to(factor.dtype)
            grad_log = grad_log.reshape(factor.shape)
        return grad_x, None, grad_log, None


def broadcasts_to(shape: torch.Size, target: torch.Size) -> bool:
    """Tell whether a shape can be expanded to another; `torch.broadcast_shapes` would load a computer algebra first."""
    return len(shape) <= len(target) and all(a in (1, b) for a, b in zip(shape[::-1], target[::-1], strict=False))
