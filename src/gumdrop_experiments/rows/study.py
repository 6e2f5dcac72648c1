"""Train each way to a rate on more and more rows, with and without a prior on the weights."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from gumdrop import dropout_rates, predict_classification, predict_regression
from gumdrop.networks import mlp
from gumdrop.training import FitResult, fit_stacked
from gumdrop_experiments.data.mnist import DigitImages, read_digits
from gumdrop_experiments.harness import Plain, Run, RunOptions, data_folder
from gumdrop_experiments.pages import rounded
from gumdrop_experiments.rates.ensembles import ALMOST_NONE, fixed
from gumdrop_experiments.rates.sets import SETS as TABLES
from gumdrop_experiments.rows import SETS, Settings
from gumdrop_experiments.rows.results import FIXED, LEARNED, OFF, protocol_summary, regrets, summary
from gumdrop_experiments.shared import class_scores, number_scores, seeded, shuffled
from gumdrop_experiments.shift.study import noisy

HELD_OUT, MOST_HELD_OUT = 5, 1000
"""One row in this many is held out, and at most so many."""
LENGTHSCALES = {"prior": None, "without": 1e-4}
"""None is the default of the likelihood; so small a number leaves the weights free."""
VALIDATIONS, VALIDATION_SAMPLES = 30, 10
"""How often held-out rows are asked for the best epoch, and with how many draws."""
NOISE, PIXELS = 0.45, 2
"""SD of the noise in units of the brightest pixel, and how far digits are moved, to the right and down."""
EARLY_SIZE, EARLY_SEEDS = 5000, 2
"""Parts of at most so many rows and of the first seeds come first, those of more rows last."""
PROTOCOLS: dict[str, tuple[bool, bool, float]] = {
    "as above": (False, False, 1.0),
    "held out beside the digits": (True, False, 1.0),
    "short": (False, True, 1.0),
    "a third of the learning rate": (False, False, 1 / 3),
    "held out beside, short": (True, True, 1.0),
}
"""Whether as many digits are held out beside those to learn from, whether epochs are those of the flag however few the
steps, and what the learning rate is multiplied by."""

Rows = tuple[Tensor, Tensor]
Sample = tuple[Rows, dict[str, Rows]]
"""Rows to learn from in random order, and those to predict."""


@dataclass(frozen=True)
class _Problem:
    """A set, and the networks that learn it."""

    name: str
    num_rows: int
    """Rows to learn from that there are."""
    num_classes: int
    """Number of classes; 0 for numbers."""
    hidden: tuple[int, ...]
    lr: float
    draw: Callable[[int, int], Sample]
    """Draws so many rows with a seed."""


def study(settings: Settings, run: Run) -> Plain:
    """Train on each number of rows, with each seed, what is useful by itself first."""
    works: list[tuple[_Problem, int, int]] = []
    for problem in [_problem(name, settings, run.options) for name in settings.sets or SETS]:
        sizes = {min(size, problem.num_rows) for size in settings.sizes}
        works += [(problem, size, seed) for size in sizes for seed in range(settings.seeds)]
    works.sort(key=lambda work: (work[1] > EARLY_SIZE, work[2] >= EARLY_SEEDS, work[1], work[0].name, work[2]))
    if settings.done:
        works = [work for work in works if run.has(_name(*work))]
        if not works:
            raise ValueError(f"`done` shows the parts that are done, and {run.folder} has none; leave it out")
    parts = run.parts({_name(*work): partial(_part, *work, settings, run.options.seed) for work in works})
    protocols = _protocols(settings, run) if settings.protocols else []
    hidden = {problem.name: len(problem.hidden) for problem, _, _ in works}
    sets: dict[str, Plain] = {
        name: {
            "label": SETS[name],
            "layers": ["inputs", *(f"hidden {i + 1}" for i in range(hidden[name]))],
            "sizes": summary([parts[_name(*work)] for work in works if work[0].name == name]),
        }
        for name in settings.sets or SETS
        if name in hidden
    }
    regret = regrets([size for its in sets.values() for size in its["sizes"]])
    return {"sets": sets, "regret": regret, "protocols": protocols}


def _protocols(settings: Settings, run: Run) -> list[Plain]:
    """Train all ways on the same number of digits by each protocol, with the prior."""
    digits, first = _problem("mnist", settings, run.options), run.options.seed
    size = min(1000, digits.num_rows // 2)
    calls: dict[tuple[str, str, int], Callable[[], Plain]] = {}
    plans: dict[str, Plain] = {}
    for label, (is_beside, is_short, pace) in PROTOCOLS.items():
        plan = plans[label] = _plan(size, settings, beside=size if is_beside else 0, is_short=is_short)
        problem = replace(digits, lr=digits.lr * pace)
        ways = partial(_ways, problem, plan, settings=settings, first=first, lengthscale=LENGTHSCALES["prior"])
        calls |= {("protocol", label, seed): partial(ways, seed) for seed in range(settings.seeds)}
    parts = run.parts(calls)
    runs = {label: [parts["protocol", label, seed] for seed in range(settings.seeds)] for label in PROTOCOLS}
    return [protocol_summary(label, plans[label], runs[label]) for label in PROTOCOLS]


def _name(problem: _Problem, size: int, seed: int) -> str:
    return f"{problem.name}-N={size}-{seed}"


def _problem(name: str, settings: Settings, options: RunOptions) -> _Problem:
    if name == "mnist":
        train, test = read_digits(options)
        test = test.rows(shuffled(len(test.labels), options.seed)[: settings.test_images])
        return _Problem(name, len(train.labels), 10, (256, 256), 3e-3, partial(_digits, train, test, options.seed))
    table = TABLES[name]
    folder = data_folder(options, str(table.folder)).parent
    (split,) = table.read(folder, 1, options.seed)
    return _Problem(name, len(split.y_train), 0, (50, 50), 5e-3, partial(_rows, name, folder, options.seed))


def _digits(train: DigitImages, test: DigitImages, first: int, size: int, seed: int) -> Sample:
    half = test.rows(slice(None, None, 2))
    tests = {
        "test": test,
        "noisy": half._replace(images=noisy(half.images, NOISE, seed=first)),
        "moved": half._replace(images=torch.roll(half.images, (PIXELS, PIXELS), dims=(-2, -1))),
    }
    chosen = train.rows(shuffled(len(train.labels), first + seed)[:size])
    return _flat(chosen), {name: _flat(digits) for name, digits in tests.items()}


def _flat(digits: DigitImages) -> Rows:
    return digits.images.flatten(1), digits.labels


def _rows(name: str, folder: Path, first: int, size: int, seed: int) -> Sample:
    """Draw rows of a split of its own for each seed; all sizes have the units of the whole training part."""
    split = TABLES[name].read(folder, seed + 1, first)[seed]
    rows = shuffled(len(split.y_train), first + seed)[:size]
    return (split.x_train[rows], split.y_train[rows]), {"test": (split.x_test, split.y_test)}


def _plan(size: int, settings: Settings, *, beside: int = 0, is_short: bool = False) -> dict[str, int]:
    """How many rows are held out, of these or beside them, and how networks are trained on the others."""
    held_out, batch_size = beside or min(size // HELD_OUT, MOST_HELD_OUT), min(128, max(32, size // 20))
    rows = size + beside
    a_pass = math.ceil((rows - held_out) / batch_size)
    epochs = settings.epochs if is_short else max(settings.epochs, math.ceil(settings.least_steps / a_pass))
    epochs = min(epochs, max(1, settings.most_steps // a_pass))
    plan = {"rows": rows, "held_out": held_out, "batch_size": batch_size}
    return plan | {"epochs": epochs, "steps": epochs * a_pass}


def _part(problem: _Problem, size: int, seed: int, settings: Settings, first: int) -> Plain:
    plan = _plan(size, settings)
    ways = {prior: _ways(problem, plan, seed, settings, first, value) for prior, value in LENGTHSCALES.items()}
    return {"seed": first + seed, "plan": plan, "ways": ways}


def _ways(
    problem: _Problem, plan: Plain, seed: int, settings: Settings, first: int, lengthscale: float | None
) -> Plain:
    train, tests = problem.draw(plan["rows"], seed)
    ways: Plain = {}
    for together in (list(FIXED), [LEARNED]):
        networks = [_network(problem, train[0].shape[1], way, first + seed) for way in together]
        fits = _trained(problem, train, networks, plan, lengthscale, first + seed)
        for way, network, fit in zip(together, networks, fits, strict=True):
            draws = 1 if way == OFF else settings.num_samples
            ways[way] = _scores(problem, network, fit, tests, draws, first + seed)
    return ways


def _network(problem: _Problem, num_inputs: int, way: str, seed: int) -> nn.Module:
    """Build the network of a way; the same seed gives the same weights."""
    build = partial(mlp, num_inputs, problem.num_classes or 2, hidden=problem.hidden)
    with seeded(seed):
        if way == LEARNED:
            return build()
        return fixed(build, [max(FIXED[way], ALMOST_NONE)] * (len(problem.hidden) + 1))


def _trained(
    problem: _Problem, train: Rows, networks: list[nn.Module], plan: Plain, lengthscale: float | None, seed: int
) -> list[FitResult]:
    """Train networks as one program, and leave each at its best epoch."""
    held_out, rows = torch.arange(plan["rows"]).tensor_split([plan["held_out"]])
    return fit_stacked(
        networks,
        [train] * len(networks),
        likelihood="categorical" if problem.num_classes else "gaussian",
        rows=[rows] * len(networks),
        held_out=[held_out] * len(networks),
        keep_best=True,
        epochs=plan["epochs"],
        batch_size=plan["batch_size"],
        lr=problem.lr,
        lengthscale=lengthscale,
        validation_samples=VALIDATION_SAMPLES,
        validate_every=max(1, plan["epochs"] // VALIDATIONS),
        seed=seed,
    )


def _scores(
    problem: _Problem, network: nn.Module, fit: FitResult, tests: dict[str, Rows], draws: int, seed: int
) -> Plain:
    scores: Plain = {
        "held_out_nll": fit.history[fit.best_epoch - 1].validation_nll,
        "best_epoch": fit.best_epoch,
        "rates": rounded(list(dropout_rates(network).values())),
    }
    for name, (x, y) in tests.items():
        if problem.num_classes:
            scores[name] = class_scores(predict_classification(network, x, num_samples=draws, seed=seed), y)
        else:
            scores[name] = number_scores(predict_regression(network, x, num_samples=draws, seed=seed), y)
    return scores
