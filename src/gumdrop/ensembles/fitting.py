"""Train ensembles: members on folds of the rows, all as one program, then the noise of regressions."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Unpack

import torch
from torch import Tensor, nn

from gumdrop.ensembles.correction import Versions, by_row, class_scores, fit_noise
from gumdrop.ensembles.folds import MOST_HELD_OUT, folds_of, schedule, threads_for
from gumdrop.ensembles.models import ClassificationEnsemble, RegressionEnsemble
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.ensembles.scaling import AS_IT_IS, Scaling
from gumdrop.ensembles.settings import EnsembleOptions, EnsembleSettings, RegressionOptions
from gumdrop.machine.threads import limited_threads
from gumdrop.networks import set_strength
from gumdrop.training import FitResult, RowSource
from gumdrop.training.data import check_data
from gumdrop.training.processes.sharing import fit_shared

__all__ = [
    "EnsembleFit",
    "check_tables",
    "ensemble_of",
    "fit_classification_ensembles",
    "fit_ensembles",
    "fit_regression_ensembles",
]

LEAST_ROWS = 4
Table = tuple[Tensor | RowSource, Tensor]
"""Inputs and targets of a data set."""


class EnsembleFit(NamedTuple):
    """An ensemble, and how its members were trained."""

    model: Any
    """A `RegressionEnsemble` or a `ClassificationEnsemble`."""
    members: list[FitResult]
    """History of each member."""
    held_out: list[Tensor]
    """Indices of the rows that each member did not train on."""
    scores: Tensor
    """Log likelihood of each row under the members that held it out, shape (N,); NaN where there is none: all rows for
    numbers without ``input_noise``, and those of a fold beyond the first 2,000."""
    strength: float = 1.0
    """What the entropy of the masks counted, see `gumdrop.networks.set_strength`."""


def fit_regression_ensembles(
    make: Callable[[], nn.Module],
    train: Sequence[Table],
    *,
    weights: Sequence[Tensor] | None = None,
    versions: Sequence[Versions | None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
    **settings: Unpack[RegressionOptions],
) -> list[EnsembleFit]:
    """Train one ensemble on each data set, all as one program: the default for numbers, with nothing to tune.

    Args:
        make: Builds a network that ends in `gumdrop.HomoscedasticNoise`, such as `gumdrop.networks.mlp`; called once
            for each member.
        train: Inputs, shape (N, F), and targets, shape (N, D), of each data set, both standardised; inputs may be a
            `gumdrop.training.RowSource`.
        weights: Weight of each row of each data set, see `gumdrop.training.fit_stacked`.
        versions: For each data set whose rows have unknown inputs, with a stand-in in ``train``: a function of row
            indices, a count and a seed that completes these rows so often. The noise is then what is left beside the
            spread of the completions, as `RegressionEnsemble.predict_versions` needs it.
        checkpoint: File to continue from if it exists, and to keep the state of the run in.
        progress: Show a progress bar; a text stands in front of it.
        settings: ``num_members``, ``epochs``, ``batch_size``, ``lr``, ``lengthscale``, ``strength``,
            ``held_out_fraction``, ``patience``, ``tol``, ``seed`` and ``input_noise``, as
            `gumdrop.ensembles.EnsembleSettings` documents them.

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
    return fit_ensembles(
        [make] * len(train),
        train,
        EnsembleSettings(**settings),
        regression=True,
        weights=weights,
        versions=versions,
        checkpoint=checkpoint,
        progress=progress,
    )


def fit_classification_ensembles(
    make: Callable[[], nn.Module],
    train: Sequence[Table],
    *,
    weights: Sequence[Tensor] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
    **settings: Unpack[EnsembleOptions],
) -> list[EnsembleFit]:
    """Train one ensemble on each data set, all as one program; members keep the epoch that is best on their fold.

    Args:
        make: Builds a network that returns logits; called once for each member.
        train: Inputs, shape (N, F), standardised, and class indices, shape (N,), of each data set.
        weights: Weight of each row of each data set, see `gumdrop.training.fit_stacked`.
        checkpoint: File to continue from if it exists, and to keep the state of the run in.
        progress: Show a progress bar; a text stands in front of it.
        settings: As for `fit_regression_ensembles`, but for ``input_noise``.

    Returns:
        A fit for each data set.

    Raises:
        ValueError: If a data set has fewer than 4 rows, values that are not finite or the wrong shape, or a setting
            is out of its range.
        CheckpointError: If ``checkpoint`` cannot be continued from.
    """
    return fit_ensembles(
        [make] * len(train),
        train,
        EnsembleSettings(**settings),
        regression=False,
        weights=weights,
        checkpoint=checkpoint,
        progress=progress,
    )


