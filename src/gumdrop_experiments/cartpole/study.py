"""Searches for a policy with learned rates, a fixed one and no dropout, and what they are held against."""

import contextlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gumdrop import dropout_rates
from gumdrop_experiments.cartpole import Settings
from gumdrop_experiments.cartpole.control.policies import Policies, SearchSettings, improve, roll_out
from gumdrop_experiments.cartpole.control.search import Search
from gumdrop_experiments.cartpole.control.swing_up import animation
from gumdrop_experiments.cartpole.control.tasks import TASKS, Task, Trial, run_trial
from gumdrop_experiments.harness import Plain, Run
from gumdrop_experiments.pages import rounded

REACHED, REACHED_STEPS = 0.25, 10
"""The pole is up if its tip is within this many metres of the goal in each of the last steps, this many."""
CRITERION = (
    f"The goal is reached in a trial if the tip stays within {REACHED} m of it for the last {REACHED_STEPS} steps."
)
NUM_STARTS = 100
REFERENCE = SearchSettings(p=0.0, learned=False, num_policies=24, num_particles=3, policy_steps=300)
HELD_OUT_TRIALS = 20
DISTURBANCE = 0.3
"""Standard deviation of what is added to the actions of held-out trials, in units of the largest action."""
POPULATION, ELITE, GENERATIONS, QUICK_GENERATIONS = 40, 8, 100, 3
LEAST_STD = 0.02
VARIANTS = {
    "learned": SearchSettings(p=0.1, learned=True),
    "fixed": SearchSettings(p=0.1, learned=False),
    "none": SearchSettings(p=0.0, learned=False),
}
"""Searches that differ in nothing but the dropout of the dynamics network."""
QUICK = {"hidden": (32, 32), "model_steps": 40, "policy_steps": 10, "num_policies": 4, "num_particles": 8}


def true_dynamics(task: Task, *, seed: int, quick: bool) -> Plain:
    """A policy improved with the true equations of motion, and what it does, as transitions to hold a model against."""
    settings = replace(REFERENCE, policy_steps=5, num_policies=2) if quick else REFERENCE
    generator = torch.Generator().manual_seed(seed)
    policies = Policies(task, settings, generator)
    expected = improve(task, policies, lambda: contextlib.nullcontext(task.advance), settings, generator=generator)
    best = int(expected.argmax())

    def act(state: Tensor) -> Tensor:
        return policies.act(best, task.features(state))

    def disturbed(state: Tensor) -> Tensor:
        return act(state) + DISTURBANCE * task.max_action * torch.randn((), generator=generator)

    trials = [run_trial(task, disturbed, seed=seed) for seed in range(HELD_OUT_TRIALS)]
    return {
        **evaluation(task, act),
        "held_out": [{"states": rounded(trial.states), "actions": rounded(trial.actions)} for trial in trials],
    }


def random_actions(task: Task, *, seed: int) -> dict[str, float]:
    """Act at random."""
    generator = torch.Generator().manual_seed(seed)
    return evaluation(task, lambda state: task.max_action * (2 * torch.rand(len(state), generator=generator) - 1))


@torch.no_grad()
def cross_entropy(task: Task, *, seed: int, quick: bool) -> Plain:
    """Search without a model: a Gaussian over the weights of a policy moves to the best of each generation."""
    generator = torch.Generator().manual_seed(seed)
    policies = Policies(task, replace(REFERENCE, num_policies=POPULATION), generator)
    mean = [torch.zeros_like(parameter[0]) for parameter in policies.parameters()]
    std = [parameter.std(0) for parameter in policies.parameters()]
    curve = []
    for _ in range(QUICK_GENERATIONS if quick else GENERATIONS):
        for parameter, m, s in zip(policies.parameters(), mean, std, strict=True):
            parameter.copy_(m + s * torch.randn(parameter.shape, generator=generator))
        states, actions = roll_out(task, policies, task.advance, num_particles=1, generator=generator)
        totals = task.reward(states[:-1], actions, states[1:]).sum((0, 2))
        best = totals.topk(ELITE).indices
        for parameter, m, s in zip(policies.parameters(), mean, std, strict=True):
            m.copy_(parameter[best].mean(0))
            s.copy_(parameter[best].std(0) + LEAST_STD)
        curve.append(rounded(totals.mean()))
    return {"trials_per_generation": POPULATION, "rewards": curve}


def evaluation(task: Task, act: Callable[[Tensor], Tensor]) -> dict[str, float]:
    """Mean reward from many starts, and the share of them from which the pole is up in the end."""
    state = task.start(NUM_STARTS, torch.Generator().manual_seed(0))
    states, total = [state], torch.zeros(NUM_STARTS)
    for _ in range(task.horizon):
        action = act(state)
        following = task.advance(state, action)
        total += task.reward(state, action, following)
        states.append(state := following)
    up = (task.distance(torch.stack(states[-REACHED_STEPS:])) < REACHED).all(0)
    return {"reward": rounded(total.mean()), "reached": rounded(up.float().mean())}


