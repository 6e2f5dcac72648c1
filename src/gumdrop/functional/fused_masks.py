r"""Dropout with a learned rate as one operation: fresh noise, one pass forward, one backward.

`gumdrop.functional.concrete_dropout` is the readable formula, and what is compiled, exported and transformed. Eager
training goes through here. Three things make it cheaper, each measured by ``benchmarks/sites.py``:

- The gradient is written by hand. With :math:`s = z / (1 - p)`, the factor on a unit, and :math:`a` the logit of p,

  .. math:: \frac{\partial s}{\partial a} = s \, \Big(p - \frac{1 - z}{t}\Big), \qquad
            \frac{\partial L}{\partial a} = \sum y \, g \, \Big(p - \frac{1 - z}{t}\Big)

  which asks for the output :math:`y`, that the layer behind keeps anyway, and not for the input.
- Uniform noise is cut out of 64-bit words, 16 bits a number: :math:`u = (k + v) / 2^{16}` with an integer ``k`` for
  each number and one ``v``, uniform in [0, 1), for all of a call. Each ``u`` alone is uniform without gaps, so that
  the mean of a mask is right for every rate, however small; two numbers of one call depend on each other within a
  cell of :math:`2^{-16}` only.
- Many factors are computed from such noise without logarithms: see `_scale_of_cells`.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumdrop.functional.floats import finite_exp, logit_of, widened
from gumdrop.functional.masks import concrete_dropout, inverse_keep
from gumdrop.functional.noise import CELLS, draw_cells, is_cut_from_words, is_traced, uniform_noise
from gumdrop.functional.planes import gradients, planes_of, times

__all__ = ["LARGEST_LOGIT", "Mask", "power", "relaxed_dropout"]

LEAST_KEPT_AS_CELLS = 1 << 20
"""Size of a mask from which on its noise is kept for the backward pass, two bytes a number, and not its factors."""
LARGEST_PRODUCT = 64
"""Exponent up to which a power is a product."""
LARGEST_LOGIT = math.log(torch.finfo(torch.float32).max) - 1e-4
"""Logit from which on 1 / (1 - p) saturates, as in `gumdrop.functional.inverse_keep`."""
LARGEST_ODDS = 1e30
"""Odds of p above which every unit with noise of its own is dropped; times `CELLS` it is finite."""
LEAST_CHUNKED = 1 << 20
"""Size of activations from which on they are worked on in chunks."""
CHUNK = 1 << 17
"""Numbers that a thread works on at a time, so that what lies between two operations stays in its cache."""


class Mask(NamedTuple):
    """A relaxed mask: its noise where code is traced, else its factors, or cells of noise that give them."""

    values: Tensor
    offset: Tensor | None = None
    """Of cells; None for factors and noise."""


Once = Callable[[str, Callable[[], Mask]], Mask]


def _afresh(kind: str, draw: Callable[[], Mask]) -> Mask:
    return draw()


class _Rate(NamedTuple):
    """A rate in the forms in which it enters: numbers where there is one, on the CPU, since they cost nothing."""

    logit: Any
    p: Any
    full: Any
    """1 / (1 - p), the factor on what is kept."""
    odds: Any
    """p / (1 - p)."""

    @classmethod
    def of(cls, p_logit: Tensor, unit: float) -> "_Rate":
        if p_logit.ndim or p_logit.device.type != "cpu":
            logit = logit_of(p_logit, unit)
            return cls(logit, torch.sigmoid(logit), inverse_keep(logit), finite_exp(logit))
        number = p_logit.item() * unit
        odds = math.exp(min(number, LARGEST_LOGIT))
        return cls(number, odds / (1 + odds), 1 + odds, odds)


def _scale(rate: _Rate, noise: Tensor, temperature: float) -> Tensor:
    """Compute what `gumdrop.functional.dropout_scale` does, in fewer passes; the same unless 1 / (1 - p) overflows."""
    keep = torch.logit(noise, eps=torch.finfo(noise.dtype).eps / 2)
    return keep.sub_(rate.logit).div_(temperature).sigmoid_().mul_(rate.full)


def _scale_of_cells(rate: _Rate, cells: Tensor, offset: Tensor, temperature: float) -> Tensor:
    r"""Compute the same for noise cut out of words, in more operations, which take less time on many numbers.

    The odds of p over those of u, :math:`r = \frac{p}{1-p} \frac{1-u}{u}`, give the mask as
    :math:`z = 1 / (1 + r^{1/t})`: no logarithm, and for the usual temperatures no exponential.

    Args:
        rate: The rate.
        cells: Integers ``k`` of the noise.
        offset: Its ``v``.
        temperature: Of the mask.

    Returns:
        The factors.
    """
    place = cells.float().add_(offset)
    if isinstance(rate.odds, Tensor):
        ratio = torch.rsub(place, CELLS).mul_(rate.odds)
    else:  # one pass less
        odds = min(rate.odds, LARGEST_ODDS)
        ratio = torch.rsub(place, CELLS * odds, alpha=odds)
    risen = power(ratio.div_(place), 1 / temperature, spare=place).add_(1)
    return torch.div(torch.as_tensor(rate.full, dtype=risen.dtype), risen, out=risen)  # full exactly, where kept


def _scale_in_parts(rate: _Rate, cells: Tensor, offset: Tensor, temperature: float) -> Tensor:
    """Compute the same for one rate, in parts that stay in the cache."""
    result = torch.empty(cells.shape)
    for part, some in zip(result.view(-1).split(CHUNK), cells.view(-1).split(CHUNK), strict=True):
        part.copy_(_scale_of_cells(rate, some, offset, temperature))
    return result


def power(base: Tensor, exponent: float, spare: Tensor) -> Tensor:
    """Raise to a positive power, by products for small whole numbers.

    Args:
        base: Numbers of at least 0, which are lost.
        exponent: The power.
        spare: Memory like that of ``base``, which is lost too.

    Returns:
        The powers, in the memory of ``base`` or of ``spare``.
    """
    if not exponent.is_integer() or exponent > LARGEST_PRODUCT:
        return base.pow_(exponent)
    left = int(exponent)
    while left % 2 == 0:
        base, left = base.square_(), left // 2
    if left == 1:
        return base
    result, base = base, torch.square(base, out=spare)
    while left := left // 2:
        if left % 2:
            result.mul_(base)
        if left > 1:
            base.square_()
    return result


def _factors_of(rate: _Rate, offset: Tensor | None, temperature: float) -> Callable[[Tensor], Tensor]:
    """Give what turns a part of a mask into factors: a mask of factors into itself, or one of cells."""
    if offset is None:
        return lambda scale: scale
    return lambda cells: _scale_of_cells(rate, cells, offset, temperature)


def _chunks(mask: Tensor, *tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Split large tensors of one shape, with their mask in front, into rows that stay in the cache."""
    first = tensors[0]
    if first.numel() < LEAST_CHUNKED or first.device.type != "cpu":
        return [(mask, *tensors)]
    rows = max(1, CHUNK * torch.get_num_threads() * len(first) // first.numel())
    masks = itertools.repeat(mask) if len(mask) == 1 else mask.split(rows)
    return zip(masks, *(each.split(rows) for each in tensors), strict=False)


def _times(x: Tensor, scale: Tensor) -> Tensor:
    """Multiply, and round to the dtype of ``x`` without a copy in between."""
    return x * scale if x.dtype == scale.dtype else torch.mul(x, scale, out=torch.empty_like(x))


def _rate_gradient(
    product: Tensor, scale: Tensor, rate: _Rate, temperature: float, shape: torch.Size, unit: float
) -> Tensor:
    """Sum ``y g (p - (1 - z) / t)`` over all units that share a rate, over ``unit``; ``product`` is ``y g``."""
    if product.shape != scale.shape:
        product = product.sum_to_size(scale.shape)
    # Where nothing is dropped, this is 0 exactly, and the slope p: there the factor has the value that is taken off.
    lost = scale - rate.full
    steepness = 1 / (temperature * unit * rate.full)
    if shape:
        return (product * lost.mul_(steepness).add_(rate.p, alpha=1 / unit)).sum_to_size(shape)
    return steepness * torch.dot(product.view(-1), lost.view(-1)) + product.sum() * (rate.p / unit)


class _Product(torch.autograd.Function):
    """``x`` times a mask, given by its factors or by cells of noise; its gradient goes on to the logit of the rate."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, p_logit: Tensor, mask_shape: Sequence[int], once: Once, temperature: float, unit: float
    ) -> Tensor:
        rate = _Rate.of(p_logit, unit)
        mask, offset = once("factors", lambda: _drawn_mask(x, p_logit, rate, mask_shape, temperature))
        if mask.ndim != x.ndim:
            mask = mask.view(mask_shape)
        planes = planes_of(x, mask_shape) if offset is None and mask.dtype == torch.float32 else None
        if planes is not None:
            y = times(x, mask, planes)
        elif offset is None:
            y = _times(x, mask)
        else:
            y = torch.empty_like(x)
            factors = _factors_of(rate, offset, temperature)
            for part, x_part, y_part in _chunks(mask, x, y):
                torch.mul(x_part, factors(part), out=y_part)
        ctx.save_for_backward(y, p_logit, mask, offset)
        ctx.rate, ctx.temperature, ctx.unit, ctx.planes = rate, temperature, unit, planes
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        y, p_logit, mask, offset = ctx.saved_tensors
        rate, t, unit = ctx.rate, ctx.temperature, ctx.unit
        factors = _factors_of(rate, offset, t)
        if torch.is_grad_enabled():  # this gradient is to have one, too
            return *_with_gradient(p_logit, factors(mask), y, g, t, unit), None, None, None, None
        if ctx.planes is not None:
            grad_x, product = gradients(g, y, mask, ctx.planes, ctx.needs_input_grad[:2])
            summed = None if product is None else _rate_gradient(product, mask, rate, t, p_logit.shape, unit)
            return grad_x, None if summed is None else summed.to(p_logit.dtype), None, None, None, None
        grad_x = torch.empty_like(g)
        sums = []
        for part, y_part, g_part, x_part in _chunks(mask, y, g, grad_x):
            scale = factors(part)
            if ctx.needs_input_grad[1]:
                # The other gradient's memory serves first, because new memory costs more than the numbers in it.
                serves = x_part.dtype == scale.dtype
                product = torch.mul(y_part, g_part, out=x_part) if serves else widened(y_part) * g_part
                sums.append(_rate_gradient(product, scale, rate, t, p_logit.shape, unit))
            if ctx.needs_input_grad[0]:
                torch.mul(g_part, scale, out=x_part)
        grad_logit = sum(sums[1:], start=sums[0]).to(p_logit.dtype) if sums else None
        return grad_x if ctx.needs_input_grad[0] else None, grad_logit, None, None, None, None


def _with_gradient(
    p_logit: Tensor, scale: Tensor, y: Tensor, g: Tensor, temperature: float, unit: float
) -> tuple[Tensor, Tensor]:
    """Compute the two gradients of a product by operations that have gradients themselves."""
    logit = logit_of(p_logit, unit)
    rate = _Rate(logit, torch.sigmoid(logit), inverse_keep(logit), finite_exp(logit))
    given = Mask(scale.detach())
    scale = _Product.apply(torch.ones_like(scale), p_logit, scale.shape, lambda *_: given, temperature, unit)
    grad_logit = _rate_gradient(widened(y) * g, scale, rate, temperature, p_logit.shape, unit)
    return (g * scale).to(g.dtype), grad_logit.to(p_logit.dtype)


def _drawn_mask(x: Tensor, p_logit: Tensor, rate: _Rate, mask_shape: Sequence[int], temperature: float) -> Mask:
    dtype = widened(p_logit).dtype
    if not is_cut_from_words(mask_shape, dtype, x.device):
        return Mask(_scale(rate, uniform_noise(mask_shape, dtype=dtype, device=x.device), temperature))
    cells, offset = draw_cells(mask_shape)
    if (x.dtype.itemsize <= 2 and cells.numel() == x.numel()) or cells.numel() >= LEAST_KEPT_AS_CELLS:
        return Mask(cells, offset)
    of_cells = _scale_of_cells if p_logit.ndim or cells.numel() <= CHUNK else _scale_in_parts
    return Mask(of_cells(rate, cells, offset, temperature))  # to compute factors twice would cost more


def relaxed_dropout(
    x: Tensor,
    p_logit: Tensor,
    mask_shape: Sequence[int],
    *,
    temperature: float,
    once: Once = _afresh,
    unit: float = 1.0,
) -> Tensor:
    """Drop with a relaxed mask of fresh noise, as `gumdrop.functional.concrete_dropout` does.

    Args:
        x: Activations, of any floating dtype.
        p_logit: Logit of the drop probability; broadcasts to ``mask_shape``.
        mask_shape: As many dimensions as ``x`` has; those of size 1 share their mask.
        temperature: Temperature of the mask.
        once: Takes the kind of mask and the function that draws it; calls this, or gives a mask that it has drawn
            before, of the same kind.
        unit: What ``p_logit`` is measured in, see `gumdrop.functional.logit_of`.

    Returns:
        Tensor of the shape and dtype of ``x``. The gradient of the rate is summed in float32 or float64.
    """
    if is_traced():
        dtype = torch.promote_types(p_logit.dtype, torch.float32)
        noise = once("noise", lambda: Mask(uniform_noise(mask_shape, dtype=dtype, device=x.device))).values
        return concrete_dropout(x, logit_of(p_logit, unit), noise=noise.view(mask_shape), temperature=temperature)
    return _Product.apply(x, p_logit, mask_shape, once, temperature, unit)
