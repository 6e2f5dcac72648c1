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

from gumdrop import sample
from gumdrop.layers import ConcreteDropout
from gumdrop.likelihoods import Categorical, Gaussian, Likelihood
from gumdrop.metrics import calibration_error
from gumdrop.training import fit_rates
from gumdrop_experiments.harness import Plain, Run
from gumdrop_experiments.injected import Settings
from gumdrop_experiments.injected.far import DOUBT, FAR, epistemic, far_scores
from gumdrop_experiments.injected.tasks import ONCE, TABLES, TASKS, Pair, Task
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.shared import auroc, number_scores, seeded, take_step

Outputs = Callable[[Tensor], Tensor]
GRID = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
GRID_SAMPLES = 32
PRECISIONS = tuple(10.0**power for power in range(-2, 5))
ROWS_AT_ONCE = 1000
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


@torch.no_grad()
def one_function(network: nn.Module, x: Tensor) -> Tensor:
    """Dropout is off."""
    return torch.cat([network.eval()(part) for part in x.split(ROWS_AT_ONCE)]).unsqueeze(0)


def many_functions(network: nn.Module, num_samples: int, seed: int, x: Tensor) -> Tensor:
    """Dropout draws functions."""
    return sample(network, x, num_samples=num_samples, seed=seed, batch_size=ROWS_AT_ONCE)


def all_networks(networks: Sequence[nn.Module], x: Tensor) -> Tensor:
    """Each network is a function."""
    return torch.cat([one_function(network, x) for network in networks])


def tempered(likelihood: Likelihood, outputs: Outputs, held_out: Pair) -> tuple[Likelihood, float]:
    """Give a likelihood the temperature that is best for held-out rows; say what they are worth then."""
    from scipy.optimize import minimize_scalar

    draws, y = outputs(held_out[0]), held_out[1]

    def cost(log_t: float) -> float:
        return -likelihood.tempered(math.exp(log_t)).predict([draws], len(draws)).log_prob(y).mean().item()

    minimum = minimize_scalar(cost, bounds=(-5, 5), method="bounded", options={"xatol": 0.005})
    return likelihood.tempered(math.exp(minimum.x)), -float(minimum.fun)


def noise_of(network: nn.Module, task: Task) -> Gaussian:
    """Give a network that returns numbers the noise of its held-out residuals."""
    x, y = task.held_out
    return Gaussian(float((y - one_function(network, x)[0]).square().mean().log()))


def injected(converted: nn.Module, seed: int, p: float, num_samples: int, x: Tensor) -> Tensor:
    """Dropout draws functions of a converted network at one rate in all places."""
    network = copy.deepcopy(converted)
    for site in network.modules():
        if isinstance(site, ConcreteDropout):
            site.start_at(p)
    return many_functions(network, num_samples, seed, x)