def study(settings: Settings, run: Run) -> Plain:
    """Run the references, then all searches; where it is a cart that was controlled, show it as a film."""
    task, quick = TASKS[settings.environment], run.options.quick
    seeds = run.options.seeds(settings.seeds)
    changes: Plain = {"moment_matching": settings.moment_matching, **(QUICK if quick else {})}
    searches = {variant: replace(each, **changes) for variant, each in VARIANTS.items()}
    reference = run.part("reference", partial(true_dynamics, task, seed=seeds[0], quick=quick))
    references = {
        "true dynamics": {"reward": reference["reward"], "reached": reference["reached"]},
        "random": run.part("random", partial(random_actions, task, seed=seeds[0])),
        "model-free": [
            run.part(f"model-free-{seed}", partial(cross_entropy, task, seed=seed, quick=quick)) for seed in seeds
        ],
    }
    held_out, folder = reference["held_out"], run.folder / "searches"
    search = partial(_search, settings, held_out, folder)
    done = run.parts({(v, seed): partial(search, each, v, seed) for seed in seeds for v, each in searches.items()})
    variants = {variant: [done[variant, seed] for seed in seeds] for variant in VARIANTS}
    if settings.environment == "swing-up":
        animation(run.folder / "cartpole.gif", variants["learned"][0])
    return {
        "environment": settings.environment,
        "summary": {variant: summary(runs) for variant, runs in variants.items()},
        "settings": {variant: asdict(each) for variant, each in searches.items()},
        "arms": {variant: kept(variant, runs) for variant, runs in variants.items()},
        "references": references,
    }


def _search(
    settings: Settings, held_out: list[Any], folder: Path, search_settings: SearchSettings, variant: str, seed: int
) -> list[Plain]:
    search = Search(TASKS[settings.environment], search_settings, seed=seed)
    path = folder / f"{variant}-{seed}.pt"
    pairs = [(torch.tensor(each["states"]), torch.tensor(each["actions"])) for each in held_out]
    asked = [Trial(states, actions, torch.zeros(len(actions))) for states, actions in pairs]
    records: list[Plain] = search.load(path) if path.exists() else []
    while len(records) < settings.trials:
        started = time.process_time()
        trial = search.run_next()
        seconds = time.process_time() - started
        records.append(_record(search, trial, asked) | {"seconds": rounded(seconds)})
        search.save(path, records)
        count = f"trial {len(records)} of {settings.trials}"
        print(f"cartpole: {variant}, seed {seed}, {count}: reward {trial.total:.2f}", flush=True)
    return records


def _record(search: Search, trial: Trial, held_out: list[Trial]) -> Plain:
    rates = dropout_rates(search.dynamics.network) if search.settings.learned else {}
    return {
        "reward": rounded(trial.total),
        "expected": rounded(search.expected.max()),
        "reached": bool((search.task.distance(trial.states[-REACHED_STEPS:]) < REACHED).all()),
        "distance": rounded(search.task.distance(trial.states[1:])),
        "states": rounded(trial.states),
        "actions": rounded(trial.actions),
        "rates": [float(p) for p in rates.values()],
        "noise": rounded(search.dynamics.noise_std),
        "fan": rounded(search.task.distance(search.imagine(30, seed=search.seed))),
        "evaluation": evaluation(search.task, search.act),
        **({} if len(search.trials) == 1 else {"held_out": _held_out_scores(search, held_out)}),
    }


def _held_out_scores(search: Search, held_out: list[Trial]) -> dict[str, float]:
    """Scores of the model on transitions of a swing-up, in units of their standard deviations."""
    change = torch.cat([search.task.difference(trial.states[1:], trial.states[:-1]) for trial in held_out])
    prediction = search.dynamics.predict(held_out, seed=search.seed).rescale(1 / change.std(0))
    target = change / change.std(0)
    return {
        "epistemic": rounded(prediction.epistemic.mean().sqrt()),
        "aleatoric": rounded(prediction.aleatoric.mean().sqrt()),
        "error": rounded((prediction.mean - target).square().mean().sqrt()),
        "log_likelihood": rounded(prediction.log_prob(target).mean()),
    }


def summary(runs: Sequence[Sequence[Plain]]) -> Plain:
    """Sum up the searches of a variant by their last trials."""
    last = [run[-1] for run in runs]
    rewards = [record["reward"] for record in last]
    firsts = [next((i for i, record in enumerate(run, 1) if record["reached"]), None) for run in runs]
    return {
        "searches": len(runs),
        "median": statistics.median(rewards),
        "least": min(rewards),
        "most": max(rewards),
        "evaluation": statistics.median(record["evaluation"]["reward"] for record in last),
        "reached": sum(record["reached"] for record in last),
        "first_reached": firsts,
        "rates": [statistics.median(each) for each in zip(*(record["rates"] for record in last), strict=True)],
    }


def fan_trials(total: int) -> list[int]:
    """Choose the trials of the fan plot."""
    return sorted({1, min(total, 5) - 1, max(total // 2, 2) - 1, total - 1})


def kept(variant: str, runs: Sequence[Sequence[Plain]]) -> list[list[Plain]]:
    """Leave states and particles out of the records, save for those in a figure; the parts hold all."""
    shown = fan_trials(len(runs[0]))
    without = set() if variant == "learned" else {"states", "actions"}
    first = [_without(record, without if i in shown else without | {"fan"}) for i, record in enumerate(runs[0])]
    return [first, *([_without(record, {"states", "actions", "fan"}) for record in run] for run in runs[1:])]


def _without(record: Plain, names: set[str]) -> Plain:
    return {name: value for name, value in record.items() if name not in names}
