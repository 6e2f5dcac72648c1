"""A model of the next state, and the loop: learn the dynamics, improve the policies, run the next trial."""

import contextlib
import io
import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop import HomoscedasticNoise, fix_dropout, predict_regression
from gumdrop.functional import dropout_scale
from gumdrop.layers import ConcreteDropout, factors_from
from gumdrop.likelihoods import RegressionPrediction
from gumdrop.machine.files import replacing
from gumdrop.networks import mlp
from gumdrop.training import fit
from gumdrop_experiments.cartpole.control.policies import (
    HELD_OUT,
    NO_DROPOUT,
    VALIDATION_SAMPLES,
    Advance,
    Policies,
    SearchSettings,
    improve,
    roll_out,
)
from gumdrop_experiments.cartpole.control.tasks import Task, Trial, run_trial
from gumdrop_experiments.shared import seeded


class Dynamics(nn.Module):
    """How states change: a network with dropout in front of every layer, of standardised inputs and changes."""

    def __init__(self, task: Task, settings: SearchSettings, *, seed: int) -> None:
        super().__init__()
        self.task, self.settings = task, settings
        num_inputs, num_states = task.num_states + 2, task.num_states
        p = settings.p or NO_DROPOUT
        with seeded(seed):
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
        """Train on all transitions so far; the prior counts the less, the more there are."""
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
            held_out_noise=True,
            validation_samples=VALIDATION_SAMPLES,
            batch_size=self.settings.batch_size,
            lr=self.settings.model_lr,
            lengthscale=self.settings.lengthscale,
            max_norm=10.0,
            seed=seed,
        )

    def predict(self, trials: Sequence[Trial], *, num_samples: int = 100, seed: int) -> RegressionPrediction:
        """Predict the changes of state in some trials, in units of the state."""
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
        """Context with one drawn function for each particle, the same at every step and for every policy."""
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
        factors = {}  # once for all steps
        for site in sites:
            noise = torch.rand(num_particles, site.num_units, generator=generator)
            factors[site] = dropout_scale(site.p_logit, noise, hard=True).repeat(num_policies, 1)
        try:
            with factors_from(lambda site, x: factors[site], self.network):
                yield advance
        finally:
            for parameter in trained:
                parameter.requires_grad_(True)


class Search:
    """A policy search that goes on trial by trial; the first trial is random.

    Example:
        >>> from gumdrop_experiments.cartpole.control.tasks import TASKS
        >>> settings = SearchSettings(hidden=(8,), model_steps=2, policy_steps=1, num_policies=2, num_particles=6)
        >>> search = Search(TASKS["swing-up"], settings, seed=0)
        >>> len(search.run_next().states), len(search.run_next().states)
        (26, 26)
    """

    def __init__(self, task: Task, settings: SearchSettings, *, seed: int) -> None:
        self.task, self.settings, self.seed = task, settings, seed
        self.generator = torch.Generator().manual_seed(seed)
        self.dynamics = Dynamics(task, settings, seed=seed)
        self.policies = Policies(task, settings, self.generator)
        self.trials: list[Trial] = []
        self.expected = torch.zeros(settings.num_policies)
        """Reward that each policy could expect in the last trial, according to the model."""

    @property
    def best(self) -> int:
        """Index of the policy that acts."""
        return int(self.expected.argmax())

    def run_next(self) -> Trial:
        """Learn from all trials so far, and run one more."""
        if self.trials:
            # A quarter of the policies starts anew, so that none is for ever caught where it is.
            worst, count = self.expected.argsort()[: len(self.policies) // 4], len(self.policies)
            self.policies.replace(worst, Policies(self.task, self.settings, self.generator))
            self.dynamics.learn(self.trials, seed=self._trial_seed)
            drawn = partial(self.dynamics.drawn, count, self.settings.num_particles, self.generator)
            self.expected = improve(self.task, self.policies, drawn, self.settings, generator=self.generator)
        self.trials.append(run_trial(self.task, self.act if self.trials else self._act_randomly, seed=self._trial_seed))
        return self.trials[-1]

    def act(self, state: Tensor) -> Tensor:
        """Choose the action of the best policy in states (N, D), or in one."""
        return self.policies.act(self.best, self.task.features(state))

    def imagine(self, num_particles: int, *, seed: int) -> Tensor:
        """Roll the best policy out, (T + 1, P, D): each particle has a function of its own, no moments are matched."""
        generator = torch.Generator().manual_seed(seed)
        count = len(self.policies)
        with torch.no_grad(), self.dynamics.drawn(count, num_particles, generator) as advance:
            states, _ = roll_out(self.task, self.policies, advance, num_particles=num_particles, generator=generator)
        return states[:, self.best]

    def _act_randomly(self, state: Tensor) -> Tensor:
        return self.task.max_action * (2 * torch.rand((), generator=self.generator) - 1)

    @property
    def _trial_seed(self) -> int:
        return 1000 * self.seed + len(self.trials)

    def save(self, path: Path, record: Any) -> None:
        """Write the state of the search, and a record beside it."""
        state = {
            "record": record,
            "dynamics": self.dynamics.state_dict(),
            "policies": self.policies.state_dict(),
            "expected": self.expected,
            "generator": self.generator.get_state(),
            "trials": [vars(trial) for trial in self.trials],
        }
        with replacing(path, "wb") as file:
            torch.save(state, file)

    def load(self, path: Path) -> Any:
        """Go on from a state that was saved by a search with the same settings."""
        state = torch.load(io.BytesIO(path.read_bytes()), weights_only=True)
        self.dynamics.load_state_dict(state["dynamics"])
        self.policies.load_state_dict(state["policies"])
        self.expected = state["expected"]
        self.generator.set_state(state["generator"])
        self.trials = [Trial(**trial) for trial in state["trials"]]
        return state["record"]
