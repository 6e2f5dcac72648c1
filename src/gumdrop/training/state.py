"""What a training run is made of: its records, and the state that it can be stopped with and continued from."""

import contextlib
import dataclasses
import hashlib
import io
import math
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn

from gumdrop.atomic import replacing
from gumdrop.training.distributed import Ranks, gathered, is_sharded, placed_as
from gumdrop.version import VERSION

__all__ = [
    "CheckpointError",
    "EpochRecord",
    "FitResult",
    "TrainingState",
    "checksum",
    "progress_bar",
    "read_checkpoint",
    "write_checkpoint",
]

CHECKPOINT_FORMAT = 4
SECONDS_BETWEEN_CHECKPOINTS = 5.0


class CheckpointError(ValueError):
    """A checkpoint that cannot be continued from; the message says why and what to do."""


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch did; losses in nats per datum."""

    epoch: int
    """Number of the epoch, from 1."""
    nll: float
    """Mean negative log likelihood of the training batches, under relaxed masks."""
    kl: float
    """Mean KL divergence over the number of training data."""
    validation_nll: float | None
    """Negative log likelihood of the held-out data, averaged over draws; None without such data."""
    learning_rate: float
    """Learning rate of the weights at the end of the epoch."""
    rates: dict[str, float]
    """Drop probability of each site (the mean, where each unit has its own)."""


@dataclass(frozen=True)
class FitResult:
    """What training left behind, beside the trained model."""

    history: list[EpochRecord]
    """One record for each epoch."""
    best_epoch: int
    """The epoch whose parameters the model has now: the best on held-out data, or the last without."""


def checksum(*tensors: Tensor) -> int:
    """Checksum of data, so that a run is not continued on others.

    Args:
        tensors: Any tensors.

    Returns:
        A number that is almost surely another one for other values.
    """
    value = 0
    for tensor in tensors:
        value = zlib.crc32(tensor.detach().cpu().contiguous().numpy().tobytes(), value)
    return value


class _Summed:
    """A file to write to, with the checksum of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def write(self, data: Any) -> int:
        """Write bytes."""
        self.sha256.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        """Hand on what was written."""
        self._file.flush()


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write the state of a run, and behind it the SHA-256 of all its bytes.

    Args:
        path: File to write.
        state: Tensors and plain data.
    """
    with replacing(path, "wb") as file:
        summed = _Summed(file)
        torch.save(state, summed)  # type: ignore[arg-type]  # no more is asked of it than to write
        file.write(summed.sha256.digest())


def read_checkpoint(path: Path, contents: bytes) -> dict[str, Any]:
    """Take what `write_checkpoint` wrote, if no bit of it has changed.

    Args:
        path: The file, for the message.
        contents: Its bytes.

    Returns:
        The state.

    Raises:
        CheckpointError: If it is cut short, changed, or of another version.
    """
    size = hashlib.sha256().digest_size
    if hashlib.sha256(memoryview(contents)[:-size]).digest() != contents[-size:]:
        older = f"or one of before format {CHECKPOINT_FORMAT}"
        raise CheckpointError(f"{path} is no whole checkpoint of gumdrop, {older}; delete it to start afresh")
    state: dict[str, Any] = torch.load(io.BytesIO(contents), weights_only=True)
    version = state["format"]
    if version != CHECKPOINT_FORMAT:
        raise CheckpointError(
            f"{path} has format {version} (gumdrop {state.get('gumdrop')}), this is format {CHECKPOINT_FORMAT} "
            f"(gumdrop {VERSION}); delete it to start afresh, or use the version that wrote it"
        )
    return state


@contextlib.contextmanager
def progress_bar(show: bool | str, epochs: int, done: int) -> Iterator[Callable[[EpochRecord], None]]:
    """Show the progress of a run.

    Args:
        show: Whether to show it; a text stands in front of it.
        epochs: Number of epochs.
        done: How many of them an earlier run did.

    Yields:
        What to call after each epoch.
    """
    if not show:
        yield lambda record: None
        return
    from tqdm.auto import tqdm

    title = show if isinstance(show, str) else None
    with tqdm(total=epochs, initial=done, unit="epoch", desc=title, disable=None) as bar:

        def advance(record: EpochRecord) -> None:
            parts = {"nll": record.nll, "kl": record.kl, "held-out": record.validation_nll}
            bar.set_postfix({name: f"{value:.3f}" for name, value in parts.items() if value is not None}, refresh=False)
            bar.update()

        yield advance


class TrainingState:
    """Everything that a stopped run needs to go on: parameters, optimiser, schedule, history and best epoch.

    Args:
        model: What is trained.
        optimizer: Its optimiser.
        steps: Number of steps of the whole run, over which the learning rate goes through one cycle.
        settings: What must be the same when the run is continued.
        checkpoint: File to continue from if it exists, and to keep the state in; none if None.
        states: Gives the state of each model, where ``model`` stands for several.
        ranks: The processes that train it together; the first of them reads and writes the file.

    Raises:
        CheckpointError: If ``checkpoint`` is cut short, of another version, or of a run with other settings.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        steps: int,
        settings: dict[str, Any],
        checkpoint: str | os.PathLike[str] | None,
        states: Callable[[], list[dict[str, Tensor]]] | None = None,
        ranks: Ranks = Ranks(),
    ) -> None:
        self.model, self.optimizer, self.settings, self._ranks = model, optimizer, settings, ranks
        self._states = states or (lambda: [model.state_dict()])
        peaks = [group["lr"] for group in optimizer.param_groups]
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, peaks, total_steps=steps, cycle_momentum=False)
        self.epochs: list[list[EpochRecord]] = []  # of each epoch a record for each model
        self.best_states: list[dict[str, Tensor]] = []  # of each model, once there is a held-out value
        self._path = None if checkpoint is None else Path(checkpoint)
        self._saved_at = time.monotonic()
        if self._path is not None:
            path = self._path
            contents = ranks.from_first(lambda: path.read_bytes() if path.exists() else None)
            if contents is not None:
                self._load(path, contents)

    def step(self, loss: Tensor | Iterable[Tensor], max_norm: float | None = None) -> None:
        """Go one step down the gradient of the loss.

        Args:
            loss: A scalar, or the scalars that it is the sum of, each made when the one before is done with.
            max_norm: Clip gradients to this norm; no clipping if None.
        """
        self.optimizer.zero_grad()
        for part in [loss] if isinstance(loss, Tensor) else loss:
            part.backward()
        if max_norm is not None:
            _clip(self.model, max_norm)
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
        """Close an epoch: note what it did, remember parameters that are the best, and save if it is time.

        Args:
            records: One for each model.
        """
        self.epochs.append(list(records))
        if records[0].validation_nll is not None:
            states = self._states()
            self.best_states = self.best_states or states
            for i, best in enumerate(self.best_epochs):
                if best == len(self.epochs):
                    self.best_states[i] = {name: value.detach().clone() for name, value in states[i].items()}
        is_time = time.monotonic() - self._saved_at > SECONDS_BETWEEN_CHECKPOINTS
        if self._path is not None and self._ranks.from_first(lambda: is_time):
            self.save()

    def is_stale(self, patience: int | None, tol: float = 0.0) -> bool:
        """Tell whether so many epochs have brought no model a better held-out value.

        Args:
            patience: How many; None for never.
            tol: Gain that counts as better.

        Returns:
            Whether to stop.
        """
        if patience is None or len(self.epochs) < patience:
            return False
        last = max(_last_gain(history, tol) for history in zip(*self.epochs, strict=True))
        return len(self.epochs) - last >= patience

    @contextlib.contextmanager
    def keep_best(self) -> Iterator[None]:
        """Leave the model with its best parameters, however the block ends.

        Yields:
            Nothing.
        """
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
        if not self._ranks.is_first:
            return
        state = {
            "format": CHECKPOINT_FORMAT,
            "gumdrop": VERSION,
            "settings": self.settings,
            "epochs": [[dataclasses.asdict(record) for record in records] for records in self.epochs],
            "model": model,
            "optimizer": optimizer,
            "scheduler": self.scheduler.state_dict(),
            "best_states": best,
        }
        write_checkpoint(self._path, state)

    def _load(self, path: Path, contents: bytes) -> None:
        state = read_checkpoint(path, contents)
        changed = {name: (state["settings"].get(name), value) for name, value in self.settings.items()}
        changed = {name: pair for name, pair in changed.items() if pair[0] != pair[1]}
        if changed:
            texts = [
                "other data" if name == "data" else f"{name} was {old}, is {new}"
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

    def _place(self, state: dict[str, Any]) -> None:
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
