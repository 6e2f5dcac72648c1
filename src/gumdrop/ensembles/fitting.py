"""Train ensembles: members on folds of the rows, all as one program, or on a stream of rows, one after the other."""

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from gumdrop.ensembles.correction import HeldOut, settle
from gumdrop.ensembles.folds import STEPS, folds_of
from gumdrop.ensembles.models import ClassificationEnsemble, Ensemble, RegressionEnsemble
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.ensembles.rows import Rows
from gumdrop.ensembles.scaling import AS_IT_IS, Scaling
from gumdrop.ensembles.settings import EnsembleSettings
from gumdrop.likelihoods import PLAIN, Likelihood, TargetScale
from gumdrop.machine.threads import limited_threads, threads_for
from gumdrop.networks import set_strength
from gumdrop.training import FitResult, fit
from gumdrop.training.progress import Show, part_of
from gumdrop.training.stacked import fit_shared

STREAMED = (50, 50)
"""Units of the hidden layers of networks that are trained on a stream: pilots would cost passes of their own."""


class EnsembleFit(NamedTuple):
    """An ensemble, and how its members were trained."""

    model: Ensemble
    """The ensemble."""
    members: list[FitResult]
    """History of each member."""
    held_out: list[Tensor]
    """Indices of the rows that each member did not train on."""
    scores: Tensor
    """Log likelihood of each row under the members that held it out, shape (N,); NaN where there is none: all rows for
    numbers without ``input_noise``, and those of a fold beyond the first 2,000."""
    conformity: Tensor
    """Where the target of each row stands in what these members predicted, shape (N, D, 2), see
    `RegressionPrediction.conformity`; NaN where there is none."""
    strengths: tuple[float, ...] = (1.0,)
    """What the entropy of the masks counted, see `gumdrop.networks.set_strength`; members of several are side by side.
    """


def fit_ensembles(
    makes: Sequence[Callable[[], nn.Module]],
    rows: Sequence[Rows],
    settings: EnsembleSettings,
    likelihood: Likelihood,
    *,
    scaling: Scaling = AS_IT_IS,
    is_kept: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Show = False,
) -> list[EnsembleFit]:
    """Train one ensemble on each data set, all as one program.

    Members for numbers take their noise from held-out rows; members for classes keep the epoch that is best on theirs.

    Args:
        makes: For each data set what builds a network, such as `gumdrop.networks.mlp`; called once for each member.
            Networks for numbers end in `gumdrop.HomoscedasticNoise`.
        rows: The data sets.
        settings: The settings.
        likelihood: `gumdrop.likelihoods.Gaussian` for numbers, ``Hurdle`` for those with atoms in
            ``scaling``, `gumdrop.likelihoods.Categorical` for classes.
        scaling: What the targets of all data sets are, which predictions undo.
        is_kept: Whether the ensembles are to predict; False where only their scores are wanted, which is quicker.
        checkpoint: File to continue from if it exists, and to keep the state of the run in.
        progress: Show a progress bar; a text stands in front of it.

    Returns:
        A fit for each data set.

    Raises:
        ValueError: If a data set has fewer than 4 rows, values that are not finite or the wrong shape.
        CheckpointError: If ``checkpoint`` cannot be continued from.

    Example:
        >>> from functools import partial
        >>> from gumdrop.likelihoods import Gaussian
        >>> from gumdrop.networks import mlp
        >>> x = torch.linspace(-2, 2, 60).unsqueeze(1)
        >>> make = partial(mlp, 1, 1, hidden=[16], homoscedastic_noise=True)
        >>> (fit,) = fit_ensembles([make], [Rows(x, x.sin())], EnsembleSettings(num_members=2, epochs=5), Gaussian())
        >>> fit.model.predict(x, seed=0).mean.shape
        torch.Size([60, 1])
    """
    for each in rows:
        each.check(likelihood)
    most = max(map(len, rows), default=0)
    count = settings.members_for(most)
    models, orders = _untrained(makes, rows, count, settings)
    most_folds = round(1 / settings.held_out_fraction)
    folds = [folds_of(order, count, most_folds, each.groups) for order, each in zip(orders, rows, strict=True)]
    batch_size, epochs = settings.schedule(most, likelihood)
    members = list(itertools.chain(*models))
    weights = [each.weights for each in rows for _ in range(count)]
    with limited_threads(threads_for(members, batch_size)):
        results = fit_shared(
            members,
            [(each.x, each.y) for each in rows for _ in range(count)],
            likelihood=likelihood,
            rows=[inside for each in folds for inside, _ in each],
            held_out=[held_out[:5000] for each in folds for _, held_out in each],  # enough for noise, or an epoch
            weights=None if any(each is None for each in weights) else weights,
            keep_best=settings.keeps_best(likelihood),
            checkpoint=checkpoint,
            progress=progress,
            settings=settings.of_members(likelihood, epochs=epochs, batch_size=batch_size, num_rows=most),
        )
    fits = []
    for i, (networks, each) in enumerate(zip(models, rows, strict=True)):
        outside = [held_out for _, held_out in folds[i]]
        model, scores = ensemble_of(networks, each, outside, settings, likelihood, scaling, is_kept=is_kept)
        fits.append(EnsembleFit(model, results[i * count : (i + 1) * count], outside, *scores))
    return fits


