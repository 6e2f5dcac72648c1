"""What a training run is made of: its records, and the state that it can be stopped with and continued from."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from gumdrop.machine.version import VERSION
from gumdrop.training.checkpoints import CHECKPOINT_FORMAT, CheckpointError, State, read_checkpoint, write_checkpoint
from gumdrop.training.processes.group import ProcessGroup
from gumdrop.training.processes.sharding import gathered, is_sharded, placed_as
from gumdrop.training.records import EpochRecord

SECONDS_BETWEEN_CHECKPOINTS = 5.0


class TrainingState:
    """Everything that a stopped run needs to go on: parameters, optimiser, schedule, history and best epoch.

    The run continues from the checkpoint if it exists, and must then have the same ``settings``. Where the model stands
    for several, ``states`` gives the state of each. The first process of the ``group`` reads and writes the file.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        steps: int,
        settings: Mapping[str, object],
        checkpoint: str | os.PathLike[str] | None,
        states: Callable[[], list[dict[str, Tensor]]] | None = None,
        group: ProcessGroup = ProcessGroup(),
    ) -> None:
        self.model, self.optimizer, self.settings, self._group = model, optimizer, settings, group
        self._states = states or (lambda: [model.state_dict()])
        peaks = [group["lr"] for group in optimizer.param_groups]
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, peaks, total_steps=steps, cycle_momentum=False)
        self.epochs: list[list[EpochRecord]] = []  # of each epoch a record for each model
        self.best_states: list[dict[str, Tensor]] = []  # of each model, once there is a held-out value
        self._path = None if checkpoint is None else Path(checkpoint)
        self._saved_at = time.monotonic()
        if self._path is not None:
            path = self._path
            contents = group.from_first(lambda: path.read_bytes() if path.exists() else None)
            if contents is not None:
                self._load(path, contents)

    def step(self, losses: Iterable[Tensor], max_norm: float | None) -> None:
        """Go one step down the gradient of the sum of losses, made one by one, clipped to a norm."""
        self.optimizer.zero_grad()
        for loss in losses:
            loss.backward()
        if max_norm is not None:
            _clip(self.model, max_norm)
        self.advance()

    def advance(self) -> None:
        """Go one step down the gradient that the parameters have."""
        self.optimizer.step()
        self.scheduler.step()

    @property
    def steps(self) -> int:
        """Number of steps taken."""
        return int(self.scheduler.last_epoch)

    @property
    def best_epochs(self) -> list[int]:
        """For each model the epoch with the best held-out value; the last without such values."""
        scores = [
            [(record.validation_nll, record.epoch) for record in history if record.validation_nll is not None]
            for history in zip(*self.epochs, strict=True)
        ]
        return [min(each)[1] if each else len(self.epochs) for each in scores]

    def record(self, *records: EpochRecord) -> None:
        """Close an epoch: note what it did, remember parameters that are the best, and save if it is time."""
        self.epochs.append(list(records))
        if records[0].validation_nll is not None:
            states = self._states()
            self.best_states = self.best_states or states
            for i, best in enumerate(self.best_epochs):
                if best == len(self.epochs):
                    self.best_states[i] = {name: value.detach().clone() for name, value in states[i].items()}
        is_time = time.monotonic() - self._saved_at > SECONDS_BETWEEN_CHECKPOINTS
        if self._path is not None and self._group.from_first(lambda: is_time):
            self.save()

    def is_stale(self, patience: int | None, tol: float = 0.0) -> bool:
        """Tell whether this many epochs have brought no model a better held-out value."""
        if patience is None or len(self.epochs) < patience:
            return False
        last = max(_last_gain(history, tol) for history in zip(*self.epochs, strict=True))
        return len(self.epochs) - last >= patience

    @contextlib.contextmanager
    def keep_best(self) -> Iterator[None]:
        """Leave the model with its best parameters, however the block ends."""
        try:
            yield
        finally:
            if self.best_states:
                self.model.load_state_dict(self.best_states[0])

    def save(self) -> None:
        """Write the checkpoint, if there is to be one."""
        if self._path is None:
            return
        model, optimizer, best = gathered([self.model.state_dict(), self.optimizer.state_dict(), self.best_states])
        self._saved_at = time.monotonic()
        if not self._group.is_first:
            return
        state = {
            "format": CHECKPOINT_FORMAT,
            "gumdrop": VERSION,
            "settings": self.settings,
            "epochs": [list(map(vars, records)) for records in self.epochs],  # `asdict` would copy them
            "model": model,
            "optimizer": optimizer,
            "scheduler": self.scheduler.state_dict(),
            "best_states": best,
        }
        write_checkpoint(self._path, state)

    def _load(self, path: Path, contents: bytes) -> None:
        state = read_checkpoint(path, contents)
        earlier = state["settings"]  # a file of an earlier version does not name them all
        changed = {name: (earlier[name], value) for name, value in self.settings.items() if name in earlier}
        changed = {name: pair for name, pair in changed.items() if pair[0] != pair[1]}
        if changed:
            texts = [
                f"other {name}" if name in ("data", "model", "dropout") else f"{name} was {old}, is {new}"
                for name, (old, new) in changed.items()
            ]
            raise CheckpointError(
                f"{path} is of a run with other settings ({'; '.join(texts)}); delete it or repeat them"
            )
        self._place(state)
        try:
            self.model.load_state_dict(state["model"])
        except RuntimeError as error:
            raise CheckpointError(f"{path} is of another model; delete it to start afresh") from error
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.epochs = [[EpochRecord(**record) for record in records] for records in state["epochs"]]
        self.best_states = state["best_states"]

    def _place(self, state: State) -> None:
        """Take the parts of this process from the whole tensors of a checkpoint, in place."""
        if not is_sharded(self.model):
            return
        named = self.model.state_dict()
        for values in (state["model"], *state["best_states"]):
            for name in filter(named.__contains__, values):
                values[name] = placed_as(named[name], values[name])
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        for i, moments in state["optimizer"]["state"].items():
            for name in moments:
                moments[name] = placed_as(parameters[i], moments[name])


def _clip(model: nn.Module, max_norm: float) -> None:
    """Clip gradients to a norm, also where some are spread over processes and others are not."""
    if not is_sharded(model):
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        return
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norms = gathered([torch.linalg.vector_norm(gradient) for gradient in gradients])
    factor = (max_norm / (torch.stack(norms).norm() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.item())


def _last_gain(history: Sequence[EpochRecord], tol: float) -> int:
    """The last epoch whose held-out value was better than any before, by more than a tolerance."""
    best, last = math.inf, 0
    for record in history:
        if record.validation_nll is not None and record.validation_nll < best - tol:
            best, last = record.validation_nll, record.epoch
    return last
