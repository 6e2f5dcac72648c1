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
from functools import partial
from typing import TypedDict

import torch
from torch import Tensor, nn

from gumdrop.ensembles.correction import Versions
from gumdrop.ensembles.fitting import EnsembleFit, Table, check_tables, fit_ensembles
from gumdrop.ensembles.folds import schedule
from gumdrop.ensembles.scaling import AS_IT_IS, Scaling
from gumdrop.ensembles.settings import EnsembleSettings
from gumdrop.layers import PiecewiseLinear
from gumdrop.networks import set_strength
from gumdrop.networks.mlp import Activation, mlp
from gumdrop.objective.kl import Lengthscale
from gumdrop.prediction import PLAIN, TargetScale
from gumdrop.prediction.target_scale import Kind
from gumdrop.training import RowSource
from gumdrop.training.processes.group import process_group
from gumdrop.training.strength import choose_strength, is_beyond_chance, mean_score

__all__ = ["Architecture", "Build", "Options", "candidates", "choose_architecture", "fit_chosen", "fit_one"]

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

    def encoding(self, x: Tensor | RowSource) -> PiecewiseLinear | None:
        """Place the edges of bins at quantiles of rows.

        Args:
            x: Inputs, shape (N, F).

        Returns:
            What stands in front of the network; None without bins, or where no input has more than two values.
        """
        if not self.bins_per_input:
            return None
        count = min(len(x), EDGE_ROWS)
        rows = torch.linspace(0, len(x) - 1, count, dtype=torch.float64).long()
        encoding = PiecewiseLinear.fitted(x[rows], self.bins_per_input)
        return encoding if encoding.num_bins else None  # inputs of two values are linear as they are

    def settings(self, settings: EnsembleSettings) -> EnsembleSettings:
        """Give settings the learning rate of this kind, and where they name none its prior.

        Args:
            settings: The settings.

        Returns:
            Those to train with.
        """
        lengthscale = self.lengthscale if settings.lengthscale is None else settings.lengthscale
        return replace(settings, lr=settings.lr * self.pace, lengthscale=lengthscale)


class Options(TypedDict):
    """What the choice of networks and their training have in common."""

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
    options: Options = {"regression": regression, "weights": weights, "scale": scale, "progress": progress}
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
    x, y = table
    batch_size, planned = schedule(len(x), batch_size=settings.batch_size, epochs=settings.epochs)
    if len(x) > PILOT_ROWS:
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
    trial = replace(trial, held_out_fraction=1 / PILOT_MEMBERS, input_noise=True, strength=trial.strength or 1.0)
    scales: tuple[Kind, ...] = ("sqrt", "log") if scale.cuts and bool((table[1] > scale.bound).all()) else ()

    def tried(kind: Architecture, number: int) -> Tensor:
        said = progress and f"choosing networks, {number} of {len(kinds) + len(scales)}"
        options: Options = {"regression": regression, "weights": weights, "scale": scale, "progress": said}
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
