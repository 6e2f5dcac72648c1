"""The ensembles of `gumdrop reproduce uci`: of networks that held-out rows choose, and of 2 x 50 as one program."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from gumdrop.ensembles import Architecture, Build, EnsembleFit, EnsembleSettings, Rows, fit, fit_ensembles
from gumdrop.layers import PiecewiseLinear, dropout_blocks
from gumdrop.likelihoods import Gaussian
from gumdrop.networks import fix_dropout
from gumdrop_experiments.harness import NO_DROPOUT, START
from gumdrop_experiments.uci.work import NUM_SAMPLES, Outcome, Work, in_units, mean_rates, network, training_parts


def chosen(
    work: Work, *, kind: Callable[[int], Architecture] | None = None, dropout: bool = True, **options: Any
) -> Outcome:
    """Train the default of gumdrop on each split: networks that held-out rows choose."""
    fits, settings = [], EnsembleSettings(seed=work.seed, epochs=work.epochs, **options)
    started = time.process_time()
    for i, split in enumerate(work.splits, 1):
        num_inputs = split.x_train.shape[1]
        build: Build = partial(_build, num_inputs, dropout)
        said = f"{work.name}, split {i} of {len(work.splits)}"
        rows, architecture = Rows(split.x_train, split.y_train), kind(num_inputs) if kind else None
        fits.append(fit(build, rows, settings, Gaussian(), architecture=architecture, progress=said))
    seconds = time.process_time() - started
    passes = sum(
        sum(len(member.history) for member in fitted.members) * len(split.x_train)
        for fitted, split in zip(fits, work.splits, strict=True)
    )
    return _outcome(work, fits, dropout, seconds, passes)


def _build(num_inputs: int, dropout: bool, kind: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
    built = kind.network(num_inputs, 1, encoding, homoscedastic_noise=True)
    if dropout:
        return built
    for block in dropout_blocks(built):
        block.site.start_at(NO_DROPOUT)
    return fix_dropout(built)


def ensemble(work: Work, *, dropout: bool = True, num_members: int = 5, **options: Any) -> Outcome:
    """Train an ensemble of the network that all methods here have."""
    make = partial(network, work.splits[0], p=START if dropout else NO_DROPOUT, fixed=not dropout)
    batch_size, epochs = work.schedule
    started = time.process_time()
    parts = [Rows(*part) for part in training_parts(work.splits)]
    fits = fit_ensembles(
        [make] * len(parts),
        parts,
        EnsembleSettings(batch_size=batch_size, epochs=epochs, seed=work.seed, num_members=num_members, **options),
        Gaussian(),
        checkpoint=work.checkpoint("training"),
        progress=work.name,
    )
    seconds = time.process_time() - started
    members = len(fits[0].members)
    # Members leave out a fold, but take as many steps as the largest.
    passes = sum(epochs * members * (len(split.x_train) - len(split.x_train) // 10) for split in work.splits)
    return _outcome(work, fits, dropout, seconds, passes)


def _outcome(work: Work, fits: Sequence[EnsembleFit], dropout: bool, seconds: float, passes: int) -> Outcome:
    predictions = [
        fitted.model.predict(split.x_test, num_samples=NUM_SAMPLES, seed=work.seed)
        for fitted, split in zip(fits, work.splits, strict=True)
    ]
    rates = [mean_rates(fitted.members) for fitted in fits] if dropout else []
    return Outcome(in_units(predictions, work.splits), rates, seconds, passes, [])
