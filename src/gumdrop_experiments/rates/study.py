"""Every rate on every table."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gumdrop.ensembles import (
    Architecture,
    EnsembleFit,
    EnsembleSettings,
    choose_architecture,
    ensemble_of,
    fit_ensembles,
)
from gumdrop.layers import PiecewiseLinear, dropout_blocks
from gumdrop.networks import dropout_rates, fix_dropout, set_strength
from gumdrop.training import STRENGTHS, choose_strength
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.rates.results import ELBO, FIXED, GRID, HELD_OUT, OFF, summary
from gumdrop_experiments.rates.sets import SETS, Rows, TableOfRates
from gumdrop_experiments.rates.settings import Settings

__all__ = ["part", "study"]

NUM_SAMPLES = 100
QUICK_SPLITS, QUICK_EPOCHS = 2, 3
QUICK_SETS = ("diabetes", "friedman", "cancer")
ALMOST_NONE = 1e-50
"""A rate that is 0 in float32."""


def study(settings: Settings, run: Run) -> dict[str, Any]:
    """Train and score all rates on all splits of the tables."""
    quick = run.options.quick
    names = settings.dataset or (QUICK_SETS if quick else tuple(SETS))
    if set(names) - set(QUICK_SETS) - {"noisy", "smooth"}:
        for folder in ("uci", "tables"):
            data_folder(run.options, folder)
    epochs = QUICK_EPOCHS if quick else None
    splits = {
        name: SETS[name].read(
            run.options.data,
            min(SETS[name].splits, settings.splits or (QUICK_SPLITS if quick else SETS[name].splits)),
            run.options.seed,
        )
        for name in names
    }
    parts = run.parts(
        {
            f"{name}.{i}": partial(part, SETS[name], rows, run.options.seed + i, epochs)
            for name, each in splits.items()
            for i, rows in enumerate(each)
        }
    )
    sets = {name: [parts[f"{name}.{i}"] for i in range(len(each))] for name, each in splits.items()}
    rows = {name: len(each[0].y_train) for name, each in splits.items()}
    return {
        "labels": {name: SETS[name].label for name in names},
        "rows": rows,
        "gaps": [n for n in names if SETS[n].gaps],
        **summary(sets, [n for n in names if SETS[n].gaps]),
    }


def part(table: TableOfRates, rows: Rows, seed: int, epochs: int | None) -> dict[str, Any]:
    """Train ensembles with all rates on one split, as two programs, and score them and a network of each."""
    regression = not table.num_classes
    settings = EnsembleSettings(seed=seed, epochs=epochs)
    train = rows.x_train, rows.y_train

    def build(architecture: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
        return architecture.network(
            rows.x_train.shape[1], table.num_classes or 1, encoding, homoscedastic_noise=regression
        )

    kind = choose_architecture(build, train, settings, regression=regression)
    encoding = kind.encoding(rows.x_train)

    def learned(strength: float) -> nn.Module:
        return set_strength(build(kind, encoding), strength)

    def fixed(p: float) -> nn.Module:
        network = build(kind, encoding)
        for block in dropout_blocks(network):
            block.site.start_at(p)
        return fix_dropout(network)

    makes = [[partial(learned, strength) for strength in STRENGTHS]]
    makes.append([partial(fixed, p) for p in (ALMOST_NONE, *FIXED)])
    fits = [fit_ensembles(each, [train] * len(each), kind.settings(settings), regression=regression) for each in makes]
    return {
        "bins": kind.bins_per_input,
        "ensemble": _scored(fits, rows, seed),
        "single": _scored([[_first(fit, train, settings, regression) for fit in each] for each in fits], rows, seed),
    }


def _first(fit: EnsembleFit, train: tuple[Tensor, Tensor], settings: EnsembleSettings, regression: bool) -> EnsembleFit:
    """Take the first network by itself, with the noise of its own held-out rows."""
    held_out = fit.held_out[:1]
    model, scores = ensemble_of(list(fit.model.members)[:1], train, held_out, settings, regression=regression)
    return EnsembleFit(model, fit.members[:1], held_out, scores)


def _scored(fits: Sequence[Sequence[EnsembleFit]], rows: Rows, seed: int) -> dict[str, Any]:
    """Log likelihood of the test part with each rate, and what held-out rows chose."""
    learned, fixed = fits
    scores = {strength: fit.scores for strength, fit in zip(STRENGTHS, learned, strict=True)}
    strength = choose_strength(scores)
    arms = dict(zip((OFF, *map(str, FIXED)), fixed, strict=True))
    grid = max(arms, key=lambda name: np.nan_to_num(arms[name].scores.nanmean().item(), nan=-np.inf))
    by_strength = dict(zip(STRENGTHS, learned, strict=True))
    test = {name: _score(fit, rows, seed) for name, fit in arms.items()}
    of_strengths = {name: _score(fit, rows, seed) for name, fit in by_strength.items()}
    test[GRID] = test[grid]
    test[ELBO], test[HELD_OUT] = of_strengths[1.0], of_strengths[strength]
    members = by_strength[strength].model.members
    rates = np.mean([[float(p) for p in dropout_rates(member).values()] for member in members], axis=0)
    return {
        "log_likelihood": test,
        "strength": strength,
        "by_strength": {str(name): value for name, value in of_strengths.items()},
        "grid": grid,
        "rates": rates.tolist(),
    }


@torch.no_grad()
def _score(fit: EnsembleFit, rows: Rows, seed: int) -> float:
    prediction = fit.model.predict(rows.x_test, num_samples=NUM_SAMPLES, seed=seed)
    return float(prediction.log_prob(rows.y_test).double().mean())
