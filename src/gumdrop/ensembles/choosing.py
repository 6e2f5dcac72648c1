"""Choose networks for a table: a few kinds are tried for a short while, then trained with two strengths of dropout.

Held-out rows decide on both. Short pilots rank the kinds, and tell how long the best is worth training: the choice
costs less than the training, and takes no row of a test.
"""

import copy
import itertools
import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from torch import nn

from gumdrop.ensembles.architecture import Architecture, Build, bins_lose, candidates, num_many_valued
from gumdrop.ensembles.fitting import EnsembleFit, fit_ensembles, joined
from gumdrop.ensembles.folds import schedule
from gumdrop.ensembles.rows import Rows
from gumdrop.ensembles.scaling import AS_IT_IS, Scaling, which_atom
from gumdrop.ensembles.settings import EnsembleSettings
from gumdrop.likelihoods import PLAIN, Likelihood, TargetScale
from gumdrop.likelihoods.hurdle import gaussian_on
from gumdrop.likelihoods.target_scale import Kind
from gumdrop.networks import set_strength
from gumdrop.training.processes.group import process_group
from gumdrop.training.progress import Show, part_of
from gumdrop.training.strength import choose_strength, is_beyond_chance, mean_and_error, mean_score

PILOT_SHARE, LEAST_PILOT_STEPS, PILOT_MEMBERS = 1 / 5, 125, 5
PILOT_ROWS = 10_000
"""Rows that rank the kinds; a longer table is sampled."""
LEAST_GAIN, SHORT = 0.03, 0.4
"""Where a pilot gains less than so many nats per row on one of half its length, the part of a training that is enough:
most of such a table is noise, which networks that train on learn by heart. Those in bins find fine structure late. With
so few rows that the standard error of the gain is larger than this, the training has its full length."""
EARLY, SHORTER = 0.4, 0.6
"""The same for classes, where the best epoch of half of all members lies in this first part of a pilot."""


def fit(
    build: Build,
    rows: Rows,
    settings: EnsembleSettings,
    likelihood: Likelihood,
    *,
    architecture: Architecture | None = None,
    scale: TargetScale = PLAIN,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Show = False,
) -> EnsembleFit:
    """Train an ensemble of the kind of networks, and with the strengths of dropout, that held-out rows prefer.

    The networks of all strengths train as one program; where the settings name a strength it is the only one. Held-out
    rows choose between the networks of one strength and those of all.

    Args:
        build: Builds one network.
        rows: The rows.
        settings: The settings; the chosen kind may have a prior of its own where ``lengthscale`` is None.
        likelihood: As for `fit_ensembles`.
        architecture: The kind; that which `choose` finds if None.
        scale: Where targets can lie, in their units, see `choose`.
        checkpoint: File to continue from if it exists, and to keep the state of the run in.
        progress: Show progress bars; a text stands in front of them.

    Returns:
        The fit.

    Raises:
        ValueError: As `fit_ensembles`.
    """
    rows.check(likelihood)
    if architecture is None:
        architecture = choose(build, rows, settings, likelihood, scale=scale, progress=progress)
    training = _Training(build, rows, settings, likelihood, scale, settings.strengths_for(len(rows)))
    fits = training.fits(architecture, checkpoint=checkpoint, progress=progress)
    mixed = [joined(fits, rows, settings, likelihood)] if len(fits) > 1 else []
    tried = {fit.strengths: fit for fit in [*mixed, *fits]}
    scores = {strengths: fit.scores for strengths, fit in tried.items()}
    return tried[process_group().from_first(lambda: choose_strength(scores, rows.weights))]


