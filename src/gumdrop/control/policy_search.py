"""Model-based policy search, after DeepPILCO (Gal, McAllister & Rasmussen 2016).

Trial by trial: a network learns how states change from all transitions so far; policies are improved by gradient
through roll-outs of it; the best of them acts in the next trial. A roll-out follows particles, each with a function
of its own, drawn from the dropout posterior and held for all steps: what the network does not know makes particles
part, and a policy is chosen for all of them.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gumdrop.control.tasks import Task, Trial
from gumdrop.conversion import fix_dropout
from gumdrop.functional import dropout_scale
from gumdrop.layers import ConcreteDropout
from gumdrop.networks import mlp
from gumdrop.training import fit

__all__ = ["Dynamics", "Policies", "SearchSettings", "improve", "learn_dynamics", "roll_out"]

NO_DROPOUT = 1e-80
"""A rate that float32 rounds to 0, so that no mask drops anything."""


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How a policy is searched."""

    p: float = 0.1
    """Drop probability at the start; 0 for a network without dropout."""
    learned: bool = True
    """Learn it."""
    hidden: tuple[int, ...] = (200, 200)
    """Units of the hidden layers of the dynamics network."""
    lengthscale: float = 0.3
    """Prior of its weights, see `gumdrop.kl_divergence`."""
    model_steps: int = 600
    """Training steps of the network after each trial."""
    log_variance: float = -4.0
    model_lr: float = 3e-3
    batch_size: int = 50
    num_policies: int = 8
    """Policies that are improved side by side."""
    policy_units: int = 32
    num_particles: int = 16
    """Particles of each policy."""
    policy_steps: int = 150
    """Improvements after each trial."""
    policy_lr: float = 0.02
    moment_matching: bool = True
    """Draw the particles anew at each step from a Gaussian with their mean and covariance."""


