"""What the rows say that members have not seen: the noise of a regression ensemble, and how likely they are."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gumdrop.ensembles.models import Ensemble, RegressionEnsemble, member_seeds
from gumdrop.ensembles.noise import weighted_mean
from gumdrop.ensembles.rows import Rows
from gumdrop.functional.devices import device_of
from gumdrop.likelihoods import ClassificationPrediction, HurdlePrediction, Likelihood, RegressionPrediction
from gumdrop.likelihoods.prediction import Prediction
from gumdrop.likelihoods.scaled_mixture import log_correlated_density
from gumdrop.prediction.predict import predict
from gumdrop.training import RowSource
from gumdrop.training.strength import is_beyond_chance

SHARES = (0.5, 0.75, 0.9, 1.0)
"""Of the correlation that are tried: few rows, or rows far from the rest, say too much of it."""
MOST_ROWS = 2000
"""Held-out rows of a member, and training rows, that are enough to fit and to correct the noise."""
DRAWS = 50


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
    even, odd = slice(0, None, 2), slice(1, None, 2)
    for half, other in ((even, odd), (odd, even)):
        correlation = _fitted(y[other], means[:, other], variances[:, other], weights[other])
        rows = (means[:, half], variances[:, half], prediction.scale, y[half])
        tried = [log_correlated_density(*rows, torch.lerp(alone, correlation, share)) for share in SHARES]
        gains[:, half] = torch.stack(tried) - log_correlated_density(*rows, alone)
    best = int((gains @ weights).argmax())
    if not is_beyond_chance(gains[best], weights):
        return None
    return torch.lerp(alone, _fitted(y, means, variances, weights), SHARES[best])


def _fitted(y: Tensor, means: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
    """Correlation of the largest likelihood."""
    standardised, log_scale = (y - means) / variances.sqrt(), 0.5 * variances.log().sum(-1)
    alone = torch.eye(y.shape[1]).to(y)
    correlation = alone
    for _ in range(10):  # of expectation and maximisation; later ones would change little
        square = torch.einsum("snd,de,sne->sn", standardised, torch.linalg.inv(correlation), standardised)
        shares = torch.softmax(-0.5 * square - log_scale, dim=0) * weights
        total = (len(alone) + 1) * alone + torch.einsum("sn,snd,sne->de", shares, standardised, standardised)
        size = total.diagonal().rsqrt()
        correlation = total * size * size[:, None]
    return correlation


class HeldOut(NamedTuple):
    """What is said of rows by members that have not seen them, see `gumdrop.ensembles.EnsembleFit`."""

    scores: Tensor
    conformity: Tensor


@torch.no_grad()
def settle(ensemble: Ensemble, rows: Rows, held_out: list[Tensor], seed: int, *, is_kept: bool = True) -> HeldOut:
    """Return how likely rows outside each member's training are; of numbers, fit the noise to them before, in place.

    Members that hold the same rows out, by their indices, predict these together. Targets are as the networks see them.
    After that the noise is corrected for the spread of the members, if the ensemble ``is_kept``.
    """
    folds = members_of_folds(held_out)
    indices = [held_out[members[0]][:MOST_ROWS] for members in folds]
    outside = [_outside(ensemble, members, rows, fold, seed) for members, fold in zip(folds, indices, strict=True)]
    seen, prediction = torch.cat(indices), type(outside[0]).joined(outside)
    if isinstance(ensemble, RegressionEnsemble):
        assert isinstance(prediction, RegressionPrediction)
        scores = _fit_noise(ensemble, rows, seen, prediction, folds, seed, is_kept=is_kept)
    else:
        assert isinstance(prediction, ClassificationPrediction)
        observed = _rows_on(device_of(ensemble), rows.y, seen)
        scores = HeldOut(prediction.log_prob(observed), prediction.conformity(observed))
    return HeldOut(*(_of_all_rows(len(rows), seen, each) for each in scores))


def _of_all_rows(num_rows: int, seen: Tensor, values: Tensor) -> Tensor:
    """Values of some rows, and NaN for all others."""
    of_all = torch.full((num_rows, *values.shape[1:]), torch.nan)
    of_all[seen.long()] = values.float().cpu()
    return of_all


def _fit_noise(
    ensemble: RegressionEnsemble,
    rows: Rows,
    seen: Tensor,
    prediction: RegressionPrediction,
    folds: list[list[int]],
    seed: int,
    *,
    is_kept: bool,
) -> HeldOut:
    """Fit the noise function on held-out rows, score them, and where it is kept correct it for the members' spread."""
    rows_of, x = partial(_rows_on, device_of(ensemble)), rows.x
    weights = torch.ones(1).expand(len(rows)) if rows.weights is None else rows.weights.to(rows.y.dtype)
    x_seen, y_seen, weights_seen = rows_of(x, seen), rows_of(rows.y, seen), rows_of(weights, seen)
    numbers = ensemble.scaling.cells(y_seen)
    if isinstance(prediction, HurdlePrediction):  # the noise is that of rows which are no atoms
        weights_seen, numbers = weights_seen * (y_seen[:, 1] == 0), y_seen[:, :1]
    ensemble.noise.fit(x_seen, numbers, prediction, weights_seen)
    factor = ensemble.noise(x_seen, prediction.mean)
    noisy = ensemble.noise.with_tail(prediction.scale_noise(factor))
    scaling, scores = ensemble.scaling, ensemble.scaling.log_prob(noisy, y_seen)
    conformity = torch.full((len(scores), ensemble.noise.num_outputs, 2), torch.nan)
    if not is_kept:
        return HeldOut(scores, conformity)
    if scaling.scale.step and not scaling.scale.atoms and y_seen.shape[1] == 1:
        target, half, plain = scaling.decoded(y_seen), scaling.scale.step / 2, prediction.scale_noise(factor)
        before = scaling.in_units(noisy).log_probability(target - half, target + half)
        ensemble.noise.fit_counts(scaling.in_units(plain), target, before, weights_seen)
        noisy, scaling = ensemble.noise.with_tail(plain), ensemble.scaling
    if isinstance(noisy, HurdlePrediction) or y_seen.shape[1] == noisy.mean.shape[1]:  # else the two ends of a range
        conformity = scaling.in_units(noisy).conformity(scaling.decoded(y_seen))
    if (correlation := noise_correlation(y_seen, noisy, weights_seen)) is not None:
        ensemble.noise.correlation = correlation.to(ensemble.noise.correlation)
    if (count := len(ensemble.members)) > 1:
        noise = weighted_mean(prediction.aleatoric * factor, weights_seen)
        excess = 1 / len(folds[0]) - 1 / count  # of the spread in the mean of few members, beside that of all
        spread = _spread(ensemble, x, weights, seed)
        ensemble.noise.offset += (1 - 2 * excess * spread / noise).clamp(min=0.5).log()
    return HeldOut(scores, conformity)


