"""Starts and temperatures on two UCI sets and on digits, averaged over splits."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop import draw, dropout_rates, predict_classification, predict_regression
from gumdrop.layers import UNIT, ConcreteDropout, dropout_blocks
from gumdrop.likelihoods import LIKELIHOODS
from gumdrop.networks import mlp
from gumdrop.training import FitResult, fit_stacked
from gumdrop_experiments.data.mnist import read_digits
from gumdrop_experiments.data.uci import read_splits
from gumdrop_experiments.harness import Plain, Run, data_folder
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.shared import class_scores, number_scores, seeded, shuffled
from gumdrop_experiments.starts import Settings

UNIFORM = "logits in [-2, 0]"
STARTS: dict[str, float | None] = {f"{p:g}": p for p in (0.01, 0.05, 0.1, 0.2, 0.5)} | {UNIFORM: None}
"""Rates of all layers at the beginning; None draws a logit for each layer, uniform in [-2, 0]: rates of .12 to .5."""
DEFAULT = "0.1"
"""Where rates begin unless told otherwise."""
LENGTHS = ("long", "short")
TEMPERATURES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LEARNED = "learned"
"""The part whose temperature is learned."""
SETS = {"boston": "boston-housing", "concrete": "concrete-strength"}
START_OF_LEARNED = 0.1
"""Temperature that a learned one begins at."""
HELD_OUT = 10
"""Of numbers, the share of training rows that sets the noise is one in this number."""
SHORT = 5
"""How many times fewer steps the short runs have."""
NUM_SAMPLES, TRAIN_SAMPLES = 50, 20
TEST_IMAGES = 2000
POINTS = 40
"""Epochs of a run that are kept for the figure, about."""


def network(
    num_inputs: int, num_classes: int, hidden: tuple[int, ...], *, seed: int, start: str = DEFAULT, temperature: float
) -> nn.Sequential:
    """Build a dense network; the same seed gives the same weights whatever the start."""
    with seeded(seed):
        built = mlp(num_inputs, num_classes or 1, hidden=hidden, homoscedastic_noise=not num_classes)
        for block in dropout_blocks(built):
            block.site.temperature = temperature  # not through `mlp`, which warns of high ones
            p = STARTS[start]
            block.site.start_at(torch.sigmoid(-2 * torch.rand(())).item() if p is None else p)
    return built


class LearnedTemperature(nn.Module):
    """A network whose relaxed masks have one temperature, which is learned with the weights."""

    def __init__(self, network: nn.Module, start: float) -> None:
        super().__init__()
        self.network = network
        self.scaled_log = nn.Parameter(torch.tensor(start).log() / UNIT)
        self._sites = [block.site for block in dropout_blocks(network)]

    @property
    def temperature(self) -> Tensor:
        """The temperature; its logarithm is learned in units of ten, as logits are."""
        return torch.exp(UNIT * self.scaled_log)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the output, under relaxed masks in training where nobody else gives factors."""
        mine = self.training and all(site.factor_source is None for site in self._sites)
        for site in self._sites if mine else ():
            site.factor_source = self._factor
        try:
            output: Tensor = self.network(x)
        finally:
            for site in self._sites if mine else ():
                site.factor_source = None
        return output

    def _factor(self, site: ConcreteDropout, x: Tensor) -> Tensor:
        noise = site.fresh_noise(site.rows_of(x))
        decision = (torch.logit(noise, eps=1e-7) - site.p_logit) / self.temperature
        return torch.exp(F.logsigmoid(decision) + F.softplus(site.p_logit))


@dataclass(frozen=True)
class Problem:
    """Data to learn from, and how networks are trained on them."""

    name: str
    num_classes: int
    """Number of classes; 0 for numbers."""
    hidden: tuple[int, ...]
    data: Sequence[tuple[Tensor, ...]]
    """Inputs and targets to train on, and those to predict, of each split."""
    settings: Plain

    @property
    def likelihood(self) -> str:
        """Name of the likelihood."""
        return "categorical" if self.num_classes else "gaussian"


