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
- A large mask with one rate has at most :math:`2^{16}` different values: they are computed once and looked up.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gumdrop.functional import concrete_dropout, inverse_keep, uniform_noise, widened

__all__ = ["bulk_noise", "relaxed_dropout"]

CELLS = 1 << 16
"""Number of values of a 16-bit integer."""
LEAST_CUT = 1 << 14
"""Size of a mask from which on its noise is cut out of words."""
LEAST_LOOKED_UP = 1 << 17
"""Size of a mask from which on its values are looked up."""
CHUNK = 1 << 16
"""Numbers that a thread works on at a time, so that what lies between two operations stays in its cache."""


def _is_traced() -> bool:
    """Tell whether what runs is made into a graph, or transformed, by something that prefers the plain formula."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing() or torch._C._are_functorch_transforms_active()


def _draw_cells(shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    count = math.prod(shape)
    words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    return words.view(torch.uint16)[:count].view(shape), torch.rand(())


def _uniform(cells: Tensor, offset: Tensor) -> Tensor:
    return cells.float().add_(offset).mul_(1 / CELLS).clamp_(max=1 - torch.finfo(torch.float32).eps / 2)


def _cuts(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> bool:
    plain = dtype != torch.float32 or device.type != "cpu" or _is_traced()
    return not plain and math.prod(shape) >= LEAST_CUT


def bulk_noise(shape: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Draw uniform noise from torch's default generator, quickly where there is much of it.

    Args:
        shape: Shape of the noise.
        dtype: float32 or float64.
        device: Where the noise is wanted; it is cut out of words on the CPU only.

    Returns:
        Uniform draws from [0, 1).
    """
    if _cuts(shape, dtype, device):
        return _uniform(*_draw_cells(shape))
    return uniform_noise(shape, dtype=dtype, device=device)


def _scale(p_logit: Tensor, noise: Tensor, temperature: float) -> Tensor:
    """Compute what `gumdrop.functional.dropout_scale` does, in fewer passes; the same unless 1 / (1 - p) overflows."""
    keep = torch.logit(noise, eps=torch.finfo(noise.dtype).eps / 2)
    return keep.sub_(p_logit).div_(temperature).sigmoid_().mul_(inverse_keep(p_logit))


def _scale_of_cells(p_logit: Tensor, cells: Tensor, offset: Tensor, temperature: float) -> Tensor:
    if p_logit.ndim or cells.numel() < LEAST_LOOKED_UP:
        return _scale(p_logit, _uniform(cells, offset), temperature)
    table = _scale(p_logit, _uniform(torch.arange(CELLS), offset), temperature)
    result = torch.empty(cells.shape)
    for part, index in zip(result.view(-1).split(CHUNK), cells.view(-1).split(CHUNK), strict=True):
        torch.index_select(table, 0, index.int(), out=part)
    return result


class _Product(torch.autograd.Function):
    """``x`` times a mask, given by its factors or by cells of noise; its gradient goes on to the logit of the rate."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p_logit: Tensor, mask: Tensor, offset: Tensor | None, t: float) -> Tensor:
        ctx.temperature = t
        scale = mask if offset is None else _scale_of_cells(widened(p_logit), mask, offset, t)
        y = torch.mul(x, scale, out=torch.empty_like(x))  # rounded to the dtype of x on the way
        ctx.save_for_backward(y, p_logit, mask, offset)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        y, p_logit, scale, offset = ctx.saved_tensors
        if offset is not None:
            scale = _scale_of_cells(widened(p_logit), scale, offset, ctx.temperature)
        twice = torch.is_grad_enabled()  # then these formulas get a gradient of their own
        if twice:
            scale = _Product.apply(torch.ones_like(scale), p_logit, scale, None, ctx.temperature)
        grad_x = (g * scale).to(g.dtype) if ctx.needs_input_grad[0] else None
        grad_logit = None
        if ctx.needs_input_grad[1]:
            parts = [(y, g, scale)] if twice or g.device.type != "cpu" else _in_chunks(y, g, scale)
            logit = widened(p_logit)
            full, p = inverse_keep(logit), torch.sigmoid(logit)
            total = torch.zeros_like(logit)
            for y, g, scale in parts:
                slope = (scale / full - 1) / ctx.temperature + p
                total = total + ((widened(y) * g).sum_to_size(slope.shape) * slope).sum_to_size(logit.shape)
            grad_logit = total.to(p_logit.dtype)
        return grad_x, grad_logit, None, None, None


def _in_chunks(y: Tensor, g: Tensor, scale: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Split into rows of dimension 0 that stay in the cache."""
    rows = max(1, torch.get_num_threads() * CHUNK * len(y) // max(1, y.numel()))
    scales = itertools.repeat(scale) if len(scale) == 1 else scale.split(rows)
    return zip(y.split(rows), g.split(rows), scales, strict=False)


def relaxed_dropout(x: Tensor, p_logit: Tensor, mask_shape: Sequence[int], *, temperature: float) -> Tensor:
    """Drop with a relaxed mask of fresh noise, as `gumdrop.functional.concrete_dropout` does.

    Args:
        x: Activations, of any floating dtype.
        p_logit: Logit of the drop probability; broadcasts to ``mask_shape``.
        mask_shape: As many dimensions as ``x`` has; those of size 1 share their mask.
        temperature: Temperature of the mask.

    Returns:
        Tensor of the shape and dtype of ``x``. The gradient of the rate is summed in float32 or float64.
    """
    dtype = torch.promote_types(p_logit.dtype, torch.float32)
    if _is_traced():
        noise = uniform_noise(mask_shape, dtype=dtype, device=x.device)
        return concrete_dropout(x, p_logit, noise=noise, temperature=temperature)
    with torch.no_grad():
        logit, offset = widened(p_logit), None
        if not _cuts(mask_shape, dtype, x.device):
            mask = _scale(logit, uniform_noise(mask_shape, dtype=dtype, device=x.device), temperature)
        else:
            mask, offset = _draw_cells(mask_shape)
            if x.dtype.itemsize > 2:  # else cells, with two bytes for each number of x, are kept for the gradient
                mask, offset = _scale_of_cells(logit, mask, offset, temperature), None
    return _Product.apply(x, p_logit, mask, offset, temperature)
