"""Train ensembles: members on folds of the rows, all as one program, then the noise of regressions."""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gumdrop.ensembles.correction import Versions, fit_noise
from gumdrop.ensembles.folds import MOST_WATCHED, SMALL_STEP, folds_of, schedule
from gumdrop.ensembles.models import ClassificationEnsemble, RegressionEnsemble
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.machine.threads import limited_threads
from gumdrop.objective.kl import Lengthscale
from gumdrop.training import FitResult, RowSource
from gumdrop.training.data import check_data
from gumdrop.training.processes.sharing import fit_shared

__all__ = ["EnsembleFit", "fit_classification_ensembles", "fit_regression_ensembles"]


class EnsembleFit(NamedTuple):
    """An ensemble, and how its members were trained."""

    model: Any
    """A `RegressionEnsemble` or `ClassificationEnsemble`."""
    members: list[FitResult]
    """History of each member."""
    held_out: list[Tensor]
    """Numbers of the rows that each member did not train on and was watched on."""


def fit_regression_ensembles(
    make: Callable[[], nn.Module],
    train: Sequence[tuple[Tensor | RowSource, Tensor]],
    *,
    num_members: int = 5,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float = 1e-2,
    lengthscale: Lengthscale = "weak",
    input_noise: bool = True,
    held_out_fraction: float = 0.1,
    patience: int | None = None,
    tol: float = 0.0,
    weights: Sequence[Tensor] | None = None,
    versions: Sequence[Versions | None] | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
) -> list[EnsembleFit]:
    """Train one ensemble on each data set, all as one program: the default for numbers, with nothing to tune.

    Args:
        make: Builds a network that ends in `gumdrop.HomoscedasticNoise`, such as `gumdrop.networks.mlp`; called once
            for each member.
        train: Inputs, shape (N, F), and targets, shape (N, D), of each data set, both standardised; inputs may be a
            `gumdrop.training.RowSource`.
        num_members: Networks in each ensemble, M.
        epochs: Passes over the rows; None for 2,500 steps, and at least 20 passes.
        batch_size: Rows per step; None for the power of two above N / 64, between 32 and 1,024.
        lr: Largest learning rate; that of the logits is ten times as large.
        lengthscale: Prior, see `gumdrop.kl_divergence`.
        input_noise: Let the noise depend on the inputs and correct it for the spread of the members; one variance
            for each member otherwise.
        held_out_fraction: Share of the rows that each member does not train on, as one of so many folds; at most 1/2.
        patience: Stop after this many passes in which no member got better on its held-out rows, and keep the best
            pass of each; never early, and the last, if None.
        tol: Gain in nats per row that counts as better.
        weights: Weight of each row of each data set, see `gumdrop.training.fit_stacked`.
        versions: For each data set whose rows have unknown inputs, with a stand-in in ``train``: a function of row
            numbers, a count and a seed that completes these rows so often. The noise is then what is left beside the
            spread of the completions, as `RegressionEnsemble.predict_versions` needs it.
        seed: Seed of initial weights, folds, shuffling and masks.
        checkpoint: File to continue from if it exists, and to keep the state of the run in.
        progress: Show a progress bar; a text stands in front of it.

    Returns:
        A fit for each data set.

    Raises:
        ValueError: If a data set has fewer than 4 rows, values that are not finite or the wrong shape, or a setting
            is out of its range.
        CheckpointError: If ``checkpoint`` cannot be continued from.

    Example:
        >>> from functools import partial
        >>> from gumdrop.networks.mlp import mlp
        >>> x = torch.linspace(-2, 2, 60).unsqueeze(1)
        >>> make = partial(mlp, 1, 1, hidden=[16], homoscedastic_noise=True)
        >>> (fitted,) = fit_regression_ensembles(make, [(x, x.sin())], num_members=2, epochs=5)
        >>> fitted.model.predict(x, seed=0).mean.shape
        torch.Size([60, 1])
    """
    for x, y in train:
        if len(x.shape) != 2 or y.ndim != 2:
            raise ValueError(
                f"`train` must hold inputs of shape (N, F) and targets of shape (N, D), got {tuple(x.shape)} and "
                f"{tuple(y.shape)}; see Tensor.unsqueeze"
            )
    members, folds, results = _fit_members(
        make,
        train,
        num_members,
        likelihood="gaussian",
        held_out_noise=True,
        keep_best=patience is not None,
        held_out_fraction=held_out_fraction,
        patience=patience,
        tol=tol,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        lengthscale=lengthscale,
        weights=weights,
        seed=seed,
        checkpoint=checkpoint,
        progress=progress,
    )
    fits = []
    for i, (networks, held_out, histories) in enumerate(zip(members, folds, results, strict=True)):
        x, y = train[i]
        device = next(networks[0].parameters()).device
        ensemble = RegressionEnsemble(networks, NoiseFunction(x.shape[1], y.shape[1]).to(device))
        if input_noise:
            weight, completed = weights[i] if weights else None, versions[i] if versions else None
            fit_noise(ensemble, x, y, weight, held_out, completed, seed)
        fits.append(EnsembleFit(ensemble, histories, held_out))
    return fits


