"""What a policy search must know of a task: where it starts, what it earns, and how its states are written.

The reward is known, as in PILCO; how states follow each other is not.
"""

from collections.abc import Callable
from dataclasses import dataclass

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gumdrop_experiments.cartpole.control.swing_up import (
    MAX_FORCE,
    SECONDS,
    START,
    START_STD,
    CartPole,
    tip_distance,
    tip_reward,
)

WIDTHS = (0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Task:
    """A task with a known reward."""

    environment: str
    horizon: int
    """Steps that are planned ahead."""
    max_action: float
    """Actions lie between this and its negative."""
    state_of: Callable[[NDArray[np.floating]], Tensor]
    """State of an observation, shape (D,)."""
    scale: tuple[float, ...]
    """Usual size of each feature."""
    angle: int
    """Which number of the state is an angle, in rad, known up to full turns."""
    start: Callable[[int, torch.Generator], Tensor]
    """Draws this many first states, shape (count, D)."""
    reward: Callable[[Tensor, Tensor, Tensor], Tensor]
    """Reward of a step from its state, its action and the state that follows: shapes (..., D), (...,), (..., D)."""
    objective: Callable[[Tensor, Tensor, Tensor], Tensor]
    """What a policy is improved on: the reward, or something easier to climb that is largest at the same place."""
    distance: Callable[[Tensor], Tensor]
    """Distance of a state, shape (..., D), from the goal, in m."""
    advance: Callable[[Tensor, Tensor], Tensor]
    """The true next state; for references and tests alone."""

    @property
    def num_states(self) -> int:
        """D."""
        return len(self.scale) - 1

    def features(self, state: Tensor) -> Tensor:
        """Write the angle of states (..., D) as its sine, in its place, and its cosine, at the end: (..., D + 1)."""
        angle = state.narrow(-1, self.angle, 1)
        before, after = state[..., : self.angle], state[..., self.angle + 1 :]
        return torch.cat([before, angle.sin(), after, angle.cos()], dim=-1)

    def difference(self, after: Tensor, before: Tensor) -> Tensor:
        """Change of the state, by the angle on the short way."""
        change = after - before
        turns = (change[..., self.angle] / (2 * torch.pi)).round()
        change[..., self.angle] -= 2 * torch.pi * turns
        return change


def _wide_reward(state: Tensor, action: Tensor, following: Tensor) -> Tensor:
    """Mean of the reward over widths, as PILCO offers: the widest has a slope even where the pole hangs."""
    return torch.stack([tip_reward(following, width=width) for width in WIDTHS]).mean(0)


def _pendulum_reward(state: Tensor, action: Tensor, following: Tensor) -> Tensor:
    theta = torch.remainder(state[..., 0] + torch.pi, 2 * torch.pi) - torch.pi
    return -(theta.square() + 0.1 * state[..., 1].square() + 0.001 * action.square())


def _pendulum_advance(state: Tensor, action: Tensor) -> Tensor:
    theta, omega = state.unbind(-1)
    omega = (omega + (15.0 * theta.sin() + 3.0 * action) * 0.05).clamp(-8, 8)
    return torch.stack([theta + 0.05 * omega, omega], dim=-1)


TASKS = {
    "swing-up": Task(
        environment="gumdrop/CartPoleSwingUp-v0",
        horizon=25,
        max_action=1.0,
        state_of=lambda observation: torch.from_numpy(np.asarray(observation, dtype=np.float32)),
        scale=(1.0, 3.0, 1.0, 6.0, 1.0),
        angle=2,
        start=lambda count, generator: (
            torch.tensor(START, dtype=torch.float32) + START_STD * torch.randn(count, 4, generator=generator)
        ),
        reward=lambda state, action, following: tip_reward(following),
        objective=_wide_reward,
        distance=tip_distance,
        advance=lambda state, action: CartPole().advance(state, MAX_FORCE * action, seconds=SECONDS, substeps=2),
    ),
    "pendulum": Task(
        environment="Pendulum-v1",
        horizon=60,
        max_action=2.0,
        state_of=lambda observation: torch.tensor([np.arctan2(observation[1], observation[0]), observation[2]]).float(),
        scale=(1.0, 4.0, 1.0),
        angle=0,
        start=lambda count, generator: (
            (2 * torch.rand(count, 2, generator=generator) - 1) * torch.tensor([torch.pi, 1.0])
        ),
        reward=_pendulum_reward,
        objective=_pendulum_reward,
        distance=lambda state: 2 * (state[..., 0] / 2).sin().abs(),
        advance=_pendulum_advance,
    ),
}


@dataclass(frozen=True)
class Trial:
    """What happened in one episode of T steps."""

    states: Tensor
    """Shape (T + 1, D)."""
    actions: Tensor
    """Shape (T,)."""
    rewards: Tensor
    """Shape (T,)."""

    @property
    def total(self) -> float:
        """Cumulative reward."""
        return float(self.rewards.sum())


def run_trial(task: Task, policy: Callable[[Tensor], Tensor], *, seed: int) -> Trial:
    """Run one episode of the environment; the policy gives the action of a state (D,)."""
    environment = gymnasium.make(task.environment)
    observation, _ = environment.reset(seed=seed)
    states, actions, rewards, over = [task.state_of(observation)], [], [], False
    while not over:
        with torch.no_grad():
            action = policy(states[-1]).clamp(-task.max_action, task.max_action)
        observation, reward, ended, cut, _ = environment.step(action.reshape(1).numpy())
        states.append(task.state_of(observation))
        actions.append(action.reshape(()))
        rewards.append(float(reward))
        over = ended or cut
    environment.close()
    return Trial(torch.stack(states), torch.stack(actions), torch.tensor(rewards))
