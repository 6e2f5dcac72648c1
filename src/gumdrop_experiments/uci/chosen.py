"""The default of gumdrop on the splits of `gumdrop reproduce uci`: networks that held-out rows choose."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from gumdrop.ensembles import Architecture, Build, EnsembleSettings, Rows, fit
from gumdrop.layers import PiecewiseLinear, dropout_blocks
from gumdrop.likelihoods import Gaussian
from gumdrop.networks import fix_dropout
from gumdrop_experiments.harness import NO_DROPOUT
from gumdrop_experiments.uci.work import NUM_SAMPLES, Outcome, Work, in_units, mean_rates


def chosen(
    work: Work, *, kind: Callable[[int], Architecture] | None = None, dropout: bool = True, **options: Any
) -> Outcome:
    """Train the default of gumdrop on each split: networks that held-out rows choose."""
    fits, settings = [], EnsembleSettings(seed=work.seed, epochs=work.epochs, **options)
    started = time.process_time()
    for i, split in enumerate(work.splits, 1):
        num_inputs = split.x_train.shape[1]
        build: Build = partial(_learned if dropout else _without, num_inputs)
        said = f"{work.name}, split {i} of {len(work.splits)}"
        rows, architecture = Rows(split.x_train, split.y_train), kind(num_inputs) if kind else None
        fits.append(fit(build, rows, settings, Gaussian(), architecture=architecture, progress=said))
    seconds = time.process_time() - started
    predictions = [
        fitted.model.predict(split.x_test, num_samples=NUM_SAMPLES, seed=work.seed)
        for fitted, split in zip(fits, work.splits, strict=True)
    ]
    passes = sum(
        sum(len(member.history) for member in fit.members) * len(s.x_train)
        for fit, s in zip(fits, work.splits, strict=True)
    )
    rates = [mean_rates(fit.members) for fit in fits] if dropout else []
    return Outcome(in_units(predictions, work.splits), rates, seconds, passes, [])


def _learned(num_inputs: int, kind: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
    return kind.network(num_inputs, 1, encoding, homoscedastic_noise=True)


def _without(num_inputs: int, kind: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
    network = _learned(num_inputs, kind, encoding)
    for block in dropout_blocks(network):
        block.site.start_at(NO_DROPOUT)
    return fix_dropout(network)