class LastLayer:
    """A Laplace approximation of the last layer of a network: its weights have a Gaussian posterior.

    Its precision is the Gauss-Newton matrix of the training rows, and that of the prior.
    """

    def __init__(self, network: nn.Module, task: Task, likelihood: Likelihood, settings: Settings, seed: int) -> None:
        self.network = network.eval()
        self.layer = [module for module in network.modules() if type(module) is nn.Linear][-1]
        self.shape = settings.num_samples, self.layer.out_features * (self.layer.in_features + 1)
        self.seed = seed
        x, _ = task.train
        features, outputs = self._features(x)
        self.precision = torch.zeros(self.shape[1], self.shape[1], dtype=torch.float64)
        for phi, output in zip(features.split(ROWS_AT_ONCE), outputs.split(ROWS_AT_ONCE), strict=True):
            curvature = _curvature(likelihood, output)
            part = torch.einsum("nij,nk,nl->ikjl", curvature.double(), phi.double(), phi.double())
            self.precision += part.reshape_as(self.precision)

    @torch.no_grad()
    def _features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the last layer reads, with a 1 for its bias, and what it gives."""
        seen: list[Tensor] = []
        hook = self.layer.register_forward_pre_hook(lambda layer, args: seen.append(args[0]))
        outputs = one_function(self.network, x)[0]
        hook.remove()
        features = torch.cat(seen)
        return torch.cat([features, torch.ones(len(features), 1)], dim=1), outputs

    def with_prior(self, precision: float) -> Outputs:
        """Draw last layers."""
        identity = torch.eye(self.shape[1], dtype=torch.float64)
        factor = torch.linalg.cholesky(self.precision + precision * identity)
        with seeded(self.seed):
            noise = torch.randn(*self.shape, dtype=torch.float64)
        moves = torch.linalg.solve_triangular(factor.mT, noise.mT, upper=True).mT.float()
        moves = moves.view(len(noise), self.layer.out_features, -1)

        def outputs(x: Tensor) -> Tensor:
            features, mean = self._features(x)
            return mean + torch.einsum("nk,sok->sno", features, moves)

        return outputs


def _curvature(likelihood: Likelihood, output: Tensor) -> Tensor:
    """Second derivative of the negative log likelihood by the output, (N, O, O)."""
    if isinstance(likelihood, Gaussian):
        assert isinstance(likelihood.log_variance, float)
        return torch.full((len(output), 1, 1), likelihood.log_variance).neg().exp()
    p = torch.softmax(output, dim=1)
    return torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)


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
    results = {name: summary([parts[name, i] for i in seeds[name]]) for name in names}
    return {"networks": results, "counts": counts(results), "members": settings.members}


def _part(name: str, settings: Settings, run: Run, seed: int) -> Plain:
    task = TASKS[name](run.options, seed)
    started = time.process_time()
    networks = [_trained(task, settings.epochs or task.epochs, seed + 1000 * i) for i in range(settings.members)]
    training = (time.process_time() - started) / len(networks)
    network = networks[0]
    likelihood: Likelihood = Categorical() if task.has_classes else noise_of(network, task)
    scores = {AS_IT_IS: _scores(task, likelihood, partial(one_function, network))} if task.has_classes else {}
    scores[TEMPERATURE] = _best(task, likelihood, {1.0: partial(one_function, network)})
    if any(isinstance(module, nn.Dropout) for module in network.modules()):
        scores[OWN] = _scores(task, likelihood, partial(many_functions, network, settings.num_samples, seed))
    started = time.process_time()
    converted = copy.deepcopy(network)
    kind = "categorical" if task.has_classes else "gaussian"
    fitted = fit_rates(converted, task.held_out, likelihood=kind, batch_size=task.rows_at_once, seed=seed)
    seconds = time.process_time() - started
    drawn = partial(many_functions, converted, settings.num_samples, seed)
    scores[FITTED] = {**_scores(task, fitted.likelihood, drawn), "kept": fitted.kept, "rates": fitted.rates}
    of_rate = partial(injected, converted, seed)
    rates = {p: partial(of_rate, p, GRID_SAMPLES) for p in GRID}
    scores[INJECTION] = _best(task, likelihood, rates, lambda p: partial(of_rate, p, settings.num_samples))
    if any(type(module) is nn.Linear for module in network.modules()):
        last_layer = LastLayer(network, task, likelihood, settings, seed)
        priors = {precision: last_layer.with_prior(precision) for precision in PRECISIONS}
        scores[LAPLACE] = _best(task, likelihood, priors)
    scores[ENSEMBLE] = _best(task, likelihood, {1.0: partial(all_networks, networks)})
    ways: dict[str, tuple[Likelihood, Outputs]] = {
        FITTED: (fitted.likelihood, drawn),
        ENSEMBLE: (likelihood, partial(all_networks, networks)),
    }
    if LAPLACE in scores:
        ways[LAPLACE] = likelihood, priors[scores[LAPLACE]["choice"]]
    far = far_scores(task, network, fitted.distance, {way: partial(epistemic, *of) for way, of in ways.items()})
    far[DOUBT] = {"auroc": scores[TEMPERATURE]["auroc"]}
    return {"ways": scores, "far": far, "seconds": {"training": training, FITTED: seconds}}


def _trained(task: Task, epochs: int, seed: int) -> nn.Module:
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
    scores = {choice: tempered(likelihood, outputs, task.held_out) for choice, outputs in choices.items()}
    best = max(scores, key=lambda choice: scores[choice][1])
    outputs = choices[best] if says is None else says(best)
    return {**_scores(task, scores[best][0], outputs), "choice": best}


def _scores(task: Task, likelihood: Likelihood, outputs: Outputs) -> Plain:
    """Score test rows, changed ones, and how well doubt tells rows that are like none of these."""

    def predicted(x: Tensor) -> tuple[Any, Tensor]:
        draws = outputs(x)
        prediction: Any = likelihood.predict([draws], len(draws))
        doubts: Tensor = prediction.predictive_entropy if task.has_classes else prediction.variance
        return prediction, doubts.flatten(1).mean(1) if doubts.ndim > 1 else doubts

    (x, y), shifted = task.test, task.shifted
    (known, doubt), (strange, more_doubt) = predicted(x), predicted(task.strange)
    results = {
        "log_likelihood": known.log_prob(y).mean().item(),
        "auroc": auroc(doubt, more_doubt),
        "calibration": calibration_error(known, y).item() if task.has_classes else number_scores(known, y)["coverage"],
    }
    if shifted is not None:  # whose pictures are the strange ones
        results["shifted"] = strange.log_prob(shifted[1]).mean().item()
    return results


def summary(parts: Sequence[Plain]) -> Plain:
    """Average the scores of each way over seeds, with gains on the temperature alone, seed by seed."""
    results: Plain = {}
    for way in (way for way in WAYS if way in parts[0]["ways"]):
        scores = [part["ways"][way] for part in parts]
        alone = [part["ways"][TEMPERATURE] for part in parts]
        results[way] = {name: mean_and_error([each[name] for each in scores]) for name in SCORES if name in scores[0]}
        for name in ("log_likelihood", "auroc"):
            gains = [each[name] - other[name] for each, other in zip(scores, alone, strict=True)]
            results[way][f"{name}_gain"] = mean_and_error(gains)
    kept = [part["ways"][FITTED]["kept"] for part in parts]
    results[FITTED]["kept"] = {name: kept.count(name) for name in sorted(set(kept))}
    share = [part["seconds"][FITTED] / part["seconds"]["training"] for part in parts]
    far = {
        way: {name: mean_and_error([part["far"][way][name] for part in parts]) for name in parts[0]["far"][way]}
        for way in FAR
        if way in parts[0]["far"]
    }
    return {"ways": results, "far": far, "share_of_training": mean_and_error(share)}


def counts(results: Mapping[str, Plain]) -> Plain:
    """Count networks on which `fit_rates` is near or ahead of the best other way of one network."""
    networks = [of["ways"] for of in results.values()]
    gains = [{way: each["log_likelihood_gain"][0] for way, each in ways.items()} for ways in networks]
    ahead = [each[FITTED] - max(each[way] for way in SINGLE if way in each) for each in gains]
    return {
        "networks": len(results),
        "near": sum(each >= -NEAR for each in ahead),
        "ahead": sum(each >= AHEAD for each in ahead),
        "behind temperature": sum(each[FITTED] < -NEAR for each in gains),
        "found": sum(ways[FITTED]["auroc_gain"][0] >= FOUND for ways in networks),
    }