def _outside(ensemble: Ensemble, members: list[int], rows: Rows, fold: Tensor, seed: int) -> Prediction:
    """Predict the rows of a fold with the members that have not seen them."""
    device, seeds = device_of(ensemble), member_seeds(seed, len(ensemble.members))
    likelihood, networks = ensemble.likelihood, [(ensemble.members[i], seeds[i]) for i in members]
    if rows.imputations is not None and likelihood.is_density:
        parts = [_predict_imputed(m, rows.imputations(fold, DRAWS, seed), likelihood, device, n) for m, n in networks]
    else:
        x = _rows_on(device, rows.x, fold)
        parts = [predict(member, x, likelihood, num_samples=DRAWS, seed=each) for member, each in networks]
    mixed: Prediction = type(parts[0]).mixture(parts)
    return mixed


def _spread(ensemble: RegressionEnsemble, x: Tensor | RowSource, weights: Tensor, seed: int) -> Tensor:
    """Variance between the means of the members, averaged over some rows, for each output."""
    some = torch.randperm(len(x), dtype=torch.int32, generator=torch.Generator().manual_seed(seed))[:MOST_ROWS]
    device = device_of(ensemble)
    rows = _rows_on(device, x, some)
    means = [
        predict(member, rows, ensemble.likelihood, num_samples=DRAWS, seed=each).mean
        for member, each in zip(ensemble.members, member_seeds(seed, len(ensemble.members)), strict=True)
    ]
    return weighted_mean(torch.stack(means).var(0), _rows_on(device, weights, some))


def members_of_folds(held_out: Sequence[Tensor]) -> list[list[int]]:
    """Find members that hold the same rows out."""
    folds: dict[bytes, list[int]] = {}
    for i, rows in enumerate(held_out):
        folds.setdefault(rows.cpu().numpy().tobytes(), []).append(i)
    least = min(map(len, folds.values()))
    return [members[:least] for members in folds.values()]


def _predict_imputed(
    member: nn.Module, imputations: Iterable[Tensor], likelihood: Likelihood, device: torch.device, seed: int | None
) -> Any:
    """Predict rows with a draw for each completion of what is unknown in them."""
    pairs = zip(imputations, member_seeds(seed, DRAWS), strict=True)
    parts = [predict(member, x.to(device), likelihood, num_samples=1, seed=each) for x, each in pairs]
    return type(parts[0]).mixture(parts)


def _rows_on(device: torch.device, values: Tensor | RowSource, rows: Tensor) -> Tensor:
    return values[rows.to(values.device)].to(device)
