"""Model-based policy search, after DeepPILCO (Gal, McAllister & Rasmussen 2016).

Trial by trial: a network learns how states change from all transitions so far (`Dynamics`); policies are improved by
gradient through roll-outs of it (`improve`); the best of them acts in the next trial. A roll-out follows particles,
each with a function of its own, drawn from the dropout posterior and held for all steps: what the network does not
know makes particles part, and a policy is chosen for all of them. `search` is the loop.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gumdrop.control.tasks import Task, Trial
from gumdrop.conversion import fix_dropout
from gumdrop.functional import dropout_scale
from gumdrop.layers import ConcreteDropout, HomoscedasticNoise
from gumdrop.networks import mlp
from gumdrop.prediction import RegressionPrediction, predict_regression
from gumdrop.training import fit

__all__ = ["Advance", "Dynamics", "Policies", "SearchSettings", "improve", "roll_out"]

Advance = Callable[[Tensor, Tensor], Tensor]
"""Gives the next states, shape (K, P, D), from states and actions, shape (K, P), of K policies with P particles."""

NO_DROPOUT = 1e-80
"""A rate that float32 rounds to 0, so that no mask drops anything."""
MAX_NORM = 1.0
JITTER = 1e-6
LAST_SHARE = 0.1
HELD_OUT = 8
"""One transition in so many sets the noise, and does not train the weights."""
VALIDATION_SAMPLES = 3


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How a policy is searched."""

    p: float = 0.1
    """Drop probability at the start; 0 for a network without dropout."""
    learned: bool = True
    """Learn it."""
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
    """Transitions in each."""
    num_policies: int = 8
    """Policies that are improved side by side."""
    policy_units: int = 32
    """Hidden units of a policy."""
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


