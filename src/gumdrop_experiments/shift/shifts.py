"""Images that are turned, blurred or noisy, step by step."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


def turned(images: Tensor, degrees: float) -> Tensor:
    """Turn images (N, 1, H, W) about their middle, counter-clockwise, with 0 where nothing is known."""
    angle = math.radians(degrees)
    rotation = torch.tensor([[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0]])
    grid = F.affine_grid(rotation.expand(len(images), 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def blurred(images: Tensor, sd: float) -> Tensor:
    """Blur images (N, 1, H, W) by a Gaussian with this standard deviation in pixels, with 0 around them."""
    radius = math.ceil(3 * sd)
    weights = torch.exp(-0.5 * (torch.arange(-radius, radius + 1) / sd).square())
    kernel = (weights / weights.sum())[None, None, :, None]
    return F.conv2d(F.conv2d(images, kernel, padding=(radius, 0)), kernel.mT, padding=(0, radius))


def noisy(images: Tensor, sd: float, *, seed: int = 0) -> Tensor:
    """Add Gaussian noise to each pixel, the same whatever its size, and cut off what leaves [0, 1]."""
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(seed))
    return (images + sd * noise).clamp(0, 1)


@dataclass(frozen=True)
class Shift:
    """A way to change images, and how far."""

    label: str
    """What figures call it, with the unit of its steps."""
    steps: tuple[float, ...]
    """How far images are changed, from little to much."""
    of: Callable[[Tensor, float], Tensor]
    """Changes images, shape (N, 1, H, W)."""


SHIFTS: dict[str, Shift] = {
    "turned": Shift("turned, degrees", (15.0, 30.0, 45.0, 60.0, 75.0), turned),
    "blurred": Shift("blurred, SD in pixels", (0.75, 1.5, 2.25, 3.0, 3.75), blurred),
    "noisy": Shift("noisy, SD of a pixel", (0.15, 0.3, 0.45, 0.6, 0.75), noisy),
}
"""All of them by name."""