class Dynamics(nn.Module):
    """How a state changes: a network with dropout in front of every layer, in standard units."""

    def __init__(self, num_states: int, settings: SearchSettings) -> None:
        super().__init__()
        num_inputs = num_states + 2
        network = mlp(
            num_inputs, num_states, hidden=settings.hidden, homoscedastic_noise=True, p=settings.p or NO_DROPOUT
        )
        network[-1].log_variance.data.fill_(settings.log_variance)
        self.network = network if settings.learned else fix_dropout(network)
        for name, size in (("x", num_inputs), ("y", num_states)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_std", torch.ones(size))

    x_mean: Tensor
    x_std: Tensor
    y_mean: Tensor
    y_std: Tensor

    def forward(self, features: Tensor, action: Tensor) -> Tensor:
        """Mean change of the state, shape (N, D)."""
        x = torch.cat([features, action.unsqueeze(-1)], dim=-1)
        mean = self.network[:-1]((x - self.x_mean) / self.x_std)
        return torch.addcmul(self.y_mean, mean, self.y_std)

    @property
    def noise_std(self) -> Tensor:
        return self.y_std * torch.exp(0.5 * self.network[-1].log_variance)


@contextlib.contextmanager
def particle_functions(model: nn.Module, count: int, copies: int, generator: torch.Generator) -> Iterator[None]:
    """Context in which each of `count` rows sees a function of its own, the same at every call; repeated for copies."""
    sites = [module for module in model.modules() if isinstance(module, ConcreteDropout)]
    for site in sites:
        noise = torch.rand(count, site.num_units, generator=generator)
        factor = dropout_scale(site.p_logit, noise, hard=True).repeat(copies, 1)
        vars(site)["forward"] = functools.partial(torch.mul, factor)
    try:
        yield
    finally:
        for site in sites:
            del vars(site)["forward"]


def learn_dynamics(
    dynamics: Dynamics, task: Task, trials: list[Trial], settings: SearchSettings, *, seed: int
) -> float:
    before = torch.cat([trial.states[:-1] for trial in trials])
    after = torch.cat([trial.states[1:] for trial in trials])
    actions = torch.cat([trial.actions for trial in trials])
    x, y = torch.cat([task.features(before), actions.unsqueeze(-1)], -1), task.difference(after, before)
    for name, values in (("x", x), ("y", y)):
        setattr(dynamics, f"{name}_mean", values.mean(0))
        setattr(dynamics, f"{name}_std", values.std(0).clamp(min=1e-3))
    data = ((x - dynamics.x_mean) / dynamics.x_std, (y - dynamics.y_mean) / dynamics.y_std)
    steps = -(-len(x) // settings.batch_size)
    result = fit(
        dynamics.network,
        data,
        likelihood="gaussian",
        epochs=max(1, settings.model_steps // steps),
        batch_size=settings.batch_size,
        lr=settings.model_lr,
        lengthscale=settings.lengthscale,
        max_norm=10.0,
        seed=seed,
    )
    return result.history[-1].nll


class Policies(nn.Module):
    """Some policies side by side: small networks from features of the state to a bounded action."""

    def __init__(self, max_action: float, count: int, units: int, scale: Tensor, generator: torch.Generator) -> None:
        super().__init__()
        self.max_action = max_action
        num_inputs = len(scale)
        self.register_buffer("scale", scale)
        self.w1 = nn.Parameter(2 * torch.randn(count, num_inputs, units, generator=generator) / num_inputs**0.5)
        self.b1 = nn.Parameter(0.5 * torch.randn(count, 1, units, generator=generator))
        self.w2 = nn.Parameter(torch.randn(count, units, 1, generator=generator) / units**0.5)

    def forward(self, features: Tensor) -> Tensor:
        """Actions of all policies, shape (K, P), for features of shape (K, P, D + 1)."""
        hidden = torch.tanh(torch.baddbmm(self.b1, features / self.scale, self.w1))
        return self.max_action * torch.tanh(torch.bmm(hidden, self.w2).squeeze(-1))


def resample(state: Tensor, noise: Tensor) -> Tensor:
    centre = state.mean(1, keepdim=True)
    spread = state - centre
    cov = spread.transpose(1, 2) @ spread / (state.shape[1] - 1)
    factor, _ = torch.linalg.cholesky_ex(cov + 1e-6 * torch.eye(state.shape[-1]))
    return centre + noise @ factor.transpose(1, 2)


def roll_out(
    task: Task,
    dynamics: Dynamics,
    policies: Policies,
    *,
    num_particles: int,
    moment_matching: bool,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """States (T+1, K, P, D) and actions (T, K, P)."""
    count = policies.w1.shape[0]
    start = task.start(num_particles, generator)
    state = start.expand(count, -1, -1)
    noise = torch.randn(task.horizon, 2, num_particles, start.shape[-1], generator=generator)
    noise[:, 0] *= dynamics.noise_std
    states, actions = [state], []
    with particle_functions(dynamics, num_particles, count, generator):
        for disturbance, fresh in noise:
            features = task.features(state)
            actions.append(policies(features))
            change = dynamics(features.flatten(0, 1), actions[-1].flatten())
            state = state + disturbance + change.view_as(state)
            if moment_matching:
                state = resample(state, fresh)
            states.append(state)
    return torch.stack(states), torch.stack(actions)


def improve(task: Task, dynamics: Dynamics, policies: Policies, settings: SearchSettings, *, generator: torch.Generator) -> Tensor:
    dynamics.requires_grad_(False)
    optimizer = torch.optim.Adam(policies.parameters(), lr=settings.policy_lr)
    average = torch.zeros(policies.w1.shape[0])
    for step in range(settings.policy_steps):
        states, actions = roll_out(
            task,
            dynamics,
            policies,
            num_particles=settings.num_particles,
            moment_matching=settings.moment_matching,
            generator=generator,
        )
        objective = task.objective(states[:-1], actions, states[1:])
        with torch.no_grad():
            rewards = task.reward(states[:-1], actions, states[1:])
        optimizer.zero_grad()
        (-objective.mean((0, 2))).sum().backward()
        clip_each(policies, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = settings.policy_lr * (1 - step / settings.policy_steps)
        optimizer.step()
        average = average + (rewards.sum(0).mean(1) - average) * max(0.1, 1 / (step + 1))
    dynamics.requires_grad_(True)
    return average


def clip_each(policies: Policies, max_norm: float) -> None:
    grads = [p.grad for p in policies.parameters()]
    norm = torch.stack([g.square().sum((1, 2)) for g in grads]).sum(0).sqrt()
    factor = (max_norm / norm.clamp(min=max_norm)).nan_to_num(0.0, 0.0, 0.0)
    for g in grads:
        g.mul_(factor[:, None, None]).nan_to_num_(0.0, 0.0, 0.0)
