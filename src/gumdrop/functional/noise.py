"""Uniform noise: from a generator, or much of it at once, cut out of words."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gumdrop.functional.devices import sent

__all__ = ["bulk_noise", "draw_cells", "is_cut_from_words", "is_traced", "uniform_noise"]

CELLS = 1 << 16
"""Number of values of a 16-bit integer."""
LEAST_OFFSET = 2**-25
"""Half of the smallest positive number that `torch.rand` gives: no noise is 0, which has no odds."""
LEAST_CUT = 1 << 14
"""Size of a mask from which on its noise is cut out of words."""


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

    Example:
        >>> noise = uniform_noise((3, 8), generator=torch.Generator().manual_seed(0))
        >>> noise.shape, bool(((noise > 0) & (noise < 1)).all())
        (torch.Size([3, 8]), True)
    """
    if generator is None:
        return torch.rand(shape, dtype=dtype, device=device)
    noise = torch.rand(shape, dtype=dtype, device=generator.device, generator=generator)
    return noise if device is None else sent(noise, device)


def is_traced() -> bool:
    """Tell whether what runs is made into a graph, or transformed, by something that prefers the plain formula."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing() or torch._C._are_functorch_transforms_active()


def draw_cells(shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Draw 16 bits for each number, and the place in a cell that all share: `bulk_noise` in two parts."""
    count = math.prod(shape)
    seed = int(torch.empty((), dtype=torch.int64).random_())  # from the default generator, so that its seed decides
    words = np.random.SFC64(seed).random_raw(-(-count // 4))
    return torch.from_numpy(words.view(np.uint16)[:count]).view(shape), torch.rand(()).clamp_(min=LEAST_OFFSET)


def _uniform(cells: Tensor, offset: Tensor) -> Tensor:
    return cells.float().add_(offset).mul_(1 / CELLS)  # can be 1 by rounding


def is_cut_from_words(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> bool:
    """Tell whether noise of a shape is so much that cutting it out of words is quicker."""
    plain = dtype != torch.float32 or device.type != "cpu" or is_traced()
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
    if is_cut_from_words(shape, dtype, device):
        return _uniform(*draw_cells(shape)).clamp_(max=1 - torch.finfo(dtype).eps / 2)
    return uniform_noise(shape, dtype=dtype, device=device)
