"""One training loop: minimise the negative ELBO, watch the rates, keep the best, stop and resume."""

import contextlib
import dataclasses
import io
import math
import os
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from gumdrop.atomic import replacing
from gumdrop.conversion import dropout_rates, parameter_groups
from gumdrop.objective import LIKELIHOODS, Lengthscale, negative_elbo
from gumdrop.prediction import sample
from gumdrop.version import VERSION

__all__ = ["CheckpointError", "EpochRecord", "FitResult", "fit"]

Likelihood = Callable[[Tensor, Tensor], Tensor]
Data = tuple[Tensor, Tensor] | DataLoader[Any]

CHECKPOINT_FORMAT = 1
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


def fit(
    model: nn.Module,
    train: Data,
    *,
    likelihood: str | Likelihood,
    epochs: int,
    validation: tuple[Tensor, Tensor] | None = None,
    num_data: int | None = None,
    batch_size: int = 32,
    lr: float = 5e-3,
    rate_lr: float | None = None,
    weight_decay: float = 0.0,
    lengthscale: Lengthscale = "fan_in",
    patience: int | None = None,
    max_norm: float | None = None,
    validation_samples: int = 20,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
) -> FitResult:
    """Train a converted model in place by AdamW with a one-cycle learning rate.

    With ``validation`` data the model ends with the parameters of its best epoch, otherwise with the last. An
    interruption (Ctrl-C) leaves it with the best so far. Training repeats exactly with the same seed on the same
    machine, also across a stop and resume, and does not touch torch's global random state.

    Args:
        model: A converted model, on its device.
        train: Inputs and targets with rows in dimension 0, or a DataLoader of such pairs. Batches of a loader
            follow its own order and seed.
        likelihood: ``"gaussian"`` (means and log variances in halves of the last output dimension),
            ``"categorical"``, ``"bernoulli"``, ``"poisson"``, or a function of output and target that gives the
            negative log likelihood of each example, in nats, shape (N,).
        epochs: Passes over the data, at least 1.
        validation: Held-out inputs and targets.
        num_data: Size of the training set; the number of rows of ``train`` if None.
        batch_size: Rows per step, where ``train`` is not a loader.
        lr: Largest learning rate of the cycle.
        rate_lr: The same for the logits of the rates; ten times ``lr`` if None, because one number must travel
            as far as thousands of weights together.
        weight_decay: Decay of the weights, beside the prior's; never applied to rates and noise.
        lengthscale: Prior, see `gumdrop.kl_divergence`.
        patience: Stop after this many epochs without a better held-out value; never early if None.
        max_norm: Clip gradients to this norm; no clipping if None.
        validation_samples: Draws for each held-out evaluation.
        seed: Seed of shuffling and masks.
        checkpoint: File to continue from if it exists, and to keep the state of the run in. It is written whole
            or not at all.
        progress: Show a progress bar; a text stands in front of it.

    Returns:
        The history and the best epoch.

    Raises:
        ValueError: If an argument is outside its range, data are not finite or rows do not match, or the loss
            stops being finite.
        CheckpointError: If ``checkpoint`` is cut short, of another version, or of a run with other settings.

    Example:
        >>> from gumdrop.networks import mlp
        >>> x = torch.linspace(-1, 1, 64).unsqueeze(1)
        >>> result = fit(mlp(1, 2), (x, x**2), likelihood="gaussian", epochs=2)
        >>> [record.epoch for record in result.history]
        [1, 2]
    """
    nll_of = _likelihood(likelihood)
    size = _check_data(train, "train")
    if validation is not None:
        _check_data(validation, "validation")
    for name, value in {"epochs": epochs, "batch_size": batch_size, "validation_samples": validation_samples}.items():
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1, got {value}")
    for name, number in {"lr": lr, "rate_lr": rate_lr, "max_norm": max_norm, "patience": patience}.items():
        if number is not None and not number > 0:
            raise ValueError(f"`{name}` must be positive, got {number}")
    if patience is not None and validation is None:
        raise ValueError("`patience` needs `validation` data to watch")
    num_data = size if num_data is None else num_data
    steps = len(train) if isinstance(train, DataLoader) else math.ceil(size / batch_size)
    device = next(model.parameters()).device
    rate_lr = 10 * lr if rate_lr is None else rate_lr
    optimizer = torch.optim.AdamW(parameter_groups(model, weight_decay=weight_decay, rate_lr=rate_lr), lr=lr)
    peaks = [group["lr"] for group in optimizer.param_groups]
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, peaks, total_steps=epochs * steps, cycle_momentum=False)
    settings: dict[str, Any] = {
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": lr,
        "weight_decay": weight_decay,
        "seed": seed,
    }
    settings |= {
        "num_data": num_data,
        "lengthscale": lengthscale,
        "patience": patience,
        "max_norm": max_norm,
        "rate_lr": rate_lr,
    }
    run = _Run(model, optimizer, scheduler, settings)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None:
        run.settings["data"] = _fingerprint(train, validation)
        if path.exists():
            run.load(path)

    with torch.random.fork_rng(), _progress_bar(progress, epochs, len(run.history)) as advance, run.keep_best():
        saved_at = time.monotonic()
        while len(run.history) < epochs and not run.is_stale(patience):
            epoch = len(run.history) + 1
            torch.manual_seed(seed * 1_000_003 + epoch)
            model.train()
            totals = torch.zeros(3, dtype=torch.float64)
            for x, y in _batches(train, batch_size):
                loss = negative_elbo(
                    nll_of(model(x.to(device)), y.to(device)), model, num_data=num_data, lengthscale=lengthscale
                )
                optimizer.zero_grad()
                loss.backward()
                if max_norm is not None:
                    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
                optimizer.step()
                scheduler.step()
                totals += torch.stack([loss.nll.detach(), loss.kl.detach(), torch.ones_like(loss.nll)]).cpu() * len(x)
            nll, kl = (totals[:2] / totals[2]).tolist()
            if not math.isfinite(nll + kl):
                raise ValueError(f"the loss is not finite in epoch {epoch} (nll {nll}, kl {kl}); try a smaller `lr`")
            held_out = None if validation is None else _mixture_nll(model, validation, nll_of, validation_samples, seed)
            rates = {name: float(torch.as_tensor(p).mean()) for name, p in dropout_rates(model).items()}
            run.record(EpochRecord(epoch, nll, kl, held_out, optimizer.param_groups[0]["lr"], rates))
            if path is not None and time.monotonic() - saved_at > SECONDS_BETWEEN_CHECKPOINTS:
                run.save(path)
                saved_at = time.monotonic()
            advance(run.history[-1])
        if path is not None:
            run.save(path)
    model.eval()
    return FitResult(run.history, run.best_epoch)