class Dynamics(nn.Module):
    """How states change: a network with dropout in front of every layer, of standardised inputs and changes.

    Args:
        task: The task.
        settings: How it is made and trained.
        seed: Seed of its first weights.
    """

    def __init__(self, task: Task, settings: SearchSettings, *, seed: int) -> None:
        super().__init__()
        self.task, self.settings = task, settings
        num_inputs, num_states = task.num_states + 2, task.num_states
        p = settings.p or NO_DROPOUT
        with torch.random.fork_rng(devices=[]):
            torch.random.default_generator.manual_seed(seed)
            network = mlp(num_inputs, num_states, hidden=settings.hidden, homoscedastic_noise=True, p=p)
        self.network = network if settings.learned else fix_dropout(network)
        nn.init.constant_(self._noise.log_variance, settings.log_variance)
        for name, size in (("x", num_inputs), ("y", num_states)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_std", torch.ones(size))

    x_mean: Tensor
    x_std: Tensor
    y_mean: Tensor
    y_std: Tensor

    @property
    def _noise(self) -> HomoscedasticNoise:
        noise = self.network[-1]
        assert isinstance(noise, HomoscedasticNoise)
        return noise

    @property
    def noise_std(self) -> Tensor:
        """Standard deviation of the noise, shape (D,), in units of the state."""
        return self.y_std * torch.exp(0.5 * self._noise.log_variance.detach())

    def learn(self, trials: Sequence[Trial], *, seed: int) -> None:
        """Train on all transitions so far; the prior counts the less, the more there are.

        Args:
            trials: All trials so far.
            seed: Seed of shuffling and masks.
        """
        x, y = self._pairs(trials)
        self.x_mean, self.x_std = x.mean(0), x.std(0).clamp(min=1e-3)
        self.y_mean, self.y_std = y.mean(0), y.std(0).clamp(min=1e-3)
        x, y = (x - self.x_mean) / self.x_std, (y - self.y_mean) / self.y_std
        held_out = torch.arange(len(x)) % HELD_OUT == HELD_OUT - 1  # the same rows after every trial
        epochs = math.ceil(self.settings.model_steps / math.ceil(int((~held_out).sum()) / self.settings.batch_size))
        fit(
            self.network,
            (x[~held_out], y[~held_out]),
            likelihood="gaussian",
            epochs=epochs,
            validation=(x[held_out], y[held_out]),
            honest_noise=True,
            validation_samples=VALIDATION_SAMPLES,
            batch_size=self.settings.batch_size,
            lr=self.settings.model_lr,
            lengthscale=self.settings.lengthscale,
            max_norm=10.0,
            seed=seed,
        )

    def predict(self, trials: Sequence[Trial], *, num_samples: int = 100, seed: int) -> RegressionPrediction:
        """Predict the changes of state in some trials.

        Args:
            trials: Trials that were run.
            num_samples: Number of drawn functions.
            seed: Seed of these.

        Returns:
            The prediction, in units of the state.
        """
        x, _ = self._pairs(trials)
        standard = (x - self.x_mean) / self.x_std
        prediction = predict_regression(self.network, standard, num_samples=num_samples, seed=seed)
        return prediction.rescale(self.y_std, self.y_mean)

    def _pairs(self, trials: Sequence[Trial]) -> tuple[Tensor, Tensor]:
        before = torch.cat([trial.states[:-1] for trial in trials])
        after = torch.cat([trial.states[1:] for trial in trials])
        actions = torch.cat([trial.actions for trial in trials])
        return self._inputs(before, actions), self.task.difference(after, before)

    def _inputs(self, state: Tensor, action: Tensor) -> Tensor:
        return torch.cat([self.task.features(state), action.unsqueeze(-1)], dim=-1)

    @contextlib.contextmanager
    def drawn(self, num_policies: int, num_particles: int, generator: torch.Generator) -> Iterator[Advance]:
        """Context with one drawn function for each particle, the same at every step and for every policy.

        Args:
            num_policies: K.
            num_particles: P.
            generator: Source of masks and noise.

        Yields:
            A function of states and actions that gives the next states.
        """
        layers = list(self.network)[:-1]
        sites = [module for module in self.network.modules() if isinstance(module, ConcreteDropout)]
        noise_std = self.noise_std

        def advance(state: Tensor, action: Tensor) -> Tensor:
            x = ((self._inputs(state, action) - self.x_mean) / self.x_std).flatten(0, 1)
            for layer in layers:
                x = layer(x)
            noise = noise_std * torch.randn(state.shape[1:], generator=generator)
            return state + noise + torch.addcmul(self.y_mean, x, self.y_std).view_as(state)

        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        self.requires_grad_(False)  # the gradient goes through the model to the policies
        for site in sites:
            noise = torch.rand(num_particles, site.num_units, generator=generator)
            # Once for all steps: the site itself would make its mask again at each.
            factor = dropout_scale(site.p_logit, noise, hard=True).repeat(num_policies, 1)
            vars(site)["forward"] = functools.partial(torch.mul, factor)
        try:
            yield advance
        finally:
            for site in sites:
                del vars(site)["forward"]
            for parameter in trained:
                parameter.requires_grad_(True)


class Policies(nn.Module):
    """Some policies side by side: small networks from features of the state to a bounded action.

    Args:
        max_action: Bound of the action.
        scale: Usual size of each feature, shape (F,).
        count: Number of policies, K.
        units: Hidden units.
        generator: Source of the first weights.

    Shape:
        Features (K, P, F). Actions (K, P).
    """

    def __init__(
        self, *, max_action: float, scale: Sequence[float], count: int, units: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.max_action = max_action
        self.register_buffer("scale", torch.tensor(scale))
        deviation = 2 / len(scale) ** 0.5
        self.hidden = nn.Parameter(deviation * torch.randn(count, len(scale), units, generator=generator))
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
        """Ask one of the policies.

        Args:
            which: Its index.
            features: Shape (..., F).

        Returns:
            Actions, shape (...,).
        """
        rows = features.reshape(1, -1, features.shape[-1]).expand(len(self), -1, -1)
        return self(rows)[which].reshape(features.shape[:-1])

    def replace(self, which: Tensor, others: "Policies") -> None:
        """Put others in the place of some.

        Args:
            which: Indices of those that go.
            others: As many policies as here; those with the same indices come.
        """
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
    """Follow particles under each of the policies.

    Args:
        task: The task.
        policies: K policies.
        advance: How states change.
        num_particles: P.
        moment_matching: Draw the particles anew at each step from a Gaussian with their mean and covariance.
        gradient_decay: Factor on the gradient of a state at each step that it goes back in time.
        generator: Source of randomness.

    Returns:
        States (T + 1, K, P, D), and actions (T, K, P).
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

    Args:
        task: The task.
        policies: K policies.
        model: Gives a context with a way that states may change, another one for each step.
        settings: How.
        generator: Source of randomness.

    Returns:
        Cumulative reward that each can expect according to the model, shape (K,), averaged over the last steps.
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
