"""Train many small models as one batched program: cross-validation splits, seeds, grid points, ensemble members.

Small networks leave a processor waiting for the next call. Models of one architecture that are trained for the same
number of steps are independent, so their parameters can be stacked and every step of all of them taken at once.
"""

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor, nn
from torch.func import vmap

from gumdrop.layers import dropout_blocks
from gumdrop.machine.optimizers import without_compiler
from gumdrop.objective.kl import Lengthscale
from gumdrop.training.checkpoints import checksum
from gumdrop.training.data import check_data
from gumdrop.training.dense_layers import dense_layers_of
from gumdrop.training.dense_stack import DenseStack
from gumdrop.training.epochs import FUSED_DEVICES, run_epochs
from gumdrop.training.held_out_noise import (
    MOST_NOISE_ROWS,
    STEPS_BETWEEN_NOISE,
    follow_residuals,
    noise_of,
    without_gradient,
)
from gumdrop.training.in_turn import InTurn
from gumdrop.training.records import FitResult
from gumdrop.training.rows import RowSource, StackedRows
from gumdrop.training.settings import Likelihood, Options, TrainingSettings, find_likelihood, name_of, settings_of
from gumdrop.training.state import TrainingState
from gumdrop.training.together import Together

__all__ = ["fit_stacked"]

Stack = Together | DenseStack | InTurn

ROWS_AT_ONCE = 2**16
"""Rows of held-out data, counted once for each draw and model, that are evaluated in one call."""


def fit_stacked(
    models: Sequence[nn.Module],
    train: Sequence[tuple[Tensor | RowSource, Tensor]],
    *,
    likelihood: str | Likelihood,
    epochs: int,
    rows: Sequence[Tensor] | None = None,
    held_out: Sequence[Tensor] | None = None,
    weights: Sequence[Tensor] | None = None,
    keep_best: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
    **settings: Unpack[Options],
) -> list[FitResult]:
    """Train models in place, each on its own data or rows, as one program.

    Each model is trained as `gumdrop.training.fit` would, with the same optimiser, schedule and objective, on its own
    batches and masks. Models with fewer rows than another begin theirs again within an epoch, so that all take the
    same number of steps. Models that cannot be stacked (other shapes, batch normalisation) are called one after the
    other, with a warning that says why; so are models with dropout of different strengths, without a warning, unless
    they are plain dense networks.

    Args:
        models: Converted models with the same layers and shapes.
        train: Inputs and targets of each model, rows in dimension 0. Data that several models share are held once;
            inputs may be a `gumdrop.training.RowSource`, which is not held at all.
        likelihood: As for `gumdrop.training.fit`, like all that is not described here.
        epochs: Passes over the largest number of rows.
        rows: Indices of the rows that each model trains on; all of its data if None.
        held_out: Indices of the held-out rows of its data, for each model.
        weights: Weight of each row of each of ``train``: a row of weight 3 counts as three equal ones. Rows are then
            drawn in proportion to their weights, and those of ``held_out`` as well. All weights are 1 if None.
        keep_best: Leave each model with the parameters of the epoch that is best on its held-out rows; needed for
            ``patience``, which waits for the last model that gets better.
        checkpoint: File to continue from if it exists, and to keep the state of the run in.
        progress: Show a progress bar; a text stands in front of it.
        settings: ``batch_size``, ``lr``, ``rate_lr``, ``weight_decay``, ``lengthscale``, ``held_out_noise``,
            ``patience``, ``tol``, ``validation_samples`` and ``seed``, as `gumdrop.training.TrainingSettings`
            documents them.

    Returns:
        One result for each model.

    Raises:
        ValueError: If models, data and rows do not match in number, a setting is out of its range, held-out rows
            are wanted and not given, or the loss stops being finite.
        TypeError: If a setting has another name.
        CheckpointError: If ``checkpoint`` cannot be continued from.
    """
    if rows is None:
        rows = [torch.arange(check_data(pair, "train", likelihood)) for pair in train]
    _check_lengths(models, train, rows, held_out)
    if weights is not None:
        _check_weights(weights, train)
    nll_of, choices = find_likelihood(likelihood), settings_of(epochs, settings, Options)
    _check_held_out(choices, keep_best, held_out)
    identity = choices.identity() | {"likelihood": name_of(likelihood), "keep_best": keep_best}
    identity["model"] = list(dict.fromkeys(map(repr, models)))
    if checkpoint is not None:
        identity["data"] = _checksum_of(
            [*(part for pair in train for part in pair), *rows, *(held_out or []), *(weights or [])]
        )
    device = next(models[0].parameters()).device
    data = StackedRows(train, rows, weights, device)
    outside = None if held_out is None else StackedRows(train, held_out, weights, device)
    noises = [noise_of(model, held_out) for model in models] if choices.held_out_noise else []
    with without_gradient(noises):
        stack = _stacked(models, data, nll_of, choices.lengthscale)
        optimizer = _optimizer(stack, choices, device)
        state = TrainingState(
            stack,
            optimizer,
            steps=epochs * math.ceil(data.longest / choices.batch_size),
            settings=identity,
            checkpoint=checkpoint,
            states=stack.states,
        )
        results = run_epochs(_Stacked(stack, data, outside, nll_of, choices, keep_best), state, choices, progress)
    for model, best in zip(models, state.best_states or stack.states(), strict=True):
        model.load_state_dict(best, strict=False)  # tied parameters stand there once
        model.eval()
    return results


