"""How well a policy does, and what the searches are held against: true dynamics, random actions, no model."""

import contextlib
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from gumdrop_experiments.cartpole.control.policies import Policies, SearchSettings, improve, roll_out
from gumdrop_experiments.cartpole.control.tasks import Task, run_trial
from gumdrop_experiments.harness import Plain
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

    found = [run_trial(task, disturbed, seed=seed) for seed in range(HELD_OUT_TRIALS)]
    return {
        **evaluation(task, act),
        "held_out": [{"states": rounded(trial.states), "actions": rounded(trial.actions)} for trial in found],
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


def is_reached(task: Task, states: Tensor) -> bool:
    """Whether the pole is up at the end of a trial."""
    return bool((task.distance(states[-REACHED_STEPS:]) < REACHED).all())
