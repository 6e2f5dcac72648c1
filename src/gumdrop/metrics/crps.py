"""Continuous ranked probability score of predictive mixtures, and the energy score of several targets together."""

import math
from functools import partial

import numpy as np
import torch
from torch import Tensor

from gumdrop.likelihoods import PLAIN, HurdlePrediction, RegressionPrediction, TargetScale, scaled_mixture
from gumdrop.metrics.scores import check_gaussian, check_targets

MOST_COUNTS = 1000
"""Terms of a sum over counts, at most; what is beyond has hardly any mass."""
NO_MASS = 1e-5
"""Probability of a tail whose square adds nothing."""


def crps(prediction: RegressionPrediction, target: Tensor) -> Tensor:
    r"""Continuous ranked probability score of the mixture, averaged over rows and outputs, in units of the target.

    .. math:: E|X - y| - \tfrac12 E|X - X'|

    in closed form for a mixture of Gaussians (Grimit et al. 2006, QJRMS 132), by quadrature for one on another scale,
    such as that of a logarithm, and cell by cell for counts that are negative binomial. Lower is better.

    Args:
        prediction: Prediction with its draws, N rows of D outputs.
        target: Observations, shape (N, D).

    Returns:
        A scalar.

    Raises:
        ValueError: If the shapes differ or the draws were not kept.
        TypeError: If it is another prediction, such as one of Student's t.

    Example:
        >>> crps(RegressionPrediction.gaussian(torch.zeros(1, 1), torch.ones(1, 1)), torch.zeros(1, 1))
        tensor(0.2337)
    """
    check_gaussian(prediction)
    check_targets("mean", prediction.mean, target)
    of_rows = _in_closed_form if prediction.scale == PLAIN else _by_quadrature
    of_rows = _of_counts if prediction.scale.counts else of_rows
    score = partial(scaled_mixture.in_parts, of_rows, *prediction.components(), prediction.scale)
    if not isinstance(prediction, HurdlePrediction):
        return score(target).mean()
    shares, atoms = prediction.atom_probabilities, target.new_tensor(prediction.scale.atoms)
    rest, of_atoms = 1 - shares.sum(1, keepdim=True), [score(atom.expand_as(target)) for atom in atoms]
    inner = rest * (score(target) - (shares * torch.cat(of_atoms, dim=1)).sum(1, keepdim=True))
    pairs = torch.einsum("nj,jk,nk->n", shares, (atoms[:, None] - atoms).abs(), shares)
    return (inner[:, 0] + (shares * (target - atoms).abs()).sum(1) - pairs / 2).mean()


def _in_closed_form(means: Tensor, variances: Tensor, scale: TargetScale, target: Tensor) -> Tensor:
    """Score each row and output."""
    total = _expected_distance(target - means, variances).mean(0)
    for i, (mean, variance) in enumerate(zip(means, variances, strict=True)):  # each of the S x S pairs once
        distances = _expected_distance(mean - means[i:], variance + variances[i:])
        total -= (distances.sum(0) - distances[0] / 2) / len(means) ** 2
    return total


def _by_quadrature(means: Tensor, variances: Tensor, scale: TargetScale, target: Tensor) -> Tensor:
    """Integrate F^2 up to the target and (1 - F)^2 from there on, on the scale of the draws, where F is smooth."""
    draws = (means, variances, scale)
    first, last = (scaled_mixture.quantile(*draws, p).to(target) for p in (NO_MASS, 1 - NO_MASS))
    value = scale.to_gaussian(target).maximum(first)
    total = (scale.unbounded(first) - target).clamp(min=0.0)  # up to there F is 0
    for low, high, above in ((first, value, 0.0), (value, last, 1.0)):
        reach = (high - low).clamp(min=0.0) / 2
        for node, weight in zip(*np.polynomial.legendre.leggauss(64), strict=True):
            at = low + (1 + float(node)) * reach
            slope = scale.log_slope(at).exp()
            total = total + float(weight) * reach * slope * (scaled_mixture.below(*draws, at) - above).square()
    return total


def _of_counts(means: Tensor, variances: Tensor, scale: TargetScale, target: Tensor) -> Tensor:
    """Integrate F^2 up to the target and (1 - F)^2 from there on, cell by cell, in each of which F is a line."""
    position = (target.double() - scale.least) / scale.step + 0.5
    total, before = (-position).clamp(min=0.0), torch.zeros_like(position)
    masses = scaled_mixture.counts_of(means, variances, scale).masses()
    for count, mass in zip(range(MOST_COUNTS), masses, strict=False):
        share, up_to = (position - count).clamp(0.0, 1.0), before + mass.mean(0)
        at = before + share * mass.mean(0)
        total += share * _mean_square(before, at) + (1 - share) * _mean_square(1 - at, 1 - up_to)
        before = up_to
        if count >= position.max() and (1 - up_to < NO_MASS).all():
            break
    return ((total + (position - count - 1).clamp(min=0.0)) * scale.step).to(means)


def _mean_square(first: Tensor, last: Tensor) -> Tensor:
    """Mean of the square of a line between two values."""
    return (first.square() + first * last + last.square()) / 3


def _expected_distance(mean: Tensor, variance: Tensor) -> Tensor:
    """Mean of |Z| for Z ~ N(mean, variance)."""
    std = variance.sqrt()
    z = mean / std
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    return mean * (2 * torch.special.ndtr(z) - 1) + 2 * std * density


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
