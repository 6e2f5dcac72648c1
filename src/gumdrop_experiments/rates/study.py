"""Every rate on every table."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from gumdrop.ensembles import Architecture, EnsembleFit, EnsembleSettings, Rows, choose, schedule
from gumdrop.layers import PiecewiseLinear
from gumdrop.likelihoods import Categorical, Gaussian
from gumdrop.metrics import accuracy, rmse
from gumdrop.networks import dropout_rates
from gumdrop.training import STRENGTHS, choose_strength
from gumdrop_experiments.data.download import cache_folder
from gumdrop_experiments.data.uci import Split
from gumdrop_experiments.harness import Plain, Run, data_folder
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.rates import Settings
from gumdrop_experiments.rates.arms import ARMS, Trained
from gumdrop_experiments.rates.ensembles import ALMOST_NONE, Setup, by_held_out_rows, chosen, fixed, learned
from gumdrop_experiments.rates.results import ELBO, FIXED, GRID, HELD_OUT, OFF, SIZES, beside_grid, gains, summary
from gumdrop_experiments.rates.sets import FOLDERS, SETS, TableOfRates

Name = TypeVar("Name", str, float)
NUM_SAMPLES = 100
EVERY_STRENGTH = tuple(sorted({*STRENGTHS, *EnsembleSettings().strengths_for(0)}))
"""Of one network and of ensembles."""
LARGE = 10_000
"""Training rows from which a table is held against the grid by itself; `gumdrop fit` there trains one strength."""
QUICK_SPLITS, QUICK_EPOCHS = 2, 3
QUICK_SETS = ("diabetes", "friedman", "cancer")


def study(settings: Settings, run: Run) -> Plain:
    """Train and score all rates on all splits of the tables."""
    quick = run.options.quick
    names = settings.dataset or (QUICK_SETS if quick else tuple(SETS))
    for folder, sources in FOLDERS.items():
        if any(SETS[name].folder == folder for name in names):
            data_folder(run.options, folder, sources=sources)
    epochs, most = (QUICK_EPOCHS, QUICK_SPLITS) if quick else (None, None)
    data, seed = run.options.data or cache_folder(), run.options.seed
    counts = {name: min(SETS[name].splits, settings.splits or most or SETS[name].splits) for name in names}
    splits = {name: SETS[name].read(data, count, seed) for name, count in counts.items()}
    parts = run.parts(
        {
            (name, i): partial(part, SETS[name], rows, seed + i, epochs, settings.arms)
            for name, each in splits.items()
            for i, rows in enumerate(each)
        }
    )
    sets = {name: [parts[name, i] for i in range(len(each))] for name, each in splits.items()}
    whole = {name: each for name, each in sets.items() if SETS[name].most_steps is None}
    rows = {name: len(each[0].y_train) for name, each in splits.items()}
    results = {
        "labels": {name: SETS[name].label for name in names},
        "rows": rows,
        "gaps": [name for name in names if SETS[name].gaps],
        **summary(whole, [name for name in whole if SETS[name].gaps]),
    }
    if large := [name for name in names if rows[name] >= LARGE]:
        results["large"] = {size: {name: beside_grid(sets[name][0][size]) for name in large} for size in SIZES}
    return {**results, "arms": gains(sets, settings.arms)} if settings.arms else results


def part(table: TableOfRates, rows: Split, seed: int, epochs: int | None, arms: Sequence[str] = ()) -> Plain:
    """Train ensembles with all rates on one split, as two programs, and score them and a network of each."""
    likelihood = Categorical() if table.num_classes else Gaussian()
    settings = EnsembleSettings(seed=seed, epochs=epochs or _most_epochs(len(rows.y_train), table.most_steps))
    num_inputs, num_outputs = rows.x_train.shape[1], table.num_classes or 1

    def build(kind: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
        return kind.network(num_inputs, num_outputs, encoding, homoscedastic_noise=not table.num_classes)

    train = rows.x_train, rows.y_train
    kind = choose(build, Rows(*train), settings, likelihood)
    settings = kind.settings(settings, len(rows.y_train), likelihood)
    setup = Setup(partial(build, kind, kind.encoding(rows.x_train)), train, settings, likelihood)
    layers = len(kind.hidden) + 1
    rates = dict(zip((OFF, *map(str, FIXED)), (ALMOST_NONE, *FIXED), strict=True))
    of_strengths = setup.fit([partial(learned, setup.build, [strength] * layers) for strength in EVERY_STRENGTH])
    of_rates = setup.fit([partial(fixed, setup.build, [p] * layers) for p in rates.values()])
    trained = Trained(dict(zip(EVERY_STRENGTH, of_strengths, strict=True)), dict(zip(rates, of_rates, strict=True)))
    first = Trained(_first(setup, trained.learned), _first(setup, trained.fixed))
    strength = choose_strength({strength: first.learned[strength].scores for strength in STRENGTHS})
    found = {
        "bins": kind.bins_per_input,
        "ensemble": _scored(trained, chosen(setup, trained.learned), rows, seed),
        "single": _scored(first, first.learned[strength]._replace(strengths=(strength,)), rows, seed),
    }
    return {**found, "arms": {name: _arm(name, setup, trained, rows, seed) for name in arms}} if arms else found


def _most_epochs(num_rows: int, most_steps: int | None) -> int | None:
    """Passes that take no more steps than that, and no more than the default takes."""
    if most_steps is None:
        return None
    batch_size, planned = schedule(num_rows)
    return min(planned, max(1, most_steps * batch_size // num_rows))


def _first(setup: Setup, fits: Mapping[Name, EnsembleFit]) -> dict[Name, EnsembleFit]:
    """Take the first network of each by itself, with the noise of its own held-out rows."""
    return {name: setup.mixed(list(fit.model.members)[:1], fit) for name, fit in fits.items()}


def _arm(name: str, setup: Setup, trained: Trained, rows: Split, seed: int) -> Plain:
    fit, chosen = ARMS[name](setup, trained)
    return {"log_likelihood": _score(fit, rows, seed)[0].mean().item(), "chosen": chosen, "rates": _rates(fit)}


def _scored(trained: Trained, chosen: EnsembleFit, rows: Split, seed: int) -> Plain:
    """Log likelihood and error of the test part with each rate, and with the one that held-out rows chose."""
    grid = list(trained.fixed)[by_held_out_rows(list(trained.fixed.values()))]
    test = {name: _score(fit, rows, seed) for name, fit in trained.fixed.items()}
    of_strengths = {name: _score(fit, rows, seed) for name, fit in trained.learned.items()}
    test[GRID] = test[grid]
    test[ELBO], test[HELD_OUT] = of_strengths[1.0], _score(chosen, rows, seed)
    return {
        "log_likelihood": {name: log_p.mean().item() for name, (log_p, _) in test.items()},
        "error": {name: error for name, (_, error) in test.items()},
        "gain_on_grid": {name: mean_and_error((log_p - test[GRID][0]).tolist()) for name, (log_p, _) in test.items()},
        "strength": " and ".join(f"{strength:g}" for strength in chosen.strengths),
        "by_strength": {str(name): log_p.mean().item() for name, (log_p, _) in of_strengths.items()},
        "grid": grid,
        "rates": _rates(chosen),
    }


def _rates(fit: EnsembleFit) -> list[float]:
    """Mean rate of each layer over the members."""
    rates = [[float(p) for p in dropout_rates(member).values()] for member in fit.model.members]
    return list(np.mean(rates, axis=0).tolist())


@torch.no_grad()
def _score(fit: EnsembleFit, rows: Split, seed: int) -> tuple[Tensor, float]:
    """Log likelihood of each test row, (N,), and the RMSE in SDs of the target, or the share of wrong classes."""
    prediction = fit.model.predict(rows.x_test, num_samples=NUM_SAMPLES, seed=seed)
    if rows.y_test.is_floating_point():
        error = rmse(prediction.mean, rows.y_test)
    else:
        error = 1 - accuracy(prediction.label, rows.y_test)
    return prediction.log_prob(rows.y_test).double(), float(error)
