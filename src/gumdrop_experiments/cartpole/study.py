"""Swing up a pole from few trials (the setting of DeepPILCO; Gal, McAllister & Rasmussen 2016).

A policy is learned inside a model of the dynamics that is itself learned, trial by trial (`control/`). The data
grow with every trial, so no rate found by a search beforehand fits for long. Learned rates stand beside a fixed rate
and a network without dropout, with the same seeds; and beside random actions, a search without a model, and a policy
improved with the true equations of motion, which is what is left when the dynamics need not be learned.
"""

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from gumdrop.machine.threads import limited_threads
from gumdrop.networks import dropout_rates
from gumdrop_experiments.cartpole import figures
from gumdrop_experiments.cartpole.control.policies import Policies, improve, roll_out
from gumdrop_experiments.cartpole.control.search import Search
from gumdrop_experiments.cartpole.control.settings import SearchSettings
from gumdrop_experiments.cartpole.control.tasks import TASKS, Task, Trial, run_trial
from gumdrop_experiments.cartpole.figures import PUBLISHED
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run

__all__ = ["ARMS", "cartpole"]

ARMS = {
    "learned": SearchSettings(p=0.1, learned=True),
    "fixed": SearchSettings(p=0.1, learned=False),
    "none": SearchSettings(p=0.0, learned=False),
}
"""Searches that differ in nothing but the dropout of the dynamics network."""
QUICK = {"hidden": (32, 32), "model_steps": 40, "policy_steps": 10, "num_policies": 4, "num_particles": 8}
REACHED, REACHED_STEPS = 0.25, 10
"""The pole is up if its tip is within so many metres of the goal in each of the last so many steps."""
CRITERION = (
    f"The goal is reached in a trial if the tip stays within {REACHED} m of it for the last {REACHED_STEPS} steps."
)
NUM_STARTS = 100
PARTICLES_SHOWN = 30
HELD_OUT_TRIALS = 20
REFERENCE = replace(ARMS["none"], num_policies=24, num_particles=3, policy_steps=300)
POPULATION, ELITE, GENERATIONS = 40, 8, 100


def cartpole(
    options: RunOptions = RunOptions(),
    *,
    environment: Literal["swing-up", "pendulum"] = "swing-up",
    trials: int = 20,
    seeds: int = 5,
    moment_matching: bool = False,
) -> None:
    """Learn to swing a pole up, with a model that knows what it has not seen.

    Args:
        options: The flags that all experiments share.
        environment: What to control: the pole on a cart, or Gymnasium's Pendulum-v1.
        trials: Episodes of each search; the first is random.
        seeds: Searches with each kind of dropout.
        moment_matching: Draw the particles of a roll-out anew at each step, from a Gaussian with their moments, as
            DeepPILCO does.

    Raises:
        ValueError: If a number is too small.
    """
    for name, value, least in (("trials", trials, 2), ("seeds", seeds, 1)):
        if value < least:
            raise ValueError(f"`{name}` must be at least {least}, got {value}")
    if options.quick:
        trials, seeds = min(trials, 4), min(seeds, 2)
    own = {"environment": environment, "trials": trials, "seeds": seeds, "moment_matching": moment_matching}
    changes: dict[str, Any] = {"moment_matching": moment_matching, **(QUICK if options.quick else {})}
    settings = {arm: replace(each, **changes) for arm, each in ARMS.items()}
    with Run("cartpole", options, own) as run, limited_threads(1):
        task = TASKS[environment]
        all_seeds = range(options.seed, options.seed + seeds)
        reference = run.part("reference", partial(_reference, task, options))
        references = {
            "true dynamics": {"reward": reference["reward"], "reached": reference["reached"]},
            "random": run.part("random", partial(_random, task, options.seed)),
            "model-free": [run.part(f"model-free-{s}", partial(_cross_entropy, task, s, options)) for s in all_seeds],
        }
        held_out, folder = reference["held_out"], run.folder / "searches"
        done = run.parts(
            {
                f"{arm}-{seed}": partial(_search, environment, each, trials, held_out, folder, arm, seed)
                for seed in all_seeds
                for arm, each in settings.items()
            }
        )
        arms = {arm: [done[f"{arm}-{s}"] for s in all_seeds] for arm in ARMS}
        chosen = {arm: dataclasses.asdict(each) for arm, each in settings.items()}
        _finish(run, environment, chosen, arms, references)


