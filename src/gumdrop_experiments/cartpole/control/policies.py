"""Model-based policy search, after DeepPILCO (Gal, McAllister & Rasmussen 2016).

Trial by trial: a network learns how states change from all transitions so far (`Dynamics`); policies are improved by
gradient through roll-outs of it (`improve`); the best of them acts in the next trial. A roll-out follows particles,
each with a function of its own, drawn from the dropout posterior and held for all steps: what the network does not
know makes particles part, and a policy is chosen for all of them. `search` is the loop.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gumdrop_experiments.cartpole.control.tasks import Task

Advance = Callable[[Tensor, Tensor], Tensor]
"""Gives the next states, shape (K, P, D), from states and actions, shape (K, P), of K policies with P particles."""
NO_DROPOUT = 1e-80
"""A rate that float32 rounds to 0, so that no mask drops anything."""
HELD_OUT = 8
"""One transition in this many sets the noise, and does not train the weights."""
VALIDATION_SAMPLES = 3
MAX_NORM = 1.0
JITTER = 1e-6
LAST_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How a policy is searched."""

    p: float = 0.1
    """Drop probability at the start; 0 for a network without dropout."""
    learned: bool = True
    hidden: tuple[int, ...] = (200, 200)
    """Units of the hidden layers of the dynamics network."""
    lengthscale: float = 1.0
    """Prior of its weights, see `gumdrop.kl_divergence`."""
    log_variance: float = -4.0
    """Log variance of its noise at the start, of standardised changes."""
    model_steps: int = 800
    """Training steps of the network after each trial; it goes on from where the last trial left it."""
    model_lr: float = 4e-3
    """Largest learning rate of these."""
    batch_size: int = 50
    num_policies: int = 8
    """Policies that are improved side by side."""
    policy_units: int = 32
    num_particles: int = 10
    """Particles of each policy."""
    policy_steps: int = 250
    """Improvements after each trial."""
    policy_lr: float = 0.02
    """Learning rate of the first of them; it falls to 0."""
    gradient_decay: float = 0.8
    """Factor on the gradient at each step that it goes back in time. An upright pole multiplies it by 1.6 at each, so
    without this the last steps of a roll-out drown all others."""
    moment_matching: bool = False
    """Draw the particles anew at each step from a Gaussian with their mean and covariance."""


class Policies(nn.Module):
    """Some policies side by side: small networks from features of the state (K, P, F) to a bounded action (K, P)."""

    def __init__(self, task: Task, settings: SearchSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.max_action = task.max_action
        self.register_buffer("scale", torch.tensor(task.scale))
        count, units, features = settings.num_policies, settings.policy_units, len(task.scale)
        self.hidden = nn.Parameter(2 / features**0.5 * torch.randn(count, features, units, generator=generator))
        self.bias = nn.Parameter(0.5 * torch.randn(count, 1, units, generator=generator))
        self.output = nn.Parameter(torch.randn(count, units, 1, generator=generator) / units**0.5)

    scale: Tensor

    def __len__(self) -> int:
        """Count the policies."""
        return len(self.hidden)

    def forward(self, features: Tensor) -> Tensor:
        """Choose actions."""
        hidden = torch.tanh(torch.baddbmm(self.bias, features / self.scale, self.hidden))
        return self.max_action * torch.tanh(torch.bmm(hidden, self.output).squeeze(-1))

    @torch.no_grad()
    def act(self, which: int, features: Tensor) -> Tensor:
        """Ask one of the policies: features (..., F), actions (...,)."""
        rows = features.reshape(1, -1, features.shape[-1]).expand(len(self), -1, -1)
        return self(rows)[which].reshape(features.shape[:-1])

    def replace(self, which: Tensor, others: "Policies") -> None:
        """Put others in the place of some."""
        with torch.no_grad():
            for mine, theirs in zip(self.parameters(), others.parameters(), strict=True):
                mine[which] = theirs[which]


def roll_out(
    task: Task,
    policies: Policies,
    advance: Advance,
    *,
    num_particles: int,
    moment_matching: bool = False,
    gradient_decay: float = 1.0,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Follow P particles under each of K policies: states (T + 1, K, P, D), and actions (T, K, P).

    Moment matching draws the particles anew at each step from a Gaussian with their mean and covariance;
    ``gradient_decay`` is a factor on the gradient of a state at each step that it goes back in time.
    """
    state = task.start(num_particles, generator).expand(len(policies), -1, -1)
    states, actions = [state], []
    for _ in range(task.horizon):
        actions.append(policies(task.features(state)))
        state = advance(state, actions[-1])
        if moment_matching:
            state = _as_gaussian(state, torch.randn(state.shape[1:], generator=generator))
        states.append(state)
        state = torch.lerp(state.detach(), state, gradient_decay)
    return torch.stack(states), torch.stack(actions)


def _as_gaussian(state: Tensor, noise: Tensor) -> Tensor:
    """Draws from a Gaussian with mean and covariance of the particles, shape (K, P, D), with gradient to these."""
    mean = state.mean(1, keepdim=True)
    spread = state - mean
    covariance = spread.transpose(1, 2) @ spread / (state.shape[1] - 1)
    factor, _ = torch.linalg.cholesky_ex(covariance + JITTER * torch.eye(state.shape[-1]))
    return mean + noise @ factor.transpose(1, 2)


def improve(
    task: Task,
    policies: Policies,
    model: Callable[[], contextlib.AbstractContextManager[Advance]],
    settings: SearchSettings,
    *,
    generator: torch.Generator,
) -> Tensor:
    """Improve policies by gradient through roll-outs, each on its own, in place.

    ``model`` gives a context with a way that states may change, another one for each step. Gives the cumulative reward
    that each policy can expect according to the model, (K,), averaged over the last steps.
    """
    optimizer = torch.optim.Adam(policies.parameters(), lr=settings.policy_lr)
    expected = torch.zeros(len(policies))
    for step in range(settings.policy_steps):
        with model() as advance:
            states, actions = roll_out(
                task,
                policies,
                advance,
                num_particles=settings.num_particles,
                moment_matching=settings.moment_matching,
                gradient_decay=settings.gradient_decay,
                generator=generator,
            )
            transitions = states[:-1], actions, states[1:]
            optimizer.zero_grad()
            (-task.objective(*transitions).mean((0, 2)).sum()).backward()
        _clip_each(policies)
        optimizer.param_groups[0]["lr"] = settings.policy_lr * (1 - step / settings.policy_steps)
        optimizer.step()
        with torch.no_grad():
            total = task.reward(*transitions).sum(0).mean(1)
        expected.lerp_(total, max(LAST_SHARE, 1 / (step + 1)))
    return expected


def _clip_each(policies: Policies) -> None:
    """Clip the gradient of each policy; one that is not finite counts as 0."""
    gradients = [parameter.grad for parameter in policies.parameters() if parameter.grad is not None]
    norm = torch.stack([gradient.square().sum((1, 2)) for gradient in gradients]).sum(0).sqrt()
    factor = (MAX_NORM / norm.clamp(min=MAX_NORM)).nan_to_num(0.0)[:, None, None]
    for gradient in gradients:
        gradient.mul_(factor).nan_to_num_(0.0, 0.0, 0.0)
