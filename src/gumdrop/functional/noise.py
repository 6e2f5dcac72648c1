"""Uniform noise, from which masks are made."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gumdrop.functional.devices import sent


def uniform_noise(
    shape: Sequence[int],
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return uniform draws from [0, 1) for a device, of torch's default generator if none is given.

    A generator of another device draws on its own, so that one seed gives the same masks on every device.

    Example:
        >>> noise = uniform_noise((3, 8), generator=torch.Generator().manual_seed(0))
        >>> noise.shape, bool(((noise > 0) & (noise < 1)).all())
        (torch.Size([3, 8]), True)
    """
    if generator is None:
        return torch.rand(shape, dtype=dtype, device=device)
    noise = torch.rand(shape, dtype=dtype, device=generator.device, generator=generator)
    return noise if device is None else sent(noise, device)


def default_generator(device: torch.device) -> torch.Generator | None:
    """Find what noise for a device is drawn by; None if its state cannot be read."""
    if device.type == "cuda" and not torch.cuda.is_current_stream_capturing():
        return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
    return torch.default_generator if device.type == "cpu" else None


def is_traced() -> bool:
    """Tell whether what runs is made into a graph, or transformed, by something that prefers the plain formula."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing() or torch._C._are_functorch_transforms_active()
