"""Choose networks for a table: a few kinds are tried for a short while, then trained with several strengths of dropout.

Held-out rows decide both. Pilots of some hundred steps rank the kinds: the choice costs less than the training, and
takes no row of a test.
"""

import copy
import os
from dataclasses import replace
from functools import partial
from typing import TypedDict

import torch
from torch import Tensor, nn

from gumdrop.ensembles.architecture import Architecture, Build, candidates, num_many_valued
from gumdrop.ensembles.correction import Versions
from gumdrop.ensembles.fitting import EnsembleFit, Table, check_tables, fit_ensembles
from gumdrop.ensembles.folds import schedule
from gumdrop.ensembles.scaling import AS_IT_IS, Scaling
from gumdrop.ensembles.settings import EnsembleSettings
from gumdrop.networks import set_strength
from gumdrop.prediction import PLAIN, TargetScale
from gumdrop.prediction.target_scale import Kind
from gumdrop.training.processes.group import process_group
from gumdrop.training.strength import choose_strength, is_beyond_chance, mean_score

__all__ = ["ChoiceOptions", "choose_architecture", "fit_chosen", "fit_one"]

PILOT_STEPS, PILOT_MEMBERS = 500, 5
PILOT_ROWS = 10_000
"""Rows that rank the kinds; a longer table is sampled."""
LEAST_GROUPS = 2


class ChoiceOptions(TypedDict):
    """What the choice of networks and their training have in common."""

    regression: bool
    weights: Tensor | None
    scale: TargetScale
    progress: bool | str


def fit_chosen(
    build: Build,
    table: Table,
    settings: EnsembleSettings,
    *,
    regression: bool,
    weights: Tensor | None = None,
    together: Tensor | None = None,
    scale: TargetScale = PLAIN,
    progress: bool | str = False,
) -> EnsembleFit:
    """Train an ensemble of the kind of networks, and with the strength of dropout, that held-out rows prefer.

    Args:
        build: Builds one network.
        table: Inputs, shape (N, F), and targets.
        settings: The settings; the chosen kind may have a prior of its own where ``lengthscale`` is None.
        regression: Whether targets are numbers; classes otherwise.
        weights: Weight of each row.
        together: Group of each row, whose rows are held out together.
        scale: Where targets can lie, see `choose_architecture`.
        progress: Show progress bars; a text stands in front of them.

    Returns:
        The fit.

    Raises:
        ValueError: As `fit_regression_ensembles`.
    """
    options: ChoiceOptions = {"regression": regression, "weights": weights, "scale": scale, "progress": progress}
    architecture = choose_architecture(build, table, settings, together=together, **options)
    return fit_one(build, architecture, table, settings, together=together, **options)


def choose_architecture(
    build: Build,
    table: Table,
    settings: EnsembleSettings,
    *,
    regression: bool,
    weights: Tensor | None = None,
    versions: Versions | None = None,
    together: Tensor | None = None,
    scale: TargetScale = PLAIN,
    progress: bool | str = False,
) -> Architecture:
    """Train each kind of networks for about 500 steps, and choose the one with the best held-out log likelihood.

    Each member of such a pilot holds another fifth of the rows out, so that all rows judge. If targets have a lower
    bound, the best kind is also tried on their square root and their logarithm, of which one is chosen if it is better
    by more than chance.

    Args:
        build: Builds one network.
        table: Inputs, shape (N, F), and targets.
        settings: The settings.
        regression: Whether targets are numbers; classes otherwise.
        weights: Weight of each row.
        versions: Completions of what is unknown in the rows; of no use above 10,000 rows, of which a sample is taken.
        together: Group of each row, whose rows are held out together.
        scale: Where targets can lie, in their units; its kind is the plain one, or cut off at a bound.
        progress: Show progress bars.

    Returns:
        The choice.

    Raises:
        ValueError: As `fit_regression_ensembles`.
    """
    check_tables([table], "gaussian" if regression else "categorical")
    num_rows, kinds = len(table[0]), candidates(num_many_valued(table[0]), regression=regression)
    if num_rows > PILOT_ROWS:
        table, weights, together = _sample(table, weights, together, settings.seed)
        versions = None
    if together is not None and len(together.unique()) < LEAST_GROUPS:
        together = None  # a sample of a table of few and unequal groups
    trial = _pilot(settings, num_rows, len(table[1]))
    if settings.lengthscale is not None:
        kinds = list(dict.fromkeys(replace(kind, lengthscale=None) for kind in kinds))
    scales: tuple[Kind, ...] = ("sqrt", "log") if scale.cuts and bool((table[1] > scale.bound).all()) else ()

    def tried(kind: Architecture, number: int) -> Tensor:
        said = progress and f"choosing networks, {number} of {len(kinds) + len(scales)}"
        options: ChoiceOptions = {"regression": regression, "weights": weights, "scale": scale, "progress": said}
        return fit_one(build, kind, table, trial, versions=versions, together=together, **options).scores

    scores = [tried(kind, i) for i, kind in enumerate(kinds, 1)]
    means = [mean_score(each, weights) for each in scores]
    best = process_group().from_first(lambda: max(range(len(kinds)), key=lambda i: means[i]))
    chosen, score = kinds[best], scores[best]
    for i, each in enumerate(scales, len(kinds) + 1):
        other = replace(chosen, target_scale=each)
        found = tried(other, i)
        if process_group().from_first(partial(is_beyond_chance, found - score, weights)):
            chosen, score = other, found
    return chosen