def study(settings: Settings, run: Run) -> Plain:
    """Train from all starts, for long and for short, and at all temperatures."""
    seed = run.options.seed
    uci = data_folder(run.options, "uci", files=[f"{name}/data.txt" for name in SETS.values()])
    problems = [_classes(run, settings)]
    of_numbers: Plain = {"batch_size": 32, "lr": 5e-3, "lengthscale": "weak"}
    for name, folder in reversed(SETS.items()):
        data = [(s.x_train, s.y_train, s.x_test, s.y_test) for s in read_splits(uci / folder, most=settings.splits)]
        problems.insert(0, Problem(name, 0, (50, 50), data, of_numbers))
    parts: dict[str, Callable[[], Any]] = {}
    for problem in problems:
        for length, divisor in zip(LENGTHS, (1, SHORT), strict=True):
            parts[f"{problem.name}.{length}"] = partial(_starts, problem, settings.steps // divisor, seed)
        for t in TEMPERATURES:
            parts[f"{problem.name}.t={t:g}"] = partial(_temperature, problem, t, settings.steps, seed)
        parts[f"{problem.name}.{LEARNED}"] = partial(_learned_temperature, problem, settings.steps, seed)
    return summary(problems, run.parts(parts))


def _classes(run: Run, settings: Settings) -> Problem:
    train, test = read_digits(run.options)
    test = test.rows(slice(TEST_IMAGES))
    seeds = run.options.seeds(settings.seeds)
    samples = (train.rows(shuffled(len(train.labels), seed)[: settings.images]) for seed in seeds)
    data = [(some.images.flatten(1), some.labels, test.images.flatten(1), test.labels) for some in samples]
    return Problem("mnist", 10, (128, 128), data, {"batch_size": 64, "lr": 1e-3, "lengthscale": 1.0})


def _starts(problem: Problem, steps: int, seed: int) -> dict[str, list[Plain]]:
    """Train networks from all starts on all splits, as one program."""
    size = len(problem.data)
    models = [_network(problem, seed + i, start=start) for start in STARTS for i in range(size)]
    trained = _trained(problem, models, list(problem.data) * len(STARTS), steps, seed)
    return {start: trained[i * size : (i + 1) * size] for i, start in enumerate(STARTS)}


def _temperature(problem: Problem, temperature: float, steps: int, seed: int) -> list[Plain]:
    models = [_network(problem, seed + i, temperature=temperature) for i in range(len(problem.data))]
    return _trained(problem, models, problem.data, steps, seed)


def _network(problem: Problem, seed: int, *, start: str = DEFAULT, temperature: float = 0.1) -> nn.Sequential:
    num_inputs = problem.data[0][0].shape[1]
    return network(num_inputs, problem.num_classes, problem.hidden, seed=seed, start=start, temperature=temperature)


def _trained(
    problem: Problem, models: Sequence[nn.Module], data: Sequence[tuple[Tensor, ...]], steps: int, seed: int
) -> list[Plain]:
    sizes = [len(y) for _, y, *_ in data]
    rows = [shuffled(size, size) for size in sizes]
    held_out = None
    if not problem.num_classes:  # a part of the rows sets the noise
        held_out = [order[: len(order) // HELD_OUT] for order in rows]
        rows = [order[len(order) // HELD_OUT :] for order in rows]
    batches = math.ceil(max(map(len, rows)) / problem.settings["batch_size"])
    fits = fit_stacked(
        models,
        [(x, y) for x, y, *_ in data],
        likelihood=problem.likelihood,
        epochs=max(1, round(steps / batches)),
        rows=rows,
        held_out=held_out,
        held_out_noise=not problem.num_classes,
        seed=seed,
        **problem.settings,
    )
    trained = zip(models, fits, data, rows, strict=True)
    return [_scored(problem, model, result, part, of, seed) for model, result, part, of in trained]


def _learned_temperature(problem: Problem, steps: int, seed: int) -> list[Plain]:
    """Train networks that learn their temperature, which cannot be stacked, split by split."""
    results = []
    for i, split in enumerate(problem.data):
        model = LearnedTemperature(_network(problem, seed + i), START_OF_LEARNED)
        (trained,) = _trained(problem, [model], [split], steps, seed + i)
        results.append({**trained, "temperature": model.temperature.item()})
    return results


@torch.no_grad()
def _scored(
    problem: Problem, model: nn.Module, result: FitResult, data: tuple[Tensor, ...], rows: Tensor, seed: int
) -> Plain:
    """Score the test part under hard masks, and the training part under those and as training saw it."""
    x, y, x_test, y_test = data
    scores: Plain
    if problem.num_classes:
        classes = predict_classification(model, x_test, num_samples=NUM_SAMPLES, seed=seed)
        of_classes = class_scores(classes, y_test)
        scores = {"log_likelihood": -of_classes["nll"], "error": 1 - of_classes["accuracy"], "ece": of_classes["ece"]}
    else:
        numbers = number_scores(predict_regression(model, x_test, num_samples=NUM_SAMPLES, seed=seed), y_test)
        scores = {"log_likelihood": -numbers["nll"], "error": numbers["rmse"], "coverage": numbers["coverage"]}
    every = max(1, len(result.history) // POINTS)
    return {
        **scores,
        "relaxed_nll": _train_nll(problem, model, x[rows], y[rows], seed, relaxed=True),
        "hard_nll": _train_nll(problem, model, x[rows], y[rows], seed, relaxed=False),
        "rates": [float(p) for p in dropout_rates(model).values()],
        "over_training": [[record.epoch, *record.rates.values()] for record in result.history[::every]],
    }


def _train_nll(problem: Problem, model: nn.Module, x: Tensor, y: Tensor, seed: int, *, relaxed: bool) -> float:
    """Mean NLL of rows, each under a mask of its own: as training sees it, or as a prediction does."""
    total = 0.0
    for i in range(TRAIN_SAMPLES):
        with seeded(seed + i):
            function = model.train() if relaxed else draw(model, seed=seed + i, fresh=True, shared=False)
            output = function(x)
        total += LIKELIHOODS[problem.likelihood].nll(output, y).mean().item()
    model.eval()
    return total / TRAIN_SAMPLES


def summary(problems: Sequence[Problem], parts: Plain) -> Plain:
    """Average over splits."""
    scores = {}
    for problem in problems:
        lengths = {length: parts[f"{problem.name}.{length}"] for length in LENGTHS}
        of_t = {f"{t:g}": parts[f"{problem.name}.t={t:g}"] for t in TEMPERATURES}
        of_t[LEARNED] = parts[f"{problem.name}.{LEARNED}"]
        scores[problem.name] = {
            "rows": len(problem.data[0][1]),
            "hidden": list(problem.hidden),
            "calibration": "ece" if problem.num_classes else "coverage",
            **{key: {start: _mean(of[start], of[DEFAULT]) for start in STARTS} for key, of in lengths.items()},
            "temperatures": {t: _mean(each, of_t["0.1"]) for t, each in of_t.items()},
        }
    return scores


def _mean(parts: Sequence[Plain], usual: Sequence[Plain]) -> Plain:
    """Means over splits, medians of rates, and the log likelihood less that of the usual setting, split by split."""
    names = [name for name in parts[0] if name not in ("rates", "over_training")]
    gains = [one["log_likelihood"] - other["log_likelihood"] for one, other in zip(parts, usual, strict=True)]
    return {
        **{name: float(np.mean([part[name] for part in parts])) for name in names},
        "gain": mean_and_error(gains),
        "rates": np.median([part["rates"] for part in parts], axis=0).tolist(),
        "over_training": np.median([part["over_training"] for part in parts], axis=0).tolist(),
    }