def _finish(
    run: Run, environment: str, settings: dict[str, Any], arms: dict[str, Any], references: dict[str, Any]
) -> None:
    """Figures, results and page."""
    is_swing_up = environment == "swing-up"
    run.figure("cartpole-reward", figures.rewards(arms, references, published=PUBLISHED if is_swing_up else None))
    run.figure("cartpole-rates", figures.rates(arms["learned"]))
    run.figure("cartpole-uncertainty", figures.uncertainty(arms))
    run.figure("cartpole-fan", figures.fan({arm: runs[0] for arm, runs in arms.items()}))
    first = arms["learned"][0]
    if is_swing_up:
        run.figure("cartpole-film", figures.film(first[-1]))
        shown = sorted({1, min(5, len(first)), len(first)})
        figures.animation(run.folder / "cartpole.gif", {f"trial {number}": first[number - 1] for number in shown})
    summary = {arm: _summary(runs) for arm, runs in arms.items()}
    for arm, runs in arms.items():
        _keep_what_is_drawn(arm, runs)
    results = {"summary": summary, "settings": settings, "arms": arms, "references": references}
    run.finish(results, figures.page(results, task=environment, trials=len(first), criterion=CRITERION))


def _keep_what_is_drawn(arm: str, runs: list[Any]) -> None:
    """Take states and particles out of the records, in place, save for those in a figure; the parts hold all."""
    shown = figures.fan_trials(len(runs[0]))
    for which, run in enumerate(runs):
        for index, record in enumerate(run):
            if which > 0 or index not in shown:
                del record["fan"]
            if which > 0 or arm != "learned":
                del record["states"], record["actions"]


def _summary(runs: list[Any]) -> dict[str, Any]:
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


# Searches


def _search(
    environment: str,
    settings: SearchSettings,
    trials: int,
    held_out: list[Any],
    folder: Path,
    arm: str,
    seed: int,
) -> list[dict[str, Any]]:
    """One search: what there is to say of each trial."""
    search = Search(TASKS[environment], settings, seed=seed)
    place = folder / f"{arm}-{seed}.pt"
    asked = [_trial(each) for each in held_out]
    records: list[dict[str, Any]] = search.load(place) if place.exists() else []
    with limited_threads(1):
        while len(records) < trials:
            started = time.process_time()
            trial = search.run_next()
            seconds = time.process_time() - started
            records.append(_record(search, trial, asked) | {"seconds": _rounded(seconds)})
            search.save(place, records)
            print(
                f"cartpole: {arm}, seed {seed}, trial {len(records)} of {trials}: reward {trial.total:.2f}", flush=True
            )
    return records


def _record(search: Search, trial: Trial, held_out: list[Trial]) -> dict[str, Any]:
    """What there is to say of a trial, and of the model and policy that it was run with."""
    rates = dropout_rates(search.dynamics.network) if search.settings.learned else {}
    return {
        "reward": _rounded(trial.total),
        "expected": _rounded(search.expected.max()),
        "reached": _reached(search.task, trial.states),
        "distance": _rounded(search.task.distance(trial.states[1:])),
        "states": _rounded(trial.states),
        "actions": _rounded(trial.actions),
        "rates": [float(p) for p in rates.values()],
        "noise": _rounded(search.dynamics.noise_std),
        "fan": _rounded(search.task.distance(search.imagine(PARTICLES_SHOWN, seed=search.seed))),
        "evaluation": _evaluation(search.task, search.act),
        **({} if len(search.trials) == 1 else {"held_out": _held_out_scores(search, held_out)}),
    }


def _held_out_scores(search: Search, held_out: list[Trial]) -> dict[str, float]:
    """Scores of the model on transitions of a swing-up, in units of their standard deviations."""
    change = torch.cat([search.task.difference(trial.states[1:], trial.states[:-1]) for trial in held_out])
    prediction = search.dynamics.predict(held_out, seed=search.seed).rescale(1 / change.std(0))
    target = change / change.std(0)
    return {
        "epistemic": _rounded(prediction.epistemic.mean().sqrt()),
        "aleatoric": _rounded(prediction.aleatoric.mean().sqrt()),
        "error": _rounded((prediction.mean - target).square().mean().sqrt()),
        "log_likelihood": _rounded(prediction.log_prob(target).mean()),
    }


