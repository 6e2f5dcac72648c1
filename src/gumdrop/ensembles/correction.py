"""Fit the noise of a regression ensemble to the rows that its members have not seen."""

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor, nn

from gumdrop.ensembles.models import RegressionEnsemble, member_seeds
from gumdrop.ensembles.noise import weighted_mean
from gumdrop.prediction import RegressionPrediction, predict_regression
from gumdrop.training import RowSource

__all__ = ["DRAWS", "MOST_ROWS", "Versions", "fit_noise"]

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
        one member after the other.
    """
    rows_of = partial(_rows_on, ensemble.noise.offset.device)
    weights = torch.ones(1).expand(len(x)) if weights is None else weights.to(y.dtype)
    rows = [fold[:MOST_ROWS] for fold in held_out]
    seeds = member_seeds(seed, len(rows))
    outside = [
        predict_regression(member, rows_of(x, fold), num_samples=DRAWS, seed=each)
        if versions is None
        else _predict_versions(member, versions(fold, DRAWS, seed), ensemble.noise.offset.device, each)
        for member, fold, each in zip(ensemble.members, rows, seeds, strict=True)
    ]
    seen = torch.cat(rows)
    prediction = RegressionPrediction.joined(outside)
    x_seen, weights_seen = rows_of(x, seen), rows_of(weights, seen)
    ensemble.noise.fit(x_seen, rows_of(y, seen), prediction, weights_seen)
    noisy = ensemble.noise.with_tail(prediction.scale_noise(ensemble.noise(x_seen, prediction.mean)))
    scores = ensemble.scaling.log_prob(noisy, rows_of(y, seen))
    if (count := len(rows)) == 1:
        return scores
    some = torch.randperm(len(x), dtype=torch.int32, generator=torch.Generator().manual_seed(seed))[:MOST_ROWS]
    x_some = rows_of(x, some)
    means = [
        predict_regression(member, x_some, num_samples=DRAWS, seed=each).mean
        for member, each in zip(ensemble.members, seeds, strict=True)
    ]
    spread = weighted_mean(torch.stack(means).var(0), rows_of(weights, some))
    noise = weighted_mean(prediction.aleatoric * ensemble.noise(x_seen, prediction.mean), weights_seen)
    ensemble.noise.offset += (1 - 2 * (1 - 1 / count) * spread / noise).clamp(min=0.5).log()
    return scores


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