@dataclass(frozen=True, eq=False)
class _Training:
    """What is known before the kind of networks is: the arguments of `fit`, and the strengths of dropout to try."""

    build: Build
    rows: Rows
    settings: EnsembleSettings
    likelihood: Likelihood
    scale: TargetScale
    strengths: Sequence[float]

    def fits(self, architecture: Architecture, **options: Any) -> list[EnsembleFit]:
        """Train an ensemble of a kind with each strength, see `fit_ensembles`."""
        rows, likelihood, scaling = self.rows, self.likelihood, AS_IT_IS
        encoding = architecture.encoding(rows.x)
        if likelihood.is_density:
            fitted = Scaling.of_intervals if likelihood.has_open_targets else Scaling.fitted
            scaling = fitted(replace(self.scale, kind=architecture.target_scale), rows.y, rows.weights)
            likelihood = gaussian_on(scaling.scale) if self.scale.atoms else likelihood

        def network(strength: float) -> nn.Module:
            return set_strength(self.build(architecture, copy.deepcopy(encoding)), strength)

        data = [replace(rows, y=scaling.encoded(rows.y))] * len(self.strengths)
        makes = [partial(network, strength) for strength in self.strengths]
        trained = architecture.settings(self.settings, len(rows), likelihood)
        fits = fit_ensembles(makes, data, trained, likelihood, scaling=scaling, **options)
        return [fit._replace(strengths=(strength,)) for fit, strength in zip(fits, self.strengths, strict=True)]


def choose(
    build: Build,
    rows: Rows,
    settings: EnsembleSettings,
    likelihood: Likelihood,
    *,
    scale: TargetScale = PLAIN,
    progress: Show = False,
) -> Architecture:
    """Train each kind of networks for a short while, and choose the one with the best held-out log likelihood.

    Each member of such a pilot holds another fifth of the rows out, so that all rows judge. A kind is as good as with
    the best of the strengths of dropout that are tried later: some are ahead only where it is weak. Bins are not tried
    where ridge regression tells that they lose. If targets have a lower bound, the best kind is also tried on their
    square root and their logarithm, and censored where the bound is the one value that many rows share; one of these is
    chosen if it is better by more than chance. Of targets that are known in part, such as times, the logarithm is tried
    first.

    Numbers for which a pilot of half the length is nearly as good are mostly noise: these are trained with the stronger
    prior and, where that is certain, for a part of the usual epochs. Where the settings say how long or ask for fewer
    than five members, the rows are many, targets are known in part, or bins are ahead, a pilot with that prior decides
    on it. Classes whose pilot is best in an early epoch are trained for a part of the epochs, too.

    Args:
        build: Builds one network.
        rows: The rows; of more than 10,000 a sample is taken.
        settings: The settings.
        likelihood: As for `fit_ensembles`.
        scale: Where targets can lie, in their units; its kind is the plain one, or cut off at a bound.
        progress: Show progress bars.

    Returns:
        The choice.

    Raises:
        ValueError: As `fit_ensembles`.
    """
    rows.check(likelihood)
    sample = rows.sample(PILOT_ROWS, settings.seed)
    trial = _pilot(settings, len(rows), len(sample), is_density=not likelihood.has_open_targets)
    kinds = candidates(num_many_valued(rows.x), likelihood)
    plain, *binned = kinds if settings.lengthscale is None else [replace(kind, lengthscale=None) for kind in kinds]
    seen = sample.y[:, 0] == sample.y[:, -1] if likelihood.has_open_targets else which_atom(sample.y, scale.atoms) == 0
    scales: tuple[Kind, ...] = ("sqrt", "log") if scale.cuts and bool((sample.y[seen] > scale.bound).all()) else ()
    if likelihood.has_open_targets and scales:  # the usual scale of times
        plain, *binned = (replace(kind, target_scale="log") for kind in (plain, *binned))
        scales = ("sqrt", "identity")
    if scale.atoms == (scale.bound,):
        scales += ("censored",)
    binned = [kind for kind in binned if not _loses(kind, sample, likelihood, settings.seed)]
    length = settings.epochs is None and settings.patience is None and len(sample) == len(rows)
    tells_noise = length and likelihood.is_density and not likelihood.has_open_targets
    tells_noise = tells_noise and trial.num_members == PILOT_MEMBERS  # fewer leave few rows to tell it by
    count = 1 + len(binned) + len(scales) + (tells_noise or plain.lengthscale is not None)
    training = _Training(build, sample, trial, likelihood, scale, settings.strengths_for(len(rows)))
    pilots = _Pilots(training, progress, count)
    chosen, fits = pilots.kind(plain, binned, tells_noise=tells_noise)
    pilot = pilots.best(fits)
    for each in scales:
        other = replace(chosen, target_scale=each)
        found = pilots.best(pilots.run(other))
        if process_group().from_first(partial(is_beyond_chance, found.scores - pilot.scores, sample.weights)):
            chosen, pilot = other, found
    if tells_noise and not chosen.bins_per_input:
        return pilots.judged_by_length(chosen, pilot)
    if length and not likelihood.is_density and pilots.peak(fits) <= EARLY:
        return replace(chosen, share=SHORTER)
    return chosen


