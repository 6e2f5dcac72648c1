"""Variants of an experiment, which are ways to set the rates, such as ``"fixed 0.2"`` and ``"learned"``, and priors."""

import math
from typing import NamedTuple

NO_DROPOUT = 1e-6
"""A rate for sites that are to drop nothing; 0 has no logit."""
START = 0.1
"""Where learned rates begin."""


class Prior(NamedTuple):
    """What the objective of the library has in the place of two regularisers."""

    lengthscale: float
    """``l`` of the prior N(0, 1/l^2) on each weight."""
    strength: float
    """What the entropy of the masks counts, see `gumdrop.networks.set_strength`; 1 is the ELBO's."""


def rate_of(variant: str) -> float:
    """Find the rate, above 0, that the sites of a variant begin with.

    Example:
        >>> rate_of("fixed 0.3"), rate_of("learned, aleatoric head"), rate_of("learned from 0.05")
        (0.3, 0.1, 0.05)
    """
    if variant == "none":
        return NO_DROPOUT
    if variant.startswith("fixed "):
        return max(float(variant.removeprefix("fixed ")), NO_DROPOUT)
    if variant.startswith("learned"):
        start = variant.partition(" from ")[2]
        return float(start) if start else START
    raise ValueError(f"`variant` must be none, fixed with a number, or begin with learned, got {variant!r}")


def part_name(*words: object) -> str:
    """Name the part of a run that computes a variant, by it, its seed, and what else tells parts apart.

    Example:
        >>> part_name("learned, aleatoric head", 0)
        'learned+aleatoric-head-0'
    """
    return "-".join(str(word).replace(", ", "+").replace(" ", "-") for word in words)


def prior_of(regularisers: tuple[float, float], *, num_data: int, scale: float = 1.0) -> Prior:
    """Say what two regularisers amount to, by the table of docs/method.md.

    A published loss is ``scale NLL + weight sum(W^2)/(1-p) - dropout K H(p)``, with the NLL in nats per datum; the
    objective here is ``NLL + l^2/(2N) sum(W^2)/(1-p) - strength/N K H(p)``. The scale is 1 where the NLL is exact, 2
    for ``exp(-s) (y-f)^2 + s``.

    Example:
        >>> prior_of((1e-6, 2e-5), num_data=5000)
        Prior(lengthscale=0.1, strength=0.1)
        >>> prior_of((1e-2, 1e2), num_data=450, scale=2).strength
        22500.0
    """
    weight, dropout = regularisers
    return Prior(math.sqrt(2 * num_data * weight / scale), num_data * dropout / scale)