def _evaluation(task: Task, act: Any) -> dict[str, float]:
    """Mean reward from many starts, and the share of them from which the pole is up in the end."""
    state = task.start(NUM_STARTS, torch.Generator().manual_seed(0))
    states, total = [state], torch.zeros(NUM_STARTS)
    for _ in range(task.horizon):
        action = act(state)
        following = task.advance(state, action)
        total += task.reward(state, action, following)
        states.append(state := following)
    up = (task.distance(torch.stack(states[-REACHED_STEPS:])) < REACHED).all(0)
    return {"reward": _rounded(total.mean()), "reached": _rounded(up.float().mean())}


def _reached(task: Task, states: Tensor) -> bool:
    return bool((task.distance(states[-REACHED_STEPS:]) < REACHED).all())


# References


def _reference(task: Task, options: RunOptions) -> dict[str, Any]:
    """A policy improved with the true equations of motion, and what it does, as transitions to hold a model against."""
    settings = replace(REFERENCE, policy_steps=5, num_policies=2) if options.quick else REFERENCE
    generator = torch.Generator().manual_seed(options.seed)
    policies = _policies(task, settings, generator)
    expected = improve(task, policies, lambda: contextlib.nullcontext(task.advance), settings, generator=generator)
    best = int(expected.argmax())

    def act(state: Tensor) -> Tensor:
        return policies.act(best, task.features(state))

    def disturbed(state: Tensor) -> Tensor:
        return act(state) + 0.3 * task.max_action * torch.randn((), generator=generator)

    found = [run_trial(task, disturbed, seed=seed) for seed in range(HELD_OUT_TRIALS)]
    return {
        **_evaluation(task, act),
        "held_out": [{"states": _rounded(trial.states), "actions": _rounded(trial.actions)} for trial in found],
    }


def _policies(task: Task, settings: SearchSettings, generator: torch.Generator) -> Policies:
    return Policies(
        max_action=task.max_action,
        scale=task.scale,
        count=settings.num_policies,
        units=settings.policy_units,
        generator=generator,
    )


def _random(task: Task, seed: int) -> dict[str, float]:
    generator = torch.Generator().manual_seed(seed)
    return _evaluation(task, lambda state: task.max_action * (2 * torch.rand(len(state), generator=generator) - 1))


@torch.no_grad()
def _cross_entropy(task: Task, seed: int, options: RunOptions) -> dict[str, Any]:
    """Search without a model: a Gaussian over the weights of a policy moves to the best of each generation."""
    generator = torch.Generator().manual_seed(seed)
    policies = _policies(task, replace(REFERENCE, num_policies=POPULATION), generator)
    mean = [torch.zeros_like(parameter[0]) for parameter in policies.parameters()]
    std = [parameter.std(0) for parameter in policies.parameters()]
    curve = []
    for _ in range(3 if options.quick else GENERATIONS):
        for parameter, m, s in zip(policies.parameters(), mean, std, strict=True):
            parameter.copy_(m + s * torch.randn(parameter.shape, generator=generator))
        states, actions = roll_out(task, policies, task.advance, num_particles=1, generator=generator)
        totals = task.reward(states[:-1], actions, states[1:]).sum((0, 2))
        best = totals.topk(ELITE).indices
        for parameter, m, s in zip(policies.parameters(), mean, std, strict=True):
            m.copy_(parameter[best].mean(0))
            s.copy_(parameter[best].std(0) + 0.02)
        curve.append(_rounded(totals.mean()))
    return {"trials_per_generation": POPULATION, "rewards": curve}


def _trial(part: Mapping[str, Any]) -> Trial:
    states, actions = torch.tensor(part["states"]), torch.tensor(part["actions"])
    return Trial(states, actions, torch.zeros(len(actions)))


def _rounded(values: Any) -> Any:
    if isinstance(values, Tensor) and values.ndim:
        return [_rounded(value) for value in values]
    return float(f"{float(values):.4g}")