def fit_classification_ensembles(
    make: Callable[[], nn.Module],
    train: Sequence[tuple[Tensor | RowSource, Tensor]],
    *,
    num_members: int = 5,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float = 1e-2,
    lengthscale: Lengthscale = 1.0,
    held_out_fraction: float = 0.1,
    patience: int | None = None,
    tol: float = 0.0,
    weights: Sequence[Tensor] | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
) -> list[EnsembleFit]:
    """Train one ensemble on each data set, all as one program; members keep the epoch that is best on their fold.

    Args:
        make: Builds a network that returns logits; called once for each member.
        train: Inputs, shape (N, F), standardised, and class indices, shape (N,), of each data set.
        num_members: Networks in each ensemble.
        epochs: As for `fit_regression_ensembles`, like all that follow.
        batch_size: Rows per step.
        lr: Largest learning rate.
        lengthscale: Prior, see `gumdrop.kl_divergence`; 1 for standard normal weights, which on most sets leave better
            probabilities than the ``"weak"`` prior of numbers does, because the fold watches over the rest.
        held_out_fraction: As there, like the next two.
        patience: Never early if None; the best pass of each member is kept in any case.
        tol: Gain in nats per row that counts as better.
        weights: Weight of each row of each data set.
        seed: Seed of initial weights, folds, shuffling and masks.
        checkpoint: File to continue from if it exists, and to keep the state of the run in.
        progress: Show a progress bar; a text stands in front of it.

    Returns:
        A fit for each data set.

    Raises:
        ValueError: If a data set has fewer than 4 rows, values that are not finite or the wrong shape, or a setting
            is out of its range.
        CheckpointError: If ``checkpoint`` cannot be continued from.
    """
    members, folds, results = _fit_members(
        make,
        train,
        num_members,
        likelihood="categorical",
        keep_best=True,
        held_out_fraction=held_out_fraction,
        patience=patience,
        tol=tol,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        lengthscale=lengthscale,
        weights=weights,
        seed=seed,
        checkpoint=checkpoint,
        progress=progress,
    )
    return [
        EnsembleFit(ClassificationEnsemble(networks), histories, held_out)
        for networks, histories, held_out in zip(members, results, folds, strict=True)
    ]


def _fit_members(
    make: Callable[[], nn.Module],
    train: Sequence[tuple[Tensor | RowSource, Tensor]],
    num_members: int,
    *,
    likelihood: str,
    held_out_fraction: float,
    epochs: int | None,
    batch_size: int | None,
    weights: Sequence[Tensor] | None,
    seed: int,
    **options: Any,
) -> tuple[list[list[nn.Module]], list[list[Tensor]], list[list[FitResult]]]:
    """Train all members of all ensembles; give networks, held-out rows and histories, grouped by ensemble."""
    smallest = min((check_data(pair, "train", likelihood) for pair in train), default=0)
    if smallest < 4 or num_members < 1:
        raise ValueError(
            f"an ensemble needs at least 4 rows and 1 member, got {smallest} rows and {num_members} members"
        )
    if not 0 < held_out_fraction <= 0.5:
        raise ValueError(f"`held_out_fraction` must be above 0 and at most 1/2, got {held_out_fraction}")
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(seed)
        models = [[make() for _ in range(num_members)] for _ in train]
        orders = [torch.randperm(len(x), dtype=torch.int32) for x, _ in train]
    folds = [folds_of(order, num_members, round(1 / held_out_fraction)) for order in orders]
    most = max(len(order) for order in orders)
    batch_size, epochs = schedule(most, batch_size=batch_size, epochs=epochs)
    widest = max(len(parameter) for parameter in models[0][0].parameters() if parameter.ndim)
    outputs_of_a_step = len(train) * num_members * widest * batch_size
    with limited_threads(1 if outputs_of_a_step < SMALL_STEP else None):
        results = fit_shared(
            [model for each in models for model in each],
            [pair for pair in train for _ in range(num_members)],
            rows=[rows for each in folds for rows, _ in each],
            held_out=[held_out[:MOST_WATCHED] for each in folds for _, held_out in each],
            weights=None if weights is None else [weight for weight in weights for _ in range(num_members)],
            likelihood=likelihood,
            epochs=epochs,
            batch_size=batch_size,
            seed=seed,
            **options,
        )
    grouped = [results[i : i + num_members] for i in range(0, len(results), num_members)]
    return models, [[held_out for _, held_out in each] for each in folds], grouped
