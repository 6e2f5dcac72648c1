"""The loop: learn the dynamics, improve the policies, run the next trial."""

import io
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gumdrop.machine.files import replacing
from gumdrop_experiments.cartpole.control.dynamics import Dynamics
from gumdrop_experiments.cartpole.control.policies import Policies, SearchSettings, improve, roll_out
from gumdrop_experiments.cartpole.control.tasks import Task, Trial, run_trial


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