def joined(fits: Sequence[EnsembleFit], rows: Rows, settings: EnsembleSettings, likelihood: Likelihood) -> EnsembleFit:
    """Mix the members of all fits of one data set, whose targets are in their units, with one noise."""
    first = fits[0].model
    scaling = first.scaling if isinstance(first, RegressionEnsemble) else AS_IT_IS
    members = [member for fit in fits for member in fit.model.members]
    outside = [held_out for fit in fits for held_out in fit.held_out]
    seen = replace(rows, y=scaling.encoded(rows.y))
    model, scores = ensemble_of(members, seen, outside, settings, likelihood, scaling)
    strengths = tuple(strength for fit in fits for strength in fit.strengths)
    return EnsembleFit(model, [result for fit in fits for result in fit.members], outside, *scores, strengths)


def ensemble_of(
    members: Sequence[nn.Module],
    rows: Rows,
    held_out: list[Tensor],
    settings: EnsembleSettings,
    likelihood: Likelihood,
    scaling: Scaling = AS_IT_IS,
    *,
    is_kept: bool = True,
) -> tuple[Ensemble, HeldOut]:
    """Mix trained members into one, with the noise of numbers from held-out rows, and say what these tell."""
    if not likelihood.is_density:
        ensemble: Ensemble = ClassificationEnsemble(members)
    else:
        noise = NoiseFunction(rows.x.shape[1], likelihood.num_outputs(rows.y))
        ensemble = RegressionEnsemble(members, noise, scaling).to(next(members[0].parameters()).device)
        if not settings.input_noise:
            unknown = torch.full((len(rows), noise.num_outputs, 2), torch.nan)
            return ensemble, HeldOut(unknown[:, 0, 0], unknown)
    return ensemble, settle(ensemble, rows, held_out, settings.seed, is_kept=is_kept)


def _untrained(
    makes: Sequence[Callable[[], nn.Module]], rows: Sequence[Rows], count: int, settings: EnsembleSettings
) -> tuple[list[list[nn.Module]], list[Tensor]]:
    """Build the members of each ensemble, and shuffle the rows of each data set."""
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(settings.seed)
        models = [[make() for _ in range(count)] for make in makes]
        if settings.strength is not None:
            for model in itertools.chain(*models):
                set_strength(model, settings.strength)
        orders: dict[int, Tensor] = {}  # networks of one data set share its folds
        return models, [orders.setdefault(id(each), torch.randperm(len(each), dtype=torch.int32)) for each in rows]


def stream_schedule(num_rows: int, *, batch_size: int | None = None, passes: int | None = None) -> tuple[int, int]:
    """Return batch size and passes for a long table: 1,024 rows, and 2,500 steps or a pass; what is given is kept.

    Example:
        >>> stream_schedule(1_000_000), stream_schedule(10_000_000)
        ((1024, 3), (1024, 1))
    """
    batch_size = batch_size or 1024
    return batch_size, passes or max(1, round(STEPS * batch_size / num_rows))


def fit_streamed_ensemble(
    make: Callable[[], nn.Module],
    rows: Any,
    held_out: Rows,
    settings: EnsembleSettings,
    likelihood: Likelihood,
    *,
    scale: TargetScale = PLAIN,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Show = False,
) -> EnsembleFit:
    """Train an ensemble on a stream: all members see all rows, in the same order, and have the same held-out rows."""
    members, results = [], []
    batch_size, passes = stream_schedule(rows.num_rows, batch_size=settings.batch_size, passes=settings.epochs)
    count, epochs = settings.members_for(rows.num_rows), passes * rows.epochs_of_a_pass
    seeds = torch.randint(2**31, (count,), generator=torch.Generator().manual_seed(settings.seed)).tolist()
    path = None if checkpoint is None else Path(checkpoint)
    for i, seed in enumerate(seeds):
        with torch.random.fork_rng(devices=[]):
            torch.random.default_generator.manual_seed(seed)
            member = make()
        with limited_threads(threads_for([member], batch_size)):
            result = fit(
                member,
                DataLoader(rows, batch_size=None),
                likelihood=likelihood,
                validation=(held_out.x, held_out.y),
                num_data=rows.num_rows,
                checkpoint=path and path.with_name(f"{path.stem}-{i}{path.suffix}"),
                progress=part_of(progress, "network", i + 1, count),
                settings=replace(settings, seed=seed).of_members(likelihood, epochs=epochs, batch_size=batch_size),
            )
        members.append(member)
        results.append(result)
    everywhere = [torch.arange(len(held_out))] * count
    ensemble, scores = ensemble_of(members, held_out, everywhere, settings, likelihood, Scaling(scale))
    return EnsembleFit(ensemble, results, everywhere, *scores)