def _check_lengths(
    models: Sequence[nn.Module],
    train: Sequence[tuple[Tensor | RowSource, Tensor]],
    rows: Sequence[Tensor],
    held_out: Sequence[Tensor] | None,
) -> None:
    if not models or not len(models) == len(train) == len(rows) == len(held_out or rows):
        raise ValueError(
            f"`models`, `train`, `rows` and `held_out` must be of one length, at least 1, got {len(models)}, "
            f"{len(train)}, {len(rows)} and {len(held_out or rows)}"
        )


def _check_weights(weights: Sequence[Tensor], train: Sequence[tuple[Tensor | RowSource, Tensor]]) -> None:
    sizes, expected = [tuple(weight.shape) for weight in weights], [(len(x),) for x, _ in train]
    if sizes != expected:
        raise ValueError(f"`weights` must hold one number for each row of `train`, shapes {expected}, got {sizes}")
    if not all((weight > 0).all() and weight.isfinite().all() for weight in weights):
        raise ValueError("`weights` must be positive and finite; leave rows of weight 0 out")


def _check_held_out(settings: TrainingSettings, keep_best: bool, held_out: Sequence[Tensor] | None) -> None:
    if keep_best and held_out is None:
        raise ValueError("`keep_best` needs `held_out` rows")
    if settings.patience is not None and not keep_best:
        raise ValueError("`patience` needs `keep_best=True`, so that the held-out rows are evaluated")


