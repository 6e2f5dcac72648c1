"""The default of gumdrop on the splits of `gumdrop reproduce uci`: networks that held-out rows choose."""

import time
from functools import partial

from torch import nn

from gumdrop.ensembles import Architecture, EnsembleSettings, fit_chosen
from gumdrop.layers import PiecewiseLinear
from gumdrop_experiments.uci.work import NUM_SAMPLES, Outcome, Work, in_units, mean_rates

__all__ = ["chosen"]


def chosen(work: Work) -> Outcome:
    """Train the default of gumdrop on each split: networks that held-out rows choose.

    Args:
        work: What to do.

    Returns:
        What came out.
    """
    fits, settings = [], EnsembleSettings(seed=work.seed, epochs=work.epochs)
    started = time.process_time()
    for i, split in enumerate(work.splits, 1):
        build = partial(_built, split.x_train.shape[1])
        data, said = (split.x_train, split.y_train), f"{work.name}, split {i} of {len(work.splits)}"
        fits.append(fit_chosen(build, data, settings, regression=True, progress=said))
    seconds = time.process_time() - started
    predictions = [
        fitted.model.predict(split.x_test, num_samples=NUM_SAMPLES, seed=work.seed)
        for fitted, split in zip(fits, work.splits, strict=True)
    ]
    passes = sum(
        sum(len(member.history) for member in fit.members) * len(s.x_train)
        for fit, s in zip(fits, work.splits, strict=True)
    )
    return Outcome(in_units(predictions, work.splits), [mean_rates(fit.members) for fit in fits], seconds, passes, [])


def _built(num_inputs: int, architecture: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
    return architecture.network(num_inputs, 1, encoding, homoscedastic_noise=True)
