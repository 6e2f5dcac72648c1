"""Which networks suit a table: a few kinds are tried for a short while, and held-out rows decide.

No network is right for every table. One of smooth units learns smooth functions with the fewest rows; one whose inputs
are cut into bins (`gumdrop.layers.PiecewiseLinear`) sees the fine structure that most tables have; and how strong the
prior should be differs. Pilots of some hundred steps rank them: the choice costs less than the training, and takes no
row of a test.
"""

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor, nn

from gumdrop.ensembles.correction import MOST_ROWS, Versions
from gumdrop.ensembles.fitting import EnsembleFit, Table, check_tables, fit_ensembles
from gumdrop.ensembles.folds import schedule
from gumdrop.ensembles.scaling import AS_IT_IS, Scaling
from gumdrop.ensembles.settings import EnsembleSettings
from gumdrop.layers import PiecewiseLinear
from gumdrop.networks.mlp import Activation, mlp
from gumdrop.objective.kl import Lengthscale
from gumdrop.prediction import PLAIN, TargetScale
from gumdrop.prediction.target_scale import Kind
from gumdrop.training.processes.group import process_group

__all__ = ["Architecture", "Build", "Options", "Pilot", "candidates", "fit_chosen", "fit_one", "run_pilots"]

HIDDEN = (64, 64)
"""Units: ten networks of this size are better than five of twice the size, and cost less."""
PILOT_STEPS, PILOT_MEMBERS = 500, 5
PILOT_ROWS = 10_000
"""Rows that rank the kinds; a longer table is sampled."""
BINS_PER_INPUT, MOST_BINS = 32, 2048
"""Bins of an input, and of all together."""
LEAST_BINS = 4
"""Fewer for each input show nothing."""
LEAST_GROUPS = 2
EDGE_ROWS = 20_000
"""Rows that place the edges of bins."""


@dataclass(frozen=True)
class Architecture:
    """What is chosen about the networks of a table."""

    hidden: tuple[int, ...]
    """Units of the hidden layers."""
    activation: Activation = "relu"
    """Between the layers."""
    bins_per_input: int = 0
    """Bins that each number is cut into, see `gumdrop.layers.PiecewiseLinear`; 0 for none."""
    lengthscale: Lengthscale | None = None
    """Prior; that of the settings if None."""
    pace: float = 1.0
    """What the learning rate of the settings is multiplied by."""
    target_scale: Kind = "identity"
    """What they see of the target: itself, its root or its logarithm, see `gumdrop.prediction.TargetScale`."""

    def network(
        self, num_inputs: int, num_outputs: int, encoding: PiecewiseLinear | None = None, *, homoscedastic_noise: bool
    ) -> nn.Sequential:
        """Build one network of this kind.

        Args:
            num_inputs: Encoded inputs.
            num_outputs: See `gumdrop.networks.mlp`.
            encoding: What stands in front, or None.
            homoscedastic_noise: See `gumdrop.networks.mlp`.

        Returns:
            A network with learned dropout.
        """
        return mlp(
            num_inputs,
            num_outputs,
            hidden=self.hidden,
            homoscedastic_noise=homoscedastic_noise,
            activation=self.activation,
            encoding=encoding,
        )


class Options(TypedDict):
    """What a pilot and a training have in common."""

    regression: bool
    weights: Tensor | None
    scale: TargetScale
    progress: bool | str


Build = Callable[[Architecture, PiecewiseLinear | None], nn.Module]
"""Builds one network, with an encoding in front or none."""