def _likelihood(likelihood: str | Likelihood) -> Likelihood:
    if callable(likelihood):
        return likelihood
    if likelihood not in LIKELIHOODS:
        raise ValueError(f"`likelihood` must be a function or one of {', '.join(LIKELIHOODS)}, got {likelihood!r}")
    return LIKELIHOODS[likelihood]


def _check_data(data: Data, name: str) -> int:
    """Check inputs and targets, and count the rows."""
    if isinstance(data, DataLoader):
        return len(data.dataset)  # type: ignore[arg-type]
    x, y = data
    if len(x) != len(y) or len(x) == 0:
        raise ValueError(f"`{name}` must hold as many inputs as targets, at least 1, got {len(x)} and {len(y)}")
    for part, what in ((x, "inputs"), (y, "targets")):
        if part.is_floating_point() and not part.isfinite().all():
            bad = int((~part.isfinite()).sum())
            raise ValueError(f"the {what} in `{name}` hold {bad} values that are NaN or infinite; remove or fill them")
    return len(x)


def _fingerprint(*parts: Data | None) -> int:
    """Checksum of the data, so that a run is not continued on others; a loader's data are taken on trust."""
    checksum = 0
    for part in parts:
        for tensor in part if isinstance(part, tuple) else ():
            checksum = zlib.crc32(tensor.detach().cpu().contiguous().numpy().tobytes(), checksum)
    return checksum


