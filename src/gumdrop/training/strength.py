"""How strong dropout is to be: the ELBO weighs the layers' rates, and held-out rows say how far all of them go."""

from collections.abc import Mapping

import torch
from torch import Tensor

__all__ = ["STRENGTHS", "choose_strength", "mean_score"]

STRENGTHS = (0.25, 1.0, 4.0)
"""Strengths that held-out rows choose from: the ELBO, and a factor of four on both sides of it."""


def choose_strength(scores: Mapping[float, Tensor], weights: Tensor | None = None) -> float:
    """Choose the strength with the best held-out scores, or 1 where the gain on it may be chance.

    Args:
        scores: For each strength the held-out log likelihood of each row, shape (N,); NaN for rows that have none.
        weights: Weight of each row; 1 if None.

    Returns:
        The best strength; 1, if it is one of them and not worse by more than one standard error. The first where no
        row has a score.

    Example:
        >>> rows = torch.zeros(100)
        >>> choose_strength({1.0: rows, 3.0: rows + 0.1})
        3.0
    """
    means = {strength: mean_score(each, weights) for strength, each in scores.items()}
    if any(mean != mean for mean in means.values()):  # NaN
        return 1.0 if 1.0 in scores else next(iter(scores))
    best = max(means, key=lambda strength: means[strength])
    if 1.0 not in scores:
        return best
    gains = scores[best] - scores[1.0]
    spread = mean_score((gains - mean_score(gains, weights)).square(), weights)
    return best if means[best] - means[1.0] > (spread / gains.isfinite().sum().item()) ** 0.5 else 1.0


def mean_score(scores: Tensor, weights: Tensor | None = None) -> float:
    """Average the scores of the rows that have one.

    Args:
        scores: Shape (N,); NaN for rows that have none.
        weights: Weight of each row; 1 if None.

    Returns:
        The mean; NaN if no row has a score.
    """
    known = ~scores.isnan()
    counts = torch.ones(len(scores)) if weights is None else weights.cpu()
    counts = counts[known].double()
    return float((counts * scores[known].double()).sum() / counts.sum())
