"""How well a policy does: its mean reward, and whether the pole is up in the end."""

from collections.abc import Callable

import torch
from torch import Tensor

from gumdrop_experiments.cartpole.control.tasks import Task
from gumdrop_experiments.pages.numbers import rounded

REACHED, REACHED_STEPS = 0.25, 10
"""The pole is up if its tip is within this many metres of the goal in each of the last steps, this many."""
CRITERION = (
    f"The goal is reached in a trial if the tip stays within {REACHED} m of it for the last {REACHED_STEPS} steps."
)
NUM_STARTS = 100


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