def _batches(data: Data, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    if isinstance(data, DataLoader):
        yield from data
        return
    x, y = data
    for rows in torch.randperm(len(x)).split(batch_size):
        yield x[rows.to(x.device)], y[rows.to(y.device)]


def _mixture_nll(
    model: nn.Module, data: tuple[Tensor, Tensor], nll_of: Likelihood, num_samples: int, seed: int
) -> float:
    """Score the averaged predictive distribution of a few draws, as prediction will."""
    device = next(model.parameters()).device
    x, y = (part.to(device) for part in data)
    draws = sample(model, x, num_samples=num_samples, seed=seed, batch_size=4096)
    nll = torch.stack([nll_of(draw, y) for draw in draws])
    return (math.log(num_samples) - torch.logsumexp(-nll, dim=0)).mean().item()


@contextlib.contextmanager
def _progress_bar(show: bool | str, epochs: int, done: int) -> Iterator[Callable[[EpochRecord], None]]:
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


class _Run:
    """Everything that a stopped run needs to go on: parameters, optimiser, schedule, history and best epoch."""

    def __init__(self, model: nn.Module, optimizer: Any, scheduler: Any, settings: dict[str, Any]) -> None:
        self.model, self.optimizer, self.scheduler, self.settings = model, optimizer, scheduler, settings
        self.history: list[EpochRecord] = []
        self.best_state: dict[str, Tensor] | None = None

    @property
    def best_epoch(self) -> int:
        scores = [(record.validation_nll, record.epoch) for record in self.history if record.validation_nll is not None]
        return min(scores)[1] if scores else len(self.history)

    def record(self, record: EpochRecord) -> None:
        self.history.append(record)
        if record.validation_nll is not None and self.best_epoch == record.epoch:
            self.best_state = {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def is_stale(self, patience: int | None) -> bool:
        return patience is not None and len(self.history) - self.best_epoch >= patience

    @contextlib.contextmanager
    def keep_best(self) -> Iterator[None]:
        """Leave the model with its best parameters, however the block ends."""
        try:
            yield
        finally:
            if self.best_state is not None:
                self.model.load_state_dict(self.best_state)

    def save(self, path: Path) -> None:
        state = {
            "format": CHECKPOINT_FORMAT,
            "gumdrop": VERSION,
            "settings": self.settings,
            "history": [dataclasses.asdict(record) for record in self.history],
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "best_state": self.best_state,
        }
        with replacing(path, "wb") as file:
            torch.save(state, file)

    def load(self, path: Path) -> None:
        try:
            state = torch.load(io.BytesIO(path.read_bytes()), weights_only=True)
            version = state["format"]
        except Exception as error:  # whatever torch raises for a file that is not, or no longer, a checkpoint
            raise CheckpointError(f"{path} is no whole checkpoint of gumdrop; delete it to start afresh") from error
        if version != CHECKPOINT_FORMAT:
            raise CheckpointError(
                f"{path} has format {version} (gumdrop {state.get('gumdrop')}), this is format {CHECKPOINT_FORMAT} "
                f"(gumdrop {VERSION}); delete it to start afresh, or use the version that wrote it"
            )
        changed = {name: (state["settings"].get(name), value) for name, value in self.settings.items()}
        changed = {name: pair for name, pair in changed.items() if pair[0] != pair[1]}
        if changed:
            texts = [f"{name} was {old}, is {new}" for name, (old, new) in changed.items()]
            raise CheckpointError(
                f"{path} is of a run with other settings ({'; '.join(texts)}); delete it or repeat them"
            )
        try:
            self.model.load_state_dict(state["model"])
        except RuntimeError as error:
            raise CheckpointError(f"{path} is of another model; delete it to start afresh") from error
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.history = [EpochRecord(**record) for record in state["history"]]
        self.best_state = state["best_state"]
