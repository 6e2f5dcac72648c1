"""Variants of an experiment, which are ways to set the rates, such as ``"fixed 0.2"`` and ``"learned"``."""

NO_DROPOUT = 1e-6
"""A rate for sites that are to drop nothing; 0 has no logit."""
START = 0.1
"""Where learned rates begin."""


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
