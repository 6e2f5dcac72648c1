"""Counts of a target that is recorded in steps: a negative binomial for each draw, with the mean of its Gaussian.

The probability of a count is spread evenly over its cell, from half a step below to half a step above it, so that
quantiles and intervals are asked for as those of other targets. Functions take the means of the target under each
draw, in its units, shape (S, N, 1).
"""

import math

import torch
from torch import Tensor

from gumdrop.likelihoods.counts import NegativeBinomialPrediction
from gumdrop.likelihoods.target_scale import TargetScale

LEAST_RATE = 1e-3
"""Of a draw; a truncated Gaussian can have a mean of nearly half a step below 0."""
CLOSE = 1e-3
"""Steps within which the ends of an interval are those of a cell."""


def rates(means: Tensor, scale: TargetScale) -> Tensor:
    """Return expected counts of each draw, (S, N, 1), before their common factor."""
    return ((means - scale.least) / scale.step).clamp(min=LEAST_RATE)


def moments(means: Tensor, scale: TargetScale) -> tuple[Tensor, Tensor]:
    """Mean and variance of the target under each draw, in its units, (S, N, 1) each."""
    factor, dispersion = scale.counts
    expected = factor * rates(means, scale)
    return expected * scale.step + scale.least, (expected + dispersion * expected.square()) * scale.step**2


def counted(means: Tensor, scale: TargetScale) -> NegativeBinomialPrediction:
    """Say the counts alone, in float64."""
    factor, dispersion = scale.counts
    expected = factor * rates(means.double(), scale)
    spread, mean = torch.var_mean(expected, dim=0, correction=0)
    log_dispersion = torch.full_like(expected, math.log(dispersion))
    beyond = dispersion * expected.square().mean(0)
    return NegativeBinomialPrediction(mean, spread, expected.log(), log_dispersion, beyond)


def log_density(means: Tensor, scale: TargetScale, value: Tensor) -> Tensor:
    """Log of the mass of the count, (N,), of which a target, (N, 1), lies in the cell, per unit of the target."""
    count = ((value - scale.least) / scale.step).round().clamp(min=0)
    return counted(means, scale).log_prob(count).to(means) - math.log(scale.step)


def log_mass(means: Tensor, scale: TargetScale, lower: Tensor, upper: Tensor) -> Tensor:
    """Log of the probability between two ends, (N,), in float64; of a whole cell exact, however small."""
    first, last = (((end.double() - scale.least) / scale.step + 0.5).expand(means.shape[1:]) for end in (lower, upper))
    count = first.round()
    is_cell = (count >= 0) & ((first - count).abs() < CLOSE) & ((last - count - 1).abs() < CLOSE)
    result = counted(means, scale).log_prob(torch.where(is_cell, count, 0.0))
    if not is_cell.all():
        mass = below(means, scale, upper.expand_as(first)) - below(means, scale, lower.expand_as(first))
        result = torch.where(is_cell[:, 0], result, mass.clamp(min=torch.finfo(torch.float64).tiny).log()[:, 0])
    return result


def below(means: Tensor, scale: TargetScale, value: Tensor) -> Tensor:
    """Probability of what is below a value, (N, 1)."""
    position, counts = (value.double() - scale.least) / scale.step + 0.5, counted(means, scale)
    count = position.floor().clamp(min=0)
    before, up_to = counts.cdf(count - 1), counts.cdf(count)
    return (before + (position - count).clamp(0.0, 1.0) * (up_to - before)).to(means)


def quantile(means: Tensor, scale: TargetScale, probability: float | Tensor) -> Tensor:
    """Quantile, (N, 1), in units of the target."""
    counts = counted(means, scale)
    count = counts._quantile(probability)
    before, up_to = counts.cdf(count - 1), counts.cdf(count)
    share = ((probability - before) / (up_to - before)).clamp(0.0, 1.0)
    return ((count - 0.5 + share) * scale.step + scale.least).to(means)
