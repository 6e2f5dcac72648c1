"""The digits to ask about, those that say when training is to stop, and those to test on."""

from typing import NamedTuple

import torch
from torch import Tensor

from gumdrop_experiments.data.mnist import DigitImages

MEAN, STD = 0.1307, 0.3081
"""Of the pixels of MNIST; the source standardises by them."""
REPEATS, NOISE = 3, 0.1
HELD_OUT = 1024
FIRST_OF_EACH = 2


class Digits(NamedTuple):
    """What a run asks about and is judged by."""

    pool: DigitImages
    """Digits to ask about."""
    held_out: DigitImages
    """Digits that say when training is to stop."""
    test: DigitImages
    """Digits to test on."""


def pool_of(name: str, train: DigitImages, test: DigitImages, *, seed: int) -> Digits:
    """Lay out a pool."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(train.labels), generator=generator)
    count = min(HELD_OUT, len(order) // 10)
    held_out, pool = (_standardised(train.rows(rows)) for rows in (order[:count], order[count:]))
    if name == "repeated":
        images = torch.randn(REPEATS, *pool.images.shape, generator=generator).mul_(NOISE).add_(pool.images)
        pool = DigitImages(images.flatten(0, 1), pool.labels.repeat(REPEATS))
    return Digits(pool, held_out, _standardised(test))


def first_labels(labels: Tensor, seed: int) -> list[int]:
    """Draw two digits of each class; give their places in the pool."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    return [int(row) for digit in range(10) for row in order[labels[order] == digit][:FIRST_OF_EACH]]


def _standardised(digits: DigitImages) -> DigitImages:
    return digits._replace(images=(digits.images - MEAN) / STD)
