"""Train each network, let held-out rows say how sure it is in each way, and score the test rows."""

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop.likelihoods import Categorical, Likelihood
from gumdrop.metrics import calibration_error
from gumdrop.training import fit_rates
from gumdrop_experiments.harness import Plain, Run
from gumdrop_experiments.injected import Settings
from gumdrop_experiments.injected import ways as ways_of
from gumdrop_experiments.injected.tasks import ONCE, TABLES, TASKS, Task
from gumdrop_experiments.injected.ways import LastLayer, Outputs, all_networks, many_functions, one_function, tempered
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.shared import auroc, number_scores, seeded, take_step

AS_IT_IS, TEMPERATURE, OWN, INJECTION, LAPLACE = "as it is", "temperature", "own rates", "injection", "Laplace"
FITTED, ENSEMBLE = "fit_rates", "ensemble"
WAYS = {
    AS_IT_IS: "as it is",
    TEMPERATURE: "temperature alone",
    OWN: "rates of its training",
    INJECTION: "one rate from a grid",
    LAPLACE: "Laplace, last layer",
    FITTED: "fit_rates",
    ENSEMBLE: "ensemble",
}
SINGLE = (TEMPERATURE, OWN, INJECTION, LAPLACE)
"""Other ways that take one network."""
SCORES = ("log_likelihood", "auroc", "calibration", "shifted")
NEAR, AHEAD, FOUND = 0.002, 0.01, 0.02
"""Nats that are no difference; nats, and an area under the curve, that are one."""


def study(settings: Settings, run: Run) -> Plain:
    """Train and score all networks."""
    names = settings.networks or tuple(TASKS)
    many = {name: settings.splits if name in TABLES else settings.seeds for name in names}
    seeds = {name: range(1 if name in ONCE else count) for name, count in many.items()}
    for name in names:
        TASKS[name](run.options, 0)  # what fails for want of data fails before the first part
    first = run.options.seed
    calls = {(name, i): partial(_part, name, settings, run, first + i) for name in names for i in seeds[name]}
    parts = run.parts(calls)
    found = {name: summary([parts[name, i] for i in seeds[name]]) for name in names}
    return {"networks": found, "counts": counts(found), "members": settings.members}


def _part(name: str, settings: Settings, run: Run, seed: int) -> Plain:
    """Train an ensemble for one seed, and score its first network in all ways."""
    task = TASKS[name](run.options, seed)
    started = time.process_time()
    networks = [_trained(task, settings.epochs or task.epochs, seed + 1000 * i) for i in range(settings.members)]
    training = (time.process_time() - started) / len(networks)
    network = networks[0]
    likelihood: Likelihood = Categorical() if task.has_classes else ways_of.noise_of(network, task)
    scores = {AS_IT_IS: _scores(task, likelihood, partial(one_function, network))} if task.has_classes else {}
    scores[TEMPERATURE] = _best(task, likelihood, {1.0: partial(one_function, network)})
    if any(isinstance(module, nn.Dropout) for module in network.modules()):
        scores[OWN] = _scores(task, likelihood, partial(many_functions, network, settings.num_samples, seed))
    started = time.process_time()
    converted = copy.deepcopy(network)
    fitted = fit_rates(
        converted,
        task.held_out,
        likelihood="categorical" if task.has_classes else "gaussian",
        batch_size=task.rows_at_once,
        seed=seed,
    )
    seconds = time.process_time() - started
    drawn = partial(many_functions, converted, settings.num_samples, seed)
    scores[FITTED] = {**_scores(task, fitted.likelihood, drawn), "kept": fitted.kept, "rates": fitted.rates}
    of_rate = partial(ways_of.injected, converted, seed)
    rates = {p: partial(of_rate, p, ways_of.GRID_SAMPLES) for p in ways_of.GRID}
    scores[INJECTION] = _best(task, likelihood, rates, lambda p: partial(of_rate, p, settings.num_samples))
    if any(type(module) is nn.Linear for module in network.modules()):
        last_layer = LastLayer(network, task, likelihood, settings, seed)
        priors = {precision: last_layer.with_prior(precision) for precision in ways_of.PRECISIONS}
        scores[LAPLACE] = _best(task, likelihood, priors)
    scores[ENSEMBLE] = _best(task, likelihood, {1.0: partial(all_networks, networks)})
    return {"ways": scores, "seconds": {"training": training, FITTED: seconds}}


