"""Searches for a policy with learned rates, a fixed one and no dropout, and what they are held against."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gumdrop.networks import dropout_rates
from gumdrop_experiments.cartpole import Settings
from gumdrop_experiments.cartpole.control.policies import SearchSettings
from gumdrop_experiments.cartpole.control.search import Search
from gumdrop_experiments.cartpole.control.tasks import TASKS, Trial
from gumdrop_experiments.cartpole.film import animation
from gumdrop_experiments.cartpole.references import cross_entropy, evaluation, is_reached, random_actions, true_dynamics
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages import rounded

VARIANTS = {
    "learned": SearchSettings(p=0.1, learned=True),
    "fixed": SearchSettings(p=0.1, learned=False),
    "none": SearchSettings(p=0.0, learned=False),
}
"""Searches that differ in nothing but the dropout of the dynamics network."""
QUICK = {"hidden": (32, 32), "model_steps": 40, "policy_steps": 10, "num_policies": 4, "num_particles": 8}


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
    """One search: what there is to say of each trial."""
    search = Search(TASKS[settings.environment], search_settings, seed=seed)
    place = folder / f"{variant}-{seed}.pt"
    pairs = [(torch.tensor(each["states"]), torch.tensor(each["actions"])) for each in held_out]
    asked = [Trial(states, actions, torch.zeros(len(actions))) for states, actions in pairs]
    records: list[Plain] = search.load(place) if place.exists() else []
    while len(records) < settings.trials:
        started = time.process_time()
        trial = search.run_next()
        seconds = time.process_time() - started
        records.append(_record(search, trial, asked) | {"seconds": rounded(seconds)})
        search.save(place, records)
        count = f"trial {len(records)} of {settings.trials}"
        print(f"cartpole: {variant}, seed {seed}, {count}: reward {trial.total:.2f}", flush=True)
    return records


def _record(search: Search, trial: Trial, held_out: list[Trial]) -> Plain:
    """What there is to say of a trial, and of the model and policy that it was run with."""
    rates = dropout_rates(search.dynamics.network) if search.settings.learned else {}
    return {
        "reward": rounded(trial.total),
        "expected": rounded(search.expected.max()),
        "reached": is_reached(search.task, trial.states),
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

    def left_out(which: int, index: int) -> set[str]:
        fan = set() if which == 0 and index in shown else {"fan"}
        return fan if which == 0 and variant == "learned" else fan | {"states", "actions"}

    return [
        [
            {name: value for name, value in record.items() if name not in left_out(which, index)}
            for index, record in enumerate(run)
        ]
        for which, run in enumerate(runs)
    ]