def _sample(
    table: Table, weights: Tensor | None, together: Tensor | None, seed: int
) -> tuple[Table, Tensor | None, Tensor | None]:
    """Draw the rows that rank the kinds."""
    x, y = table
    some = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:PILOT_ROWS]
    weights, together = (None if each is None else each[some] for each in (weights, together))
    return (x[some], y[some]), weights, together


def _pilot(settings: EnsembleSettings, num_rows: int, num_sampled: int) -> EnsembleSettings:
    """Settings of a training that is short, for a sample of the rows."""
    batch_size, planned = schedule(num_rows, batch_size=settings.batch_size, epochs=settings.epochs)
    return replace(
        settings,
        num_members=min(PILOT_MEMBERS, settings.members_for(num_rows)),
        batch_size=batch_size,
        epochs=max(1, round(min(planned * num_rows, PILOT_STEPS * batch_size) / num_sampled)),
        held_out_fraction=1 / PILOT_MEMBERS,
        input_noise=True,
        strength=settings.strength or 1.0,
    )


def fit_one(
    build: Build,
    architecture: Architecture,
    table: Table,
    settings: EnsembleSettings,
    *,
    regression: bool,
    weights: Tensor | None = None,
    versions: Versions | None = None,
    together: Tensor | None = None,
    scale: TargetScale = PLAIN,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
) -> EnsembleFit:
    """Train an ensemble of one kind of networks with each strength of dropout, and keep what held-out rows prefer.

    The networks of all strengths train as one program; where the settings name a strength it is the only one.

    Args:
        build: Builds one network.
        architecture: The kind.
        table: Inputs and targets.
        settings: The settings.
        regression: Whether targets are numbers; classes otherwise. What follows is as for `fit_regression_ensembles`.
        weights: Weight of each row.
        versions: Completions of what is unknown in the rows.
        together: Group of each row, whose rows are held out together.
        scale: Where targets can lie, in their units, see `choose_architecture`.
        checkpoint: File to continue from.
        progress: Show a progress bar.

    Returns:
        The fit.

    Raises:
        ValueError: As `fit_regression_ensembles`.
    """
    strengths = settings.strengths_for(len(table[1]))
    encoding = architecture.encoding(table[0])
    scaling = AS_IT_IS
    if regression:
        scaling = Scaling.fitted(replace(scale, kind=architecture.target_scale), table[1], weights)

    def network(strength: float) -> nn.Module:
        return set_strength(build(architecture, copy.deepcopy(encoding)), strength)

    count = len(strengths)
    fits = fit_ensembles(
        [partial(network, strength) for strength in strengths],
        [(table[0], scaling.encoded(table[1]))] * count,
        architecture.settings(settings),
        regression=regression,
        weights=None if weights is None else [weights] * count,
        versions=[versions] * count,
        together=[together] * count,
        scaling=scaling,
        checkpoint=checkpoint,
        progress=progress,
    )
    scores = {strength: fit.scores for strength, fit in zip(strengths, fits, strict=True)}
    chosen = process_group().from_first(lambda: choose_strength(scores, weights))
    return fits[strengths.index(chosen)]._replace(strength=chosen)