def fit_ensembles(
    makes: Sequence[Callable[[], nn.Module]],
    train: Sequence[Table],
    settings: EnsembleSettings,
    *,
    regression: bool,
    weights: Sequence[Tensor] | None = None,
    versions: Sequence[Versions | None] | None = None,
    together: Sequence[Tensor | None] | None = None,
    scaling: Scaling = AS_IT_IS,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
) -> list[EnsembleFit]:
    """Train one ensemble on each data set, for numbers or for classes.

    Args:
        makes: For each data set what builds a network; called once for each member.
        train: Inputs and targets of each data set.
        settings: The settings.
        regression: Whether targets are numbers, as for `fit_regression_ensembles`; else classes, as for
            `fit_classification_ensembles`. What follows is as for these.
        weights: Weight of each row of each data set.
        versions: Completions of what is unknown in the rows, of use where targets are numbers.
        together: For each data set the number of the group that each row belongs to, shape (N,), at least two groups:
            its rows are held out together. None where any rows may be.
        scaling: What the targets of all data sets are, which predictions undo.
        checkpoint: File to continue from if it exists, and to keep the state of the run in.
        progress: Show a progress bar; a text stands in front of it.

    Returns:
        A fit for each data set.
    """
    likelihood = "gaussian" if regression else "categorical"
    check_tables(train, likelihood)
    count = settings.members_for(max(len(y) for _, y in train))
    models, orders = _untrained(makes, train, count, settings)
    most_folds = round(1 / settings.held_out_fraction)
    groups = together or [None] * len(orders)
    folds = [folds_of(order, count, most_folds, g) for order, g in zip(orders, groups, strict=True)]
    most = max(len(order) for order in orders)
    batch_size, epochs = schedule(most, batch_size=settings.batch_size, epochs=settings.epochs)
    members = [model for each in models for model in each]
    with limited_threads(threads_for(members, batch_size)):
        results = fit_shared(
            members,
            [table for table in train for _ in range(count)],
            likelihood=likelihood,
            epochs=epochs,
            rows=[rows for each in folds for rows, _ in each],
            held_out=[held_out[:MOST_HELD_OUT] for each in folds for _, held_out in each],
            weights=None if weights is None else [weight for weight in weights for _ in range(count)],
            keep_best=settings.patience is not None or not regression,
            checkpoint=checkpoint,
            progress=progress,
            **settings.of_members(regression=regression, batch_size=batch_size),
        )
    none = [None] * len(train)
    fits = []
    for i, (networks, table, weight, version) in enumerate(
        zip(models, train, weights or none, versions or none, strict=True)
    ):
        outside = [rows for _, rows in folds[i]]
        mixed = partial(ensemble_of, networks, table, outside, settings, regression=regression, scaling=scaling)
        model, scores = mixed(weights=weight, versions=version)
        fits.append(EnsembleFit(model, results[i * count : (i + 1) * count], outside, scores))
    return fits


def ensemble_of(
    members: Sequence[nn.Module],
    table: Table,
    held_out: list[Tensor],
    settings: EnsembleSettings,
    *,
    regression: bool,
    weights: Tensor | None = None,
    versions: Versions | None = None,
    scaling: Scaling = AS_IT_IS,
) -> tuple[RegressionEnsemble | ClassificationEnsemble, Tensor]:
    """Mix trained members into one ensemble, with the noise of numbers from rows that they have not seen.

    Args:
        members: The members.
        table: Inputs and targets.
        held_out: Indices of the rows that each member did not train on.
        settings: The settings.
        regression: Whether targets are numbers; classes otherwise.
        weights: Weight of each row.
        versions: Completions of what is unknown in the rows.
        scaling: What the targets are, which predictions undo.

    Returns:
        The ensemble, and the log likelihoods that `EnsembleFit` holds.
    """
    x, y = table
    if not regression:
        classes = ClassificationEnsemble(members)
        return classes, by_row(len(x), held_out, class_scores(classes, x, y, held_out, settings.seed))
    device = next(members[0].parameters()).device
    ensemble = RegressionEnsemble(members, NoiseFunction(x.shape[1], y.shape[1]), scaling).to(device)
    if not settings.input_noise:
        return ensemble, torch.full((len(x),), torch.nan)
    return ensemble, by_row(len(x), held_out, fit_noise(ensemble, x, y, weights, held_out, versions, settings.seed))


def check_tables(train: Sequence[Table], likelihood: str) -> None:
    """Refuse data sets that no ensemble can be trained on.

    Args:
        train: Inputs and targets of each.
        likelihood: Name of the likelihood.

    Raises:
        ValueError: As `fit_regression_ensembles`.
    """
    for x, y in train:
        if likelihood == "gaussian" and (len(x.shape) != 2 or y.ndim != 2):
            raise ValueError(
                f"`train` must hold inputs of shape (N, F) and targets of shape (N, D), got {tuple(x.shape)} and "
                f"{tuple(y.shape)}; see Tensor.unsqueeze"
            )
    smallest = min((check_data(table, "train", likelihood) for table in train), default=0)
    if smallest < LEAST_ROWS:
        raise ValueError(f"an ensemble needs at least {LEAST_ROWS} rows, got {smallest}")


def _untrained(
    makes: Sequence[Callable[[], nn.Module]], train: Sequence[Table], count: int, settings: EnsembleSettings
) -> tuple[list[list[nn.Module]], list[Tensor]]:
    """Build the members of each ensemble, and shuffle the rows of each data set."""
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(settings.seed)
        models = [[make() for _ in range(count)] for make in makes]
        if settings.strength is not None:
            for each in models:
                for model in each:
                    set_strength(model, settings.strength)
        return models, [torch.randperm(len(x), dtype=torch.int32) for x, _ in train]
