"""Bernoulli masks of many draws at once, made on the CPU, where their noise is drawn."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gumdrop.functional.devices import fetched, sent
from gumdrop.functional.floats import logit_of
from gumdrop.functional.masks import inverse_keep
from gumdrop.layers import UNIT, ConcreteDropout

__all__ = ["Rate", "distinct_draws", "factors_of", "rates_of"]


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


def factors_of(
    rates: Mapping[ConcreteDropout, Rate], noise_of: Callable[[ConcreteDropout], Tensor], *, equal_once: bool
) -> tuple[dict[int, Tensor | None], list[int] | None]:
    """Draw what sites multiply their units by, as `gumdrop.functional.dropout_scale` does.

    Args:
        rates: The sites with their rates.
        noise_of: Gives a site's uniform noise on the CPU, one row for each draw, shape (S, K). Its memory is used.
        equal_once: Leave out draws that are equal to others, see `distinct_draws`.

    Returns:
        By the identity of each site the factors of R draws, shape (R, K), where its units are; None where no draw
        changes anything. And for each of the S draws its place among the R; None if they are all of them.
    """
    keeps, places = {site: noise_of(site).ge_(rate.p) for site, rate in rates.items()}, None
    if equal_once:
        draws, places = distinct_draws(list(keeps.values()))
        keeps = {site: each[draws] for site, each in keeps.items()}
    factors: dict[int, Tensor | None] = {}
    for site, each in keeps.items():
        changes = not (rates[site].is_rare and bool(each.all()))
        factors[id(site)] = sent(each.mul_(rates[site].inverse), site.scaled_logit.device) if changes else None
    return factors, places


def distinct_draws(keeps: Sequence[Tensor]) -> tuple[list[int], list[int]]:
    """Find the draws that keep all units of all sites: they are one function.

    Args:
        keeps: The masks of each site, 1 for units that are kept and 0 for others, shape (S, K).

    Returns:
        Numbers of all other draws and of the first of these, ascending; and for each draw its place among them.

    Example:
        >>> distinct_draws([torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0]])])
        ([0, 1, 2], [0, 1, 2, 1])
    """
    draws: list[int] = []
    places: list[int] = []
    place_of_all: int | None = None
    for draw, keeps_all in enumerate(torch.cat(list(keeps), dim=1).amin(1).tolist()):
        if keeps_all and place_of_all is not None:
            places.append(place_of_all)
            continue
        if keeps_all:
            place_of_all = len(draws)
        places.append(len(draws))
        draws.append(draw)
    return draws, places