def _trained(task: Task, epochs: int, seed: int) -> nn.Module:
    """Train a network by AdamW in one cycle, on squared errors or cross-entropies."""
    (x, y), loss = task.train, F.cross_entropy if task.has_classes else F.mse_loss
    with seeded(seed):
        network = task.build()
        optimizer = torch.optim.AdamW(network.parameters(), lr=task.lr)
        steps = epochs * math.ceil(len(x) / task.batch_size)
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, task.lr, total_steps=steps)
        for _ in range(epochs):
            for rows in torch.randperm(len(x)).split(task.batch_size):
                take_step(optimizer, loss(network.train()(x[rows]), y[rows]), cycle)
    return network.eval()


def _best(
    task: Task, likelihood: Likelihood, choices: Mapping[float, Outputs], says: Callable[[float], Outputs] | None = None
) -> Plain:
    """Score the choice that is best for held-out rows, each at its own temperature."""
    found = {choice: tempered(likelihood, outputs, task.held_out) for choice, outputs in choices.items()}
    best = max(found, key=lambda choice: found[choice][1])
    outputs = choices[best] if says is None else says(best)
    return {**_scores(task, found[best][0], outputs), "choice": best}


def _scores(task: Task, likelihood: Likelihood, outputs: Outputs) -> Plain:
    """Score test rows, changed ones, and how well doubt tells rows that are like none of these."""

    def predicted(x: Tensor) -> Any:
        draws = outputs(x)
        return likelihood.predict([draws], len(draws))

    def doubt(prediction: Any) -> Tensor:
        doubts: Tensor = prediction.predictive_entropy if task.has_classes else prediction.variance
        return doubts.flatten(1).mean(1) if doubts.ndim > 1 else doubts

    (x, y), shifted = task.test, task.shifted
    known, strange = predicted(x), predicted(task.strange)
    found = {
        "log_likelihood": known.log_prob(y).mean().item(),
        "auroc": auroc(doubt(known), doubt(strange)),
        "calibration": calibration_error(known, y).item() if task.has_classes else number_scores(known, y)["coverage"],
    }
    if shifted is not None:  # whose pictures are the strange ones
        found["shifted"] = strange.log_prob(shifted[1]).mean().item()
    return found


def summary(parts: Sequence[Plain]) -> Plain:
    """Average the scores of each way over seeds, with gains on the temperature alone, seed by seed."""
    found: Plain = {}
    for way in (way for way in WAYS if way in parts[0]["ways"]):
        scores = [part["ways"][way] for part in parts]
        alone = [part["ways"][TEMPERATURE] for part in parts]
        found[way] = {name: mean_and_error([each[name] for each in scores]) for name in SCORES if name in scores[0]}
        for name in ("log_likelihood", "auroc"):
            gains = [each[name] - other[name] for each, other in zip(scores, alone, strict=True)]
            found[way][f"{name}_gain"] = mean_and_error(gains)
    kept = [part["ways"][FITTED]["kept"] for part in parts]
    found[FITTED]["kept"] = {name: kept.count(name) for name in sorted(set(kept))}
    share = [part["seconds"][FITTED] / part["seconds"]["training"] for part in parts]
    return {"ways": found, "share_of_training": mean_and_error(share)}


def counts(found: Mapping[str, Plain]) -> Plain:
    """Count networks on which `fit_rates` is near or ahead of the best other way of one network."""
    networks = [of["ways"] for of in found.values()]
    gains = [{way: each["log_likelihood_gain"][0] for way, each in ways.items()} for ways in networks]
    ahead = [each[FITTED] - max(each[way] for way in SINGLE if way in each) for each in gains]
    return {
        "networks": len(found),
        "near": sum(each >= -NEAR for each in ahead),
        "ahead": sum(each >= AHEAD for each in ahead),
        "behind temperature": sum(each[FITTED] < -NEAR for each in gains),
        "found": sum(ways[FITTED]["auroc_gain"][0] >= FOUND for ways in networks),
    }
