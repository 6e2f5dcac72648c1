"""Every rate on every table, and other ways to a rate, each an ensemble for what is trained on a split in any case.

These hold out fifths of the training part, and each leaves as many networks as the default does.

References:
    Caruana et al. 2004, "Ensemble Selection from Libraries of Models" (ICML).
    Fernandez Sarmiento 2026, "Dropout Universality: Scaling Laws and Optimal Scheduling at the Edge-of-Chaos"
    (arXiv:2605.21648).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from gumdrop import dropout_rates
from gumdrop.ensembles import Architecture, EnsembleFit, EnsembleSettings, Rows, choose, schedule
from gumdrop.layers import PiecewiseLinear
from gumdrop.likelihoods import Categorical, Gaussian
from gumdrop.metrics import accuracy, rmse
from gumdrop.training import STRENGTHS, choose_strength
from gumdrop_experiments.data.download import cache_folder
from gumdrop_experiments.data.uci import Split
from gumdrop_experiments.harness import Plain, Run, data_folder
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.rates import Settings
from gumdrop_experiments.rates.ensembles import ALMOST_NONE, Setup, by_held_out_rows, chosen, fixed, learned
from gumdrop_experiments.rates.responses import fit_by_draws, fit_by_response
from gumdrop_experiments.rates.results import ELBO, FIXED, GRID, HELD_OUT, OFF, SIZES, beside_grid, gains, summary
from gumdrop_experiments.rates.sets import FOLDERS, SETS, TableOfRates

FRONT = 4, 2, 1
"""Shares of a budget of dropout in front of the three layers: most of it on the inputs."""
HIDDEN = 0, 2, 1
"""The same with none on the inputs."""
Name = TypeVar("Name", str, float)
NUM_SAMPLES = 100
EVERY_STRENGTH = tuple(sorted({*STRENGTHS, *EnsembleSettings().strengths_for(0)}))
"""Of one network and of ensembles."""
LARGE = 10_000
"""Training rows from which a table is held against the grid by itself; `gumdrop fit` there trains one strength."""
QUICK_SPLITS, QUICK_EPOCHS = 2, 3
QUICK_SETS = ("diabetes", "friedman", "cancer")


class Trained(NamedTuple):
    """The ensembles that are there before."""

    learned: dict[float, EnsembleFit]
    """By their strength."""
    fixed: dict[str, EnsembleFit]
    """By their rate, `OFF` among them."""


Arm = Callable[[Setup, Trained], tuple[EnsembleFit, str]]
"""Gives an ensemble, and what was chosen in words."""


def sites(setup: Setup, trained: Trained) -> tuple[EnsembleFit, str]:
    """Choose a strength for each layer, beginning at the one strength that held-out rows chose.

    Each layer tries a quarter and four times of it while the others stay. All changes that gain more than a standard
    error are then made together.
    """
    centre = choose_strength({strength: fit.scores for strength, fit in trained.learned.items()})
    count, base = len(FRONT), trained.learned[centre]
    tries = [(i, factor) for i in range(count) for factor in STRENGTHS if factor != 1]
    strengths_of = [[centre * (factor if i == j else 1) for j in range(count)] for i, factor in tries]
    fits = dict(zip(tries, setup.fit([partial(learned, setup.build, s) for s in strengths_of]), strict=True))
    factors = [choose_strength({f: fits.get((i, f), base).scores for f in STRENGTHS}) for i in range(count)]
    changed = [(i, factor) for i, factor in enumerate(factors) if factor != 1]
    strengths = [centre * factor for factor in factors]
    fitted = fits[changed[0]] if len(changed) == 1 else base
    if len(changed) > 1:
        (fitted,) = setup.fit([partial(learned, setup.build, strengths)])
    return fitted, " ".join(f"{strength:g}" for strength in strengths)


def profile(shares: Sequence[float], setup: Setup, trained: Trained) -> tuple[EnsembleFit, str]:
    """Give layers unequal rates whose mean, of those that drop, is a fixed rate; held-out rows choose that."""
    scaled = [share * sum(each > 0 for each in shares) / sum(shares) for share in shares]
    makes = [partial(fixed, setup.build, [max(p * share, ALMOST_NONE) for share in scaled]) for p in FIXED]
    fits = dict(zip((OFF, *map(str, FIXED)), [trained.fixed[OFF], *setup.fit(makes)], strict=True))
    chosen = list(fits)[by_held_out_rows(list(fits.values()))]
    return fits[chosen], chosen


def pool(setup: Setup, trained: Trained) -> tuple[EnsembleFit, str]:
    """Choose ten networks out of all that were trained, of fixed and of learned rates, as `greedy` does."""
    fits = {**trained.fixed, **{f"strength {strength:g}": fit for strength, fit in trained.learned.items()}}
    names, like = list(fits), trained.learned[1.0]
    count = len(like.model.members)
    chosen = [names[i] for i in greedy(torch.stack([fit.scores for fit in fits.values()]), count)]
    members = [fits[name].model.members[i] for i, name in enumerate(chosen)]
    numbered = list(enumerate(chosen))
    # Each ensemble has folds of its own: the noise is judged on the rows that the chosen network has not seen.
    held_out = [fits[name].held_out[i] for i, name in numbered]
    own = like._replace(members=[fits[name].members[i] for i, name in numbered], held_out=held_out)
    return setup.mixed(members, own), ", ".join(f"{n} x {name}" for name, n in Counter(chosen).items())


def greedy(log_p: Tensor, count: int) -> list[int]:
    """Fill a mixture one by one, each time with what raises its log likelihood most; the same may be taken again.

    Of log likelihoods of rows under candidates, (C, N), NaN for rows without one, come the candidates as they were
    taken.
    """
    log_p = log_p[:, ~log_p.isnan().any(0)].double()
    mixture = torch.full_like(log_p[0], -torch.inf)
    chosen = []
    for _ in range(count):
        chosen.append(int(torch.logaddexp(mixture, log_p).mean(1).argmax()))
        mixture = torch.logaddexp(mixture, log_p[chosen[-1]])
    return chosen


ARMS: dict[str, Arm] = {
    "sites": sites,
    "front": partial(profile, FRONT),
    "hidden": partial(profile, HIDDEN),
    "pool": pool,
    "draws": lambda setup, trained: (fit_by_draws(setup, trained.learned[1.0]), ""),
    "response": lambda setup, trained: (fit_by_response(setup, trained.learned[1.0]), ""),
}
"""All of them, by the name that ``--arms`` takes."""


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
    calls = {
        (name, i): partial(part, SETS[name], rows, seed + i, epochs, settings.arms)
        for name, each in splits.items()
        for i, rows in enumerate(each)
    }
    parts = run.parts(calls)
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
    results = {
        "bins": kind.bins_per_input,
        "ensemble": _scored(trained, chosen(setup, trained.learned), rows, seed),
        "single": _scored(first, first.learned[strength]._replace(strengths=(strength,)), rows, seed),
    }
    return {**results, "arms": {name: _arm(name, setup, trained, rows, seed) for name in arms}} if arms else results


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
    rates = [[float(p) for p in dropout_rates(member).values()] for member in fit.model.members]
    return list(np.mean(rates, axis=0).tolist())


@torch.no_grad()
def _score(fit: EnsembleFit, rows: Split, seed: int) -> tuple[Tensor, float]:
    """Log likelihood of each test row, (N,), and the RMSE in SDs of the target, or the share of wrong classes."""
    prediction, y = fit.model.predict(rows.x_test, num_samples=NUM_SAMPLES, seed=seed), rows.y_test
    error = rmse(prediction.mean, y) if y.is_floating_point() else 1 - accuracy(prediction.label, y)
    return prediction.log_prob(y).double(), float(error)
