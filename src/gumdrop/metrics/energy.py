"""Score of drawn targets, several of a row together."""

import torch
from torch import Tensor

from gumdrop.metrics.scores import check_targets


def energy_score(draws: Tensor, target: Tensor) -> Tensor:
    r"""Energy score of drawn targets, averaged over rows; lower is better.

    .. math:: \frac1S \sum_s \lVert x_s - y \rVert - \frac{1}{2 S (S - 1)} \sum_{s, t} \lVert x_s - x_t \rVert

    With one output it is the CRPS. It is proper for the joint distribution of outputs, and the number of draws makes
    no bias. Outputs count by their size: divide draws and targets by the outputs' spread where units differ.

    Args:
        draws: At least two draws of all targets, shape (S, N, D), such as
            ``ConcreteDropoutRegressor.sample_y(X, S)``, moved.
        target: Observations, shape (N, D).

    Returns:
        A scalar.

    Raises:
        ValueError: If the shapes disagree, or there are fewer than two draws.

    References:
        Gneiting & Raftery 2007, "Strictly Proper Scoring Rules, Prediction, and Estimation" (JASA 102).

    Example:
        >>> energy_score(torch.tensor([[[0.0, 0.0]], [[3.0, 4.0]]]), torch.zeros(1, 2))
        tensor(0.)
    """
    if draws.ndim != 3 or len(draws) < 2:
        raise ValueError(f"`draws` must have shape (S, N, D) with at least two draws, got {tuple(draws.shape)}")
    check_targets("draws[0]", draws[0], target)
    apart = sum((torch.linalg.vector_norm(draws - one, dim=2).sum(0) for one in draws), torch.zeros(()))
    distance = torch.linalg.vector_norm(draws - target, dim=2).mean(0)
    return (distance - apart / (2 * len(draws) * (len(draws) - 1))).mean()
