"""The training loop, for one model and for many: epochs, held-out values, records, an early end and a late resume."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from gumdrop.machine.optimizers import without_compiler
from gumdrop.networks.rates import Groups, dropout_rates
from gumdrop.training.progress import Show, progress_bar
from gumdrop.training.records import EpochRecord, FitResult
from gumdrop.training.settings import TrainingSettings
from gumdrop.training.state import TrainingState


class Learner(Protocol):
    """What an epoch asks of the one model or the many that are trained."""

    def train(self, epoch: int, state: TrainingState) -> Tensor:
        """Take the steps of an epoch; give the mean negative log likelihood and KL of each model, shape (2, models)."""

    def scores(self) -> list[float] | None:
        """Negative log likelihood of the held-out data under each model; None if there are none that decide."""

    def rates(self) -> list[dict[str, float]]:
        """Drop probability of each site of each model, the mean where each unit has its own."""


def adamw(groups: Groups, settings: TrainingSettings, device: torch.device) -> torch.optim.Optimizer:
    """Make the optimiser of a training, of the groups of `gumdrop.parameter_groups`."""
    fused = device.type in ("cpu", "cuda")  # one kernel for all parameters; elsewhere that of PyTorch's choice
    return without_compiler(torch.optim.AdamW)(groups, lr=settings.lr, betas=settings.betas, fused=fused)


def run_epochs(
    learner: Learner,
    state: TrainingState,
    settings: TrainingSettings,
    progress: Show,
    measure: Callable[[int], Mapping[str, float]] | None = None,
) -> list[FitResult]:
    """Train until all epochs are done or no model gets better; torch's global random state is left as it was."""
    on_cpu = next(state.model.parameters()).device.type == "cpu"
    # Without an accelerator, `torch.manual_seed` keeps a stack trace for each kind that it knows: milliseconds in all.
    seed_all = torch.default_generator.manual_seed if on_cpu else torch.manual_seed
    with torch.random.fork_rng(), progress_bar(progress, settings.epochs, len(state.epochs)) as advance:
        while len(state.epochs) < settings.epochs and not state.is_stale(settings.patience, settings.tol):
            epoch = len(state.epochs) + 1
            seed_all(epoch_seed(settings.seed, epoch))
            losses = learner.train(epoch, state)
            if not losses.isfinite().all():
                raise ValueError(f"the loss is not finite in epoch {epoch}; try a smaller `lr`")
            rates = learner.rates()
            is_evaluated = epoch % settings.validate_every == 0 or epoch == settings.epochs
            scores: Sequence[float | None] = (learner.scores() if is_evaluated else None) or [None] * len(rates)
            lr = state.optimizer.param_groups[0]["lr"]
            measured = None if measure is None else dict(measure(epoch))
            records = [
                EpochRecord(epoch, nll, kl, score, lr, p, measured)
                for (nll, kl), score, p in zip(losses.T.tolist(), scores, rates, strict=True)
            ]
            state.record(*records)
            advance(records[0])
        state.save()
    histories = zip(*state.epochs, strict=True)
    return [FitResult(list(history), best) for history, best in zip(histories, state.best_epochs, strict=True)]


def epoch_seed(seed: int, epoch: int) -> int:
    """Return the seed of shuffling and masks of one epoch, so that a run can go on from any epoch.

    Example:
        >>> epoch_seed(0, epoch=2) == epoch_seed(0, epoch=2), epoch_seed(0, epoch=2) == epoch_seed(0, epoch=3)
        (True, False)
    """
    return seed * 1_000_003 + epoch


def mean_rates(model: nn.Module) -> dict[str, float]:
    """Read the drop probability of each site, the mean where each unit has its own."""
    return {name: float(torch.as_tensor(p).mean()) for name, p in dropout_rates(model).items()}
