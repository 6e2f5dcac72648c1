"""Correlation of the noise of several targets, fitted to rows that the networks have not seen."""

import math

import torch
from torch import Tensor

from gumdrop.likelihoods import RegressionPrediction
from gumdrop.likelihoods.scaled_mixture import log_correlated_density
from gumdrop.training.strength import is_beyond_chance

STEPS = 10
"""Of expectation and maximisation; the later ones change little."""
MOST_ROWS = 2000
SHARES, HALVES = (0.5, 0.75, 0.9, 1.0), (slice(0, None, 2), slice(1, None, 2))
"""Of the correlation that are tried: few rows, or rows far from the rest, say too much of it."""


def noise_correlation(y: Tensor, prediction: RegressionPrediction, weights: Tensor) -> Tensor | None:
    r"""Return the correlation of the noise between targets, (D, D), if rows that did not fit it are likelier with it.

    Given a drawn function the noise is Gaussian with the standard deviations of that draw and one correlation R, which
    the EM algorithm fits to the standardised residuals :math:`e_{ns}` of all draws, as many as the targets and one
    counting as uncorrelated:

    .. math:: R \propto (D + 1) I + \sum_{ns} w_n r_{ns} e_{ns} e_{ns}^\top

    where :math:`r_{ns}` is the share of draw s in the density of row n, and :math:`w_n` its weight. Each half of the
    rows judges what the other says, and how much of it is right. None for one target, or if the gain may be chance.
    """
    some = slice(None, None, math.ceil(len(y) / MOST_ROWS))
    means, variances = (each[:, some] for each in prediction.components())
    y, weights = y[some], weights[some]
    if means.shape[2] == 1 or len(y) < 2 * means.shape[2]:
        return None
    alone, gains = torch.eye(y.shape[1]).to(y), weights.new_zeros(len(SHARES), len(y))
    for half, other in (HALVES, HALVES[::-1]):
        found = _fitted(y[other], means[:, other], variances[:, other], weights[other])
        rows = (means[:, half], variances[:, half], prediction.scale, y[half])
        tried = [log_correlated_density(*rows, torch.lerp(alone, found, share)) for share in SHARES]
        gains[:, half] = torch.stack(tried) - log_correlated_density(*rows, alone)
    best = int((gains @ weights).argmax())
    if not is_beyond_chance(gains[best], weights):
        return None
    return torch.lerp(alone, _fitted(y, means, variances, weights), SHARES[best])


def _fitted(y: Tensor, means: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
    """Correlation of the largest likelihood."""
    standardised, log_scale = (y - means) / variances.sqrt(), 0.5 * variances.log().sum(-1)
    alone = torch.eye(y.shape[1]).to(y)
    found = alone
    for _ in range(STEPS):
        square = torch.einsum("snd,de,sne->sn", standardised, torch.linalg.inv(found), standardised)
        shares = torch.softmax(-0.5 * square - log_scale, dim=0) * weights
        total = (len(alone) + 1) * alone + torch.einsum("sn,snd,sne->de", shares, standardised, standardised)
        size = total.diagonal().rsqrt()
        found = total * size * size[:, None]
    return found
