"""Pictures that are no ordinary digits: one that is turned, and those that are out of distribution."""

from pathlib import Path

import numpy as np
import torch
from scipy.ndimage import rotate
from torch import Tensor

from gumdrop_experiments.data.mnist import read_mnist


def rotated(picture: Tensor, angles: tuple[int, ...]) -> Tensor:
    """Turn a picture (1, H, W) about its middle, counter-clockwise, by each of the angles in degrees."""
    turned = [rotate(picture[0].numpy(), angle, reshape=False, order=1) for angle in angles]
    return torch.from_numpy(np.stack(turned)).clamp(0, 1).unsqueeze(1)


def no_digits(digits: Tensor, *, seed: int = 0) -> dict[str, Tensor]:
    """Make pictures that are no digits out of digits (N, 1, H, W)."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(digits[0].numel(), generator=generator)
    middle = digits.shape[-1] // 2
    halves = torch.cat([digits[..., :middle], digits.roll(1, 0)[..., middle:]], dim=-1)
    return {
        "shuffled pixels": digits.flatten(1)[:, order].view_as(digits),
        "two halves": halves,
        "negative": 1 - digits,
    }


def others(folder: Path, count: int) -> Tensor:
    """Read the first test images of another data set, (count, 1, 28, 28)."""
    images = read_mnist(folder, train=False).images[:count]
    if images.shape[1:] != (1, 28, 28):
        raise ValueError(f"the pictures in {folder} must be of 28 x 28 pixels, got {tuple(images.shape[2:])}")
    return images
