"""Uniform noise."""

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["uniform_noise"]


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