def _loses(kind: Architecture, rows: Rows, likelihood: Likelihood, seed: int) -> bool:
    """Tell whether networks in bins need no trial."""
    encoding = kind.encoding(rows.x)
    if encoding is None:
        return True
    if rows.weights is not None or likelihood.has_open_targets or not likelihood.is_density:
        return False
    return process_group().from_first(lambda: bins_lose(rows.x, rows.y, encoding, seed))


@dataclass(frozen=True, eq=False)
class _Pilots:
    """Short trainings, whose held-out rows all processes judge alike."""

    training: _Training
    progress: Show
    count: int
    """How many there are; one more where the stronger prior beats bins, and is then tried at half the length."""
    numbers: Iterator[int] = field(default_factory=partial(itertools.count, 1))

    def run(self, kind: Architecture, **changes: Any) -> list[EnsembleFit]:
        """Train a kind with each strength, with changes to the training."""
        said = part_of(self.progress, "choosing networks,", min(next(self.numbers), self.count), self.count)
        return replace(self.training, **changes).fits(kind, is_kept=False, progress=said)

    def kind(
        self, plain: Architecture, binned: Sequence[Architecture], *, tells_noise: bool
    ) -> tuple[Architecture, list[EnsembleFit]]:
        """Return the better of inputs as they are and those in bins, and its fits.

        The stronger prior is tried here, unless the length of a pilot on plain inputs ``tells_noise`` later.
        """
        chosen, fits = plain, self.run(plain)
        for kind in (*binned, replace(plain, lengthscale=None)):
            if kind != plain and (kind.bins_per_input or chosen.bins_per_input or not tells_noise):
                fits_of_kind = self.run(kind)
                best = self.best([*fits, *fits_of_kind])
                if any(best is each for each in fits_of_kind):
                    chosen, fits = kind, fits_of_kind
        return chosen, fits

    def best(self, fits: Sequence[EnsembleFit]) -> EnsembleFit:
        """Return the fit with the best mean score."""
        means = [mean_score(fit.scores, self.training.rows.weights) for fit in fits]
        return fits[process_group().from_first(lambda: max(range(len(means)), key=means.__getitem__))]

    def judged_by_length(self, kind: Architecture, pilot: EnsembleFit) -> Architecture:
        """Return a kind, or where its pilot is hardly ahead of one of half its length, what most noise asks for."""
        settings = self.training.settings
        half = replace(settings, epochs=max(1, (settings.epochs or 1) // 2))
        gains = pilot.scores - self.best(self.run(kind, settings=half, strengths=pilot.strengths)).scores
        gain, error = process_group().from_first(lambda: mean_and_error(gains, self.training.rows.weights))
        if gain >= LEAST_GAIN:
            return kind
        return replace(kind, share=SHORT if error < LEAST_GAIN else 1.0, lengthscale=None)

    def peak(self, fits: Sequence[EnsembleFit]) -> float:
        """Tell in which part of a pilot the best epoch of its members lies, the median of all strengths."""
        peaks = [member.best_epoch / len(member.history) for fit in fits for member in fit.members]
        return process_group().from_first(lambda: statistics.median(peaks))


def _pilot(settings: EnsembleSettings, num_rows: int, num_sampled: int, *, is_density: bool) -> EnsembleSettings:
    """Settings of a training that is short, for a sample of the rows."""
    batch_size, planned = schedule(
        num_rows, batch_size=settings.batch_size, epochs=settings.epochs, is_density=is_density
    )
    least = LEAST_PILOT_STEPS * min(batch_size, num_rows)
    visits = min(planned * num_rows, max(PILOT_SHARE * planned * num_rows, least))
    return replace(
        settings,
        num_members=min(PILOT_MEMBERS, settings.members_for(num_rows)),
        batch_size=batch_size,
        epochs=max(1, round(visits / num_sampled)),
        held_out_fraction=1 / PILOT_MEMBERS,
        input_noise=True,
    )
