"""Minimise each function by each way, from the same points."""

import time
import warnings
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gumdrop_experiments.harness import Plain, Run
from gumdrop_experiments.pages import mean_and_error, rounded
from gumdrop_experiments.shared import seeded
from gumdrop_experiments.surrogate import Settings

LEARNED, FIXED, PROCESS, SOBOL = "learned rates", "MC dropout .1", "Gaussian process", "Sobol points"
WAYS = (LEARNED, FIXED, PROCESS, SOBOL)
AT_ONCE = 2
STARTS, RAW = 4, 128
"""Starts of the gradient, and the points that they are chosen from."""


class Problem(NamedTuple):
    """A function of `botorch.test_functions`."""

    kind: str
    dim: int
    bounds: tuple[float, float] | None = None
    """Of all inputs; the function's own if None."""

    def make(self) -> Any:
        """Build it, to be maximised."""
        from botorch import test_functions

        options: Plain = {} if self.kind == "Branin" else {"dim": self.dim}
        if self.bounds is not None:
            options["bounds"] = [self.bounds] * self.dim
        return getattr(test_functions, self.kind)(negate=True, **options)


FUNCTIONS = {
    "branin": Problem("Branin", 2),
    "hartmann": Problem("Hartmann", 6),
    "ackley": Problem("Ackley", 10, (-5.0, 10.0)),
    "levy": Problem("Levy", 6),
}
"""The bounds of Ackley's function are those of Eriksson et al.: in its own the minimum is in the middle."""


def study(settings: Settings, run: Run) -> Plain:
    """Minimise the functions, and compare the ways seed by seed."""
    if find_spec("botorch") is None:
        raise ValueError("`surrogate` needs botorch: pip install 'gumdrop[surrogates]'")
    if settings.initial >= settings.evaluations:
        raise ValueError(f"`initial` must be below `evaluations`, got {settings.initial} and {settings.evaluations}")
    names = settings.functions or tuple(FUNCTIONS)
    seeds = run.options.seeds(settings.seeds)
    keys = [(name, way, seed) for seed in seeds for name in names for way in WAYS]
    parts = run.parts({key: partial(minimised, FUNCTIONS[key[0]], settings, *key[1:]) for key in keys})
    results = {name: _summary({way: [parts[name, way, seed] for seed in seeds] for way in WAYS}) for name in names}
    below = {way: sum(each["below"][way][0] < 0 for each in results.values()) for way in WAYS[1:]}
    return {
        "functions": results,
        "below": below,
        "seeds": settings.seeds,
        "evaluations": settings.evaluations,
        "initial": settings.initial,
        "botorch": version("botorch"),
    }


def minimised(problem: Problem, settings: Settings, way: str, seed: int) -> Plain:
    """Minimise a function; give the regret after each evaluation, and the rates at the end."""
    started = time.process_time()
    with seeded(seed), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a line search that begins anew, and of a fit that does
        regret, rates = _evaluated(problem, way, settings, seed)
    return {"regret": rounded(regret, 6), "rates": rounded(rates), "seconds": round(time.process_time() - started, 1)}


def _evaluated(problem: Problem, way: str, settings: Settings, seed: int) -> tuple[Tensor, list[float]]:
    from botorch.optim import optimize_acqf
    from botorch.utils.transforms import unnormalize

    from gumdrop_experiments.surrogate.models import GaussianProcess, Networks

    function, dim = problem.make(), problem.dim
    bounds = function.bounds.double()
    count = settings.evaluations if way == SOBOL else settings.initial
    x = torch.quasirandom.SobolEngine(dim, scramble=True, seed=seed).draw(count, dtype=torch.float64)
    y = function(unnormalize(x, bounds))
    cube = torch.stack([torch.zeros_like(bounds[0]), torch.ones_like(bounds[0])])
    surrogate = GaussianProcess() if way == PROCESS else Networks(dim, settings.steps, way == FIXED)
    while len(x) < settings.evaluations:
        acquisition = surrogate.acquisition(x, y.unsqueeze(1), 1000 * seed + len(x))
        options: Plain = {"num_restarts": STARTS, "raw_samples": RAW}
        options["options"] = {"maxiter": 50, "sample_around_best": True}
        points, _ = optimize_acqf(acquisition, cube, q=min(AT_ONCE, settings.evaluations - len(x)), **options)
        x, y = torch.cat([x, points]), torch.cat([y, function(unnormalize(points, bounds))])
    return function.optimal_value - y.cummax(0).values, [] if way == SOBOL else surrogate.rates()


def _summary(runs: dict[str, list[Plain]]) -> Plain:
    """Means over the seeds with their standard errors, and how far learned rates are below each other way."""
    last = {way: [each["regret"][-1] for each in parts] for way, parts in runs.items()}
    curves = {way: np.array([each["regret"] for each in parts]) for way, parts in runs.items()}
    gaps = {way: np.subtract(last[LEARNED], values) for way, values in last.items() if way != LEARNED}
    return {
        "regret": {way: mean_and_error(values) for way, values in last.items()},
        "below": {way: mean_and_error(gap) for way, gap in gaps.items()},
        "final": last,
        "curves": {way: rounded(curve) for way, curve in curves.items()},
        "rates": np.mean([each["rates"] for each in runs[LEARNED]], axis=0).tolist(),
        "seconds": {way: float(np.median([each["seconds"] for each in parts])) for way, parts in runs.items()},
    }