def _checksum_of(parts: Sequence[Tensor | RowSource]) -> int:
    """Checksum of the data that a checkpoint is bound to."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if len(tensors) < len(parts):
        raise ValueError("`checkpoint` is bound to its data, which must be tensors; got inputs of a `RowSource`")
    return checksum(*tensors)


def _stacked(
    models: Sequence[nn.Module], data: StackedRows, nll_of: Likelihood, lengthscale: Lengthscale | None
) -> Stack:
    """Stack models if they can be, by written gradients if they are dense; of others only a step tells."""
    shapes = [{name: value.shape for name, value in model.state_dict().items()} for model in models]
    reason: object = "their layers or shapes differ"
    if all(shape == shapes[0] for shape in shapes):
        dense = None if lengthscale is None or data.num_dims > 1 else dense_layers_of(models, nll_of)
        if dense is not None and lengthscale is not None:
            stack = DenseStack(models, dense, lengthscale)
            with torch.random.fork_rng():
                x, y = data[data.shuffled()[:, :2]]
                vmap(nll_of)(stack.drawn(x), y)  # says what is wrong with the targets
            return stack
        if len(models) == 1:
            return InTurn(models, lengthscale)  # quicker as it is
        if len({tuple(block.site.strength for block in dropout_blocks(model)) for model in models}) > 1:
            return InTurn(models, lengthscale)
        try:
            with torch.random.fork_rng():
                _try(Together(models, lengthscale), data, nll_of)
            return Together(models, lengthscale)  # another one, whose running statistics have not seen the trial
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
    warnings.warn(f"the models are trained one after the other, because they cannot be stacked: {reason}", stacklevel=3)
    return InTurn(models, lengthscale)


def _try(stack: Together, data: StackedRows, nll_of: Likelihood) -> None:
    """Do with two rows of each model what a step and an evaluation do."""
    x, y = data[data.shuffled()[:, :2]]
    stack.backward(x, y, torch.ones(len(x), device=x.device), nll_of)
    stack.drawn(x)


def _optimizer(stack: Stack, settings: TrainingSettings, device: torch.device) -> torch.optim.Optimizer:
    groups = stack.groups(settings.weight_decay, settings.largest_rate_lr)
    return without_compiler(torch.optim.AdamW)(groups, lr=settings.lr, fused=device.type in FUSED_DEVICES)


@dataclass(frozen=True, eq=False)
class _Stacked:
    """The steps of several models, each on a batch of its own, and their held-out values."""

    stack: Stack
    data: StackedRows
    held_out: StackedRows | None
    nll_of: Likelihood
    settings: TrainingSettings
    keep_best: bool

    def train(self, epoch: int, state: TrainingState) -> Tensor:
        """Take the steps of an epoch, see `gumdrop.training.epochs.Learner`."""
        data, totals = self.data, torch.zeros(2, len(self.data.sizes), device=self.data.sizes.device)
        for x, y in data.batches(self.settings.batch_size):
            nll, kl = self.stack.backward(x, y, data.sizes, self.nll_of)
            state.advance()
            if self.settings.held_out_noise and state.steps % STEPS_BETWEEN_NOISE == 0:
                self._follow(state.steps)
            totals += torch.stack([nll, kl]) * x.shape[1] / data.longest
        return totals.cpu()

    def scores(self) -> list[float] | None:
        """Held-out value of each model, where it decides on the best epoch."""
        if self.held_out is None or not self.keep_best:
            return None
        return _mixture_nll(self.stack, self.held_out, self.nll_of, self.settings.validation_samples).tolist()

    def rates(self) -> list[dict[str, float]]:
        """Drop probability of each site of each model."""
        return self.stack.rates()

    def _follow(self, steps: int) -> None:
        """Let the noise of each model follow the residuals of drawn functions on its held-out rows."""
        assert self.held_out is not None
        x, y = self.held_out[self.held_out.shuffled()[:, :MOST_NOISE_ROWS]]
        with torch.no_grad():
            for log_variance, output, target in zip(self.stack.noises(), self.stack.drawn(x), y, strict=True):
                follow_residuals(log_variance, output, target, steps)


def _mixture_nll(stack: Stack, held_out: StackedRows, nll_of: Likelihood, num_samples: int) -> Tensor:
    """Score the averaged predictive distribution of each model on its held-out rows, shape (models,)."""
    totals = []
    for rows in held_out.shuffled().split(max(1, ROWS_AT_ONCE // (num_samples * len(held_out.sizes))), dim=1):
        x, y = held_out[rows]
        y = y.repeat(1, num_samples, *[1] * (y.ndim - 2))
        nll = vmap(nll_of)(stack.drawn(x, num_samples), y).unflatten(1, (num_samples, -1))
        totals.append(math.log(num_samples) - torch.logsumexp(-nll, dim=1))
    return torch.cat(totals, dim=1).mean(1)