def candidates(num_inputs: int, *, regression: bool) -> list[Architecture]:
    """Kinds of networks to try on a table.

    Args:
        num_inputs: Encoded inputs.
        regression: Whether targets are numbers; classes otherwise.

    Returns:
        Plain inputs, for numbers with a weak and a fainter prior, and inputs in bins where that is possible.

    Example:
        >>> [each.bins_per_input for each in candidates(8, regression=True)]
        [0, 0, 32]
    """
    faint: Lengthscale | None = "faint" if regression else None
    kinds = [Architecture(HIDDEN, "silu"), Architecture(HIDDEN, "silu", lengthscale=faint)]
    bins = min(BINS_PER_INPUT, MOST_BINS // num_inputs)
    if bins >= LEAST_BINS:
        kinds.append(Architecture(HIDDEN, "silu", bins, faint, pace=0.5))
    return list(dict.fromkeys(kinds))


class Pilot(NamedTuple):
    """What pilots chose."""

    architecture: Architecture
    """The kind of networks."""
    epochs: int | None = None
    """Passes of the pilots; None where they saw a sample of the rows, or the length of the training was given."""
    scores: Tensor | None = None
    """Held-out log likelihood of each row after a pilot of the chosen kind, NaN where there is none."""
    weights: Tensor | None = None
    """Weight of each row; 1 if None."""

    def is_better_than(self, fitted: EnsembleFit) -> bool:
        """Tell whether the pilot was better than the training, on rows that neither saw, by more than chance."""
        if self.scores is None or not len(fitted.scores):
            return False
        return _is_beyond_chance(self.scores - _by_row(fitted, len(self.scores)), self.weights)


def _is_beyond_chance(gains: Tensor, weights: Tensor | None) -> bool:
    """Whether gains of rows, NaN where there is none, are above 0 on average by more than their standard error."""
    gains, known = gains.double(), ~gains.isnan()
    weights = (torch.ones(len(gains)) if weights is None else weights.cpu()).double()[known]
    gains = gains[known]
    mean = (weights * gains).sum() / weights.sum()
    error = ((weights * (gains - mean).square()).sum() / weights.sum() / weights.sum()).sqrt()
    return process_group().from_first(lambda: bool(mean > error))


def fit_chosen(
    build: Build,
    table: Table,
    settings: EnsembleSettings,
    *,
    regression: bool,
    weights: Tensor | None = None,
    scale: TargetScale = PLAIN,
    progress: bool | str = False,
) -> EnsembleFit:
    """Train an ensemble of the kind of networks that held-out rows prefer, as long as they prefer.

    Args:
        build: Builds one network.
        table: Inputs, shape (N, F), and targets.
        settings: The settings; the chosen kind may have a prior of its own where ``lengthscale`` is None.
        regression: Whether targets are numbers; classes otherwise.
        weights: Weight of each row.
        scale: Where targets can lie, see `run_pilots`.
        progress: Show progress bars; a text stands in front of them.

    Returns:
        The fit.

    Raises:
        ValueError: As `fit_regression_ensembles`.
    """
    options: Options = {"regression": regression, "weights": weights, "scale": scale, "progress": progress}
    pilot = run_pilots(build, table, settings, **options)
    fitted = fit_one(build, pilot.architecture, table, settings, **options)
    if pilot.is_better_than(fitted):
        return fit_one(build, pilot.architecture, table, replace(settings, epochs=pilot.epochs), **options)
    return fitted


def run_pilots(
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
) -> Pilot:
    """Train each kind of networks for about 400 steps, and choose the one with the best held-out log likelihood.

    Each member of a pilot holds another fifth of the rows out, so that all rows judge. If targets have a lower bound,
    the best kind is also tried on their square root and their logarithm, of which one is chosen if it is better by more
    than chance.

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
    x, y = table
    batch_size, planned = schedule(len(x), batch_size=settings.batch_size, epochs=settings.epochs)
    whole = len(x) <= PILOT_ROWS
    if not whole:
        some = torch.randperm(len(x), generator=torch.Generator().manual_seed(settings.seed))[:PILOT_ROWS]
        table, weights, versions = (x[some], y[some]), None if weights is None else weights[some], None
        together = None if together is None else together[some]
    if together is not None and len(together.unique()) < LEAST_GROUPS:
        together = None  # a sample of a table of few and unequal groups
    short = max(1, round(min(planned * len(x), PILOT_STEPS * batch_size) / len(table[1])))
    kinds = candidates(x.shape[1], regression=regression)
    if settings.lengthscale is not None:
        kinds = list(dict.fromkeys(replace(kind, lengthscale=None) for kind in kinds))
    count = min(PILOT_MEMBERS, settings.members_for(len(x)))
    trial = replace(settings, num_members=count, batch_size=batch_size, epochs=short)
    trial = replace(trial, held_out_fraction=1 / PILOT_MEMBERS, input_noise=True)
    scales: tuple[Kind, ...] = ("sqrt", "log") if scale.cuts and bool((table[1] > scale.bound).all()) else ()

    def tried(kind: Architecture, number: int) -> Tensor:
        said = progress and f"choosing networks, {number} of {len(kinds) + len(scales)}"
        options: Options = {"regression": regression, "weights": weights, "scale": scale, "progress": said}
        fitted = fit_one(build, kind, table, trial, versions=versions, together=together, **options)
        return _by_row(fitted, len(table[1]))

    scores = [tried(kind, i) for i, kind in enumerate(kinds, 1)]
    counts = torch.ones(len(table[1])) if weights is None else weights.cpu()
    means = [(each * counts).nansum() / counts[~each.isnan()].sum() for each in scores]
    best = process_group().from_first(lambda: max(range(len(kinds)), key=lambda i: means[i]))
    chosen, score = kinds[best], scores[best]
    for i, each in enumerate(scales, len(kinds) + 1):
        other = replace(chosen, target_scale=each)
        found = tried(other, i)
        if _is_beyond_chance(found - score, weights):
            chosen, score = other, found
    if whole and short < planned and settings.epochs is None:
        return Pilot(chosen, short, score, weights)
    return Pilot(chosen)


def _by_row(fitted: EnsembleFit, num_rows: int) -> Tensor:
    """Held-out log likelihood of each row, NaN where there is none."""
    places = torch.cat([rows[:MOST_ROWS] for rows in fitted.held_out]).long()
    sums, counts = torch.zeros(2, num_rows)
    sums.index_add_(0, places, fitted.scores.cpu().float())
    counts.index_add_(0, places, torch.ones(len(places)))
    return sums / counts  # 0 / 0 is NaN


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
    """Train an ensemble of one kind of networks.

    Args:
        build: Builds one network.
        architecture: The kind.
        table: Inputs and targets.
        settings: The settings.
        regression: Whether targets are numbers; classes otherwise. What follows is as for `fit_regression_ensembles`.
        weights: Weight of each row.
        versions: Completions of what is unknown in the rows.
        together: Group of each row, whose rows are held out together.
        scale: Where targets can lie, in their units, see `run_pilots`.
        checkpoint: File to continue from.
        progress: Show a progress bar.

    Returns:
        The fit.

    Raises:
        ValueError: As `fit_regression_ensembles`.
    """
    encoding = _encoding(architecture, table)
    settings = replace(settings, lr=settings.lr * architecture.pace)
    if settings.lengthscale is None:
        settings = replace(settings, lengthscale=architecture.lengthscale)
    scaling = AS_IT_IS
    if regression:
        scaling = Scaling.fitted(replace(scale, kind=architecture.target_scale), table[1], weights)
    (fitted,) = fit_ensembles(
        lambda: build(architecture, copy.deepcopy(encoding)),
        [(table[0], scaling.encoded(table[1]))],
        settings,
        regression=regression,
        weights=None if weights is None else [weights],
        versions=[versions],
        together=[together],
        scaling=scaling,
        checkpoint=checkpoint,
        progress=progress,
    )
    return fitted


def _encoding(architecture: Architecture, table: Table) -> PiecewiseLinear | None:
    """Place the edges of bins at quantiles of the rows; None without bins."""
    if not architecture.bins_per_input:
        return None
    x = table[0]
    count = min(len(x), EDGE_ROWS)
    rows = torch.linspace(0, len(x) - 1, count, dtype=torch.float64).long()
    encoding = PiecewiseLinear.fitted(x[rows], architecture.bins_per_input)
    return encoding if encoding.num_bins else None  # inputs of two values are linear as they are
