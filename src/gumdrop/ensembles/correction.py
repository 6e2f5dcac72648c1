"""What the rows say that members have not seen: the noise of a regression ensemble, and how likely they are."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from gumdrop.ensembles.models import ClassificationEnsemble, RegressionEnsemble, member_seeds
from gumdrop.ensembles.noise import weighted_mean
from gumdrop.prediction import (
    ClassificationPrediction,
    RegressionPrediction,
    predict_classification,
    predict_regression,
)
from gumdrop.training import RowSource

__all__ = ["Versions", "by_row", "class_scores", "fit_noise", "members_of_folds"]

MOST_ROWS = 2000
"""Held-out rows of a member, and training rows, that are enough to fit and to correct the noise."""
DRAWS = 50
Versions = Callable[[Tensor, int, int], Iterable[Tensor]]
"""Gives rows by their indices, so often, with a seed: what is unknown in them is completed anew each time."""


@torch.no_grad()
def fit_noise(
    ensemble: RegressionEnsemble,
    x: Tensor | RowSource,
    y: Tensor,
    weights: Tensor | None,
    held_out: list[Tensor],
    versions: Versions | None,
    seed: int,
) -> Tensor:
    """Fit the noise function on the rows outside each member's training, and correct it for the members' spread.

    Args:
        ensemble: The ensemble, whose noise function is changed.
        x: Inputs, shape (N, F), with stand-ins for what is unknown.
        y: Targets as the networks see them, shape (N, D).
        weights: Weight of each row; 1 if None.
        held_out: Indices of the rows that each member did not train on.
        versions: Completes rows in which something is unknown; None if nothing is.
        seed: Seed of the draws.

    Returns:
        Log likelihood of the held-out rows with this noise, before the correction, in nats and in units of the target,
        one fold after the other. Members that hold the same rows out predict these together.
    """
    rows_of = partial(_rows_on, ensemble.noise.offset.device)
    weights = torch.ones(1).expand(len(x)) if weights is None else weights.to(y.dtype)
    folds = members_of_folds(held_out)
    rows = [held_out[members[0]][:MOST_ROWS] for members in folds]
    outside = [_outside(ensemble, members, x, fold, versions, seed) for members, fold in zip(folds, rows, strict=True)]
    seen = torch.cat(rows)
    prediction = RegressionPrediction.joined(outside)
    x_seen, weights_seen = rows_of(x, seen), rows_of(weights, seen)
    ensemble.noise.fit(x_seen, rows_of(y, seen), prediction, weights_seen)
    factor = ensemble.noise(x_seen, prediction.mean)
    noisy = ensemble.noise.with_tail(prediction.scale_noise(factor))
    scores = ensemble.scaling.log_prob(noisy, rows_of(y, seen))
    if (count := len(held_out)) > 1:
        noise = weighted_mean(prediction.aleatoric * factor, weights_seen)
        excess = 1 / len(folds[0]) - 1 / count  # of the spread in the mean of few members, beside that of all
        spread = _spread(ensemble, x, weights, seed)
        ensemble.noise.offset += (1 - 2 * excess * spread / noise).clamp(min=0.5).log()
    return scores


def _outside(
    ensemble: RegressionEnsemble,
    members: list[int],
    x: Tensor | RowSource,
    fold: Tensor,
    versions: Versions | None,
    seed: int,
) -> RegressionPrediction:
    """Predict the rows of a fold with the members that have not seen them."""
    device, seeds = ensemble.noise.offset.device, member_seeds(seed, len(ensemble.members))
    if versions is not None:
        parts = [_predict_versions(ensemble.members[i], versions(fold, DRAWS, seed), device, seeds[i]) for i in members]
    else:
        rows = _rows_on(device, x, fold)
        parts = [predict_regression(ensemble.members[i], rows, num_samples=DRAWS, seed=seeds[i]) for i in members]
    return RegressionPrediction.mixture(parts)


def _spread(ensemble: RegressionEnsemble, x: Tensor | RowSource, weights: Tensor, seed: int) -> Tensor:
    """Variance between the means of the members, averaged over some rows, for each output."""
    some = torch.randperm(len(x), dtype=torch.int32, generator=torch.Generator().manual_seed(seed))[:MOST_ROWS]
    device = ensemble.noise.offset.device
    rows = _rows_on(device, x, some)
    means = [
        predict_regression(member, rows, num_samples=DRAWS, seed=each).mean
        for member, each in zip(ensemble.members, member_seeds(seed, len(ensemble.members)), strict=True)
    ]
    return weighted_mean(torch.stack(means).var(0), _rows_on(device, weights, some))


@torch.no_grad()
def class_scores(
    ensemble: ClassificationEnsemble, x: Tensor | RowSource, y: Tensor, held_out: list[Tensor], seed: int
) -> Tensor:
    """Score the rows outside each member's training.

    Args:
        ensemble: The ensemble.
        x: Inputs, shape (N, F).
        y: Class indices, shape (N,).
        held_out: Indices of the rows that each member did not train on.
        seed: Seed of the draws.

    Returns:
        Log likelihood of the rows of each fold under the members that share it, in nats, one fold after the other.
    """
    device, seeds = next(ensemble.parameters()).device, member_seeds(seed, len(held_out))
    scores = []
    for members in members_of_folds(held_out):
        fold = held_out[members[0]][:MOST_ROWS]
        parts = [
            predict_classification(ensemble.members[i], x[fold].to(device), num_samples=DRAWS, seed=seeds[i])
            for i in members
        ]
        scores.append(ClassificationPrediction.mixture(parts).log_prob(y[fold].to(device)))
    return torch.cat(scores)


def members_of_folds(held_out: Sequence[Tensor]) -> list[list[int]]:
    """Find members that hold the same rows out.

    Args:
        held_out: Indices of the rows that each member did not train on.

    Returns:
        Numbers of the members of each fold, as many as the smallest has.
    """
    folds: dict[bytes, list[int]] = {}
    for i, rows in enumerate(held_out):
        folds.setdefault(rows.cpu().numpy().tobytes(), []).append(i)
    least = min(map(len, folds.values()))
    return [members[:least] for members in folds.values()]


def _predict_versions(
    member: nn.Module, versions: Iterable[Tensor], device: torch.device, seed: int | None
) -> RegressionPrediction:
    """Predict rows with a draw for each completion of what is unknown in them."""
    return RegressionPrediction.mixture(
        [
            predict_regression(member, x.to(device), num_samples=1, seed=each)
            for x, each in zip(versions, member_seeds(seed, DRAWS), strict=True)
        ]
    )


def _rows_on(device: torch.device, values: Tensor | RowSource, rows: Tensor) -> Tensor:
    return values[rows.to(values.device)].to(device)


def by_row(num_rows: int, held_out: Sequence[Tensor], scores: Tensor) -> Tensor:
    """Give each row its score.

    Args:
        num_rows: Number of rows.
        held_out: Indices of the rows that each member did not train on.
        scores: Of the first 2,000 rows of each fold, one fold after the other.

    Returns:
        Shape (num_rows,), NaN where there is none.
    """
    found = torch.full((num_rows,), torch.nan, device=scores.device)
    places = [held_out[members[0]][:MOST_ROWS] for members in members_of_folds(held_out)]
    found[torch.cat(places).long().to(scores.device)] = scores.float()
    return found.cpu()
