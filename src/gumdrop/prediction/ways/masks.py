"""Bernoulli masks of many draws at once, made on the CPU, where their noise is drawn."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gumdrop.functional.devices import fetched, sent
from gumdrop.functional.floats import logit_of
from gumdrop.functional.masks import inverse_keep
from gumdrop.layers import UNIT, ConcreteDropout

__all__ = ["Rate", "factors_of", "rates_of"]


class Rate(NamedTuple):
    """The rate of a site on the CPU, shape (1,), or (K,) with one for each unit."""

    p: Tensor
    inverse: Tensor
    """Inverse of the probability of keeping."""
    is_rare: bool
    """Whether 1 - p rounds to 1: a unit is dropped once in 2 ** 24 draws."""
    numbers: Sequence[float]
    """``p`` in numbers of Python."""

    def all_kept(self, num_units: int) -> float:
        """Give the probability that a draw keeps all units."""
        return math.prod(1 - p for p in self.numbers) ** (num_units / len(self.numbers))


def rates_of(sites: Sequence[ConcreteDropout]) -> dict[ConcreteDropout, Rate]:
    """Read the rates of all sites, and wait for their device once.

    Args:
        sites: Sites of a model; there may be none.

    Returns:
        Their rates, in their order.
    """
    if not sites:
        return {}
    logits = [site.scaled_logit.detach() for site in sites]
    logit = logit_of(fetched(logits), UNIT)
    p, inverse = torch.sigmoid(logit), inverse_keep(logit)
    sizes = [each.numel() for each in logits]
    parts = zip(sites, sizes, p.split(sizes), inverse.split(sizes), strict=True)
    numbers = iter(zip(p.tolist(), inverse.tolist(), strict=True))
    found = {}
    for site, size, rate, factor in parts:
        rates, factors = zip(*itertools.islice(numbers, size), strict=True)
        found[site] = Rate(rate, factor, max(factors) == 1, rates)
    return found


def factors_of(rate: Rate, noise: Tensor, device: torch.device) -> Tensor | None:
    """Turn noise into what a site multiplies its units by, as `gumdrop.functional.dropout_scale` does.

    Args:
        rate: The rate of the site.
        noise: Uniform noise on the CPU, one row for each draw, shape (S, K). Its memory is used.
        device: Where the factors are wanted.

    Returns:
        Shape (S, K); None where no draw changes anything.
    """
    if rate.is_rare and bool((noise >= rate.p).all()):
        return None
    return sent(noise.ge_(rate.p).mul_(rate.inverse), device)
