"""Train many small models as one batched program: cross-validation splits, seeds, grid points, ensemble members.

Small networks leave a processor waiting for the next call. Models of one architecture that are trained for the same
number of steps are independent, so their parameters can be stacked and every step of all of them taken at once.
"""

import contextlib
import math
import os
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap

from gumdrop.objective.kl import Lengthscale
from gumdrop.training.checkpoints import checksum
from gumdrop.training.data import check_data
from gumdrop.training.loop import (
    FUSED_DEVICES,
    MOST_NOISE_ROWS,
    STEPS_BETWEEN_NOISE,
    Likelihood,
    check_finite,
    check_settings,
    epoch_seed,
    find_likelihood,
    follow_residuals,
    noise_of,
    without_gradient,
)
from gumdrop.training.progress import progress_bar
from gumdrop.training.records import EpochRecord, FitResult
from gumdrop.training.rows import RowSource, StackedRows
from gumdrop.training.stacks import Apart, Together
from gumdrop.training.state import TrainingState

__all__ = ["fit_stacked"]

ROWS_AT_ONCE = 8192
"""Rows of held-out data, counted once for each draw, that are evaluated in one call."""


def fit_stacked(
    models: Sequence[nn.Module],
    train: Sequence[tuple[Tensor | RowSource, Tensor]],
    *,
    likelihood: str | Likelihood,
    epochs: int,
    rows: Sequence[Tensor] | None = None,
    held_out: Sequence[Tensor] | None = None,
    weights: Sequence[Tensor] | None = None,
    batch_size: int = 32,
    lr: float = 5e-3,
    rate_lr: float | None = None,
    weight_decay: float = 0.0,
    lengthscale: Lengthscale | None = None,
    honest_noise: bool = False,
    keep_best: bool = False,
    patience: int | None = None,
    tol: float = 0.0,
    validation_samples: int = 20,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
) -> list[FitResult]:
    """Train models in place, each on its own data or rows, as one program.

    Each model is trained as `gumdrop.training.fit` would, with the same optimiser, schedule and objective, on its own
    batches and masks. Models with fewer rows than another begin theirs again within an epoch, so that all take the
    same number of steps. Models that cannot be stacked (other shapes, batch normalisation) are called one after the
    other, with a warning that says why.

    Args:
        models: Converted models with the same layers and shapes.
        train: Inputs and targets of each model, rows in dimension 0. Data that several models share are held once;
            inputs may be a `gumdrop.training.RowSource`, which is not held at all.
        likelihood: As for `gumdrop.training.fit`, like all that is not described here.
        epochs: Passes over the largest number of rows.
        rows: Numbers of the rows that each model trains on; all of its data if None.
        held_out: Numbers of the rows of its data that each model is watched on.
        weights: Weight of each row of each of ``train``: a row of weight 3 counts as three equal ones. Rows are then
            drawn in proportion to their weights, and those of ``held_out`` as well. All weights are 1 if None.
        batch_size: Rows per step and model.
        lr: Largest learning rate of the cycle.
        rate_lr: The same for the rates; ``lr`` if None.
        weight_decay: Decay of the weights, beside the prior's.
        lengthscale: Prior, see `gumdrop.negative_elbo`.
        honest_noise: Take the noise of each model from the residuals of its held-out rows.
        keep_best: Leave each model with the parameters of the epoch that is best on its held-out rows.
        patience: With ``keep_best``, stop after this many epochs in which no model got better; never early if None.
        tol: Gain in held-out value, in nats per datum, that counts as better.
        validation_samples: Draws for each evaluation of the held-out rows.
        seed: Seed of shuffling and masks.
        checkpoint: File to continue from if it exists, and to keep the state of the run in.
        progress: Show a progress bar; a text stands in front of it.

    Returns:
        One result for each model.

    Raises:
        ValueError: If models, data and rows do not match in number, a setting is out of its range, held-out rows
            are wanted and not given, or the loss stops being finite.
        CheckpointError: If ``checkpoint`` cannot be continued from.
    """
    if rows is None:
        rows = [torch.arange(check_data(pair, "train", likelihood)) for pair in train]
    if not models or not len(models) == len(train) == len(rows) == len(held_out or rows):
        raise ValueError(
            f"`models`, `train`, `rows` and `held_out` must be of one length, at least 1, got {len(models)}, "
            f"{len(train)}, {len(rows)} and {len(held_out or rows)}"
        )
    if keep_best and held_out is None:
        raise ValueError("`keep_best` needs `held_out` rows to watch")
    if patience is not None and not keep_best:
        raise ValueError("`patience` needs `keep_best=True`, so that the held-out rows are watched")
    if not tol >= 0:
        raise ValueError(f"`tol` must be at least 0, got {tol}")
    if weights is not None:
        _check_weights(weights, train)
    nll_of = find_likelihood(likelihood)
    check_settings(epochs=epochs, batch_size=batch_size, lr=lr, rate_lr=rate_lr, validation_samples=validation_samples)
    check_settings(patience=patience)
    rate_lr = lr if rate_lr is None else rate_lr
    settings: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "rate_lr": rate_lr}
    settings |= {"weight_decay": weight_decay, "lengthscale": lengthscale, "seed": seed}
    settings |= {"honest_noise": honest_noise, "keep_best": keep_best}
    if patience is not None:
        settings |= {"patience": patience, "tol": tol}
    if checkpoint is not None:
        tensors = [*(part for pair in train for part in pair), *rows, *(held_out or []), *(weights or [])]
        settings["data"] = _checksum_of(tensors)
    device = next(models[0].parameters()).device
    data = StackedRows(train, rows, weights, device)
    watched = None if held_out is None else StackedRows(train, held_out, weights, device)

    with contextlib.ExitStack() as context:
        context.enter_context(torch.random.fork_rng())
        if honest_noise:
            for model in models:
                context.enter_context(without_gradient(noise_of(model, held_out)))
        stack = _stacked(models, data, nll_of, lengthscale)
        optimizer = torch.optim.AdamW(stack.groups(weight_decay, rate_lr), lr=lr, fused=device.type in FUSED_DEVICES)
        state = TrainingState(
            stack,
            optimizer,
            steps=epochs * math.ceil(data.longest / batch_size),
            settings=settings,
            checkpoint=checkpoint,
            states=stack.states,
        )
        advance = context.enter_context(progress_bar(progress, epochs, len(state.epochs)))
        while len(state.epochs) < epochs and not state.is_stale(patience, tol):
            epoch = len(state.epochs) + 1
            torch.manual_seed(epoch_seed(seed, epoch))
            totals = _pass(stack, state, data, batch_size, nll_of, watched if honest_noise else None)
            check_finite(totals, epoch)
            scores = _mixture_nll(stack, watched, nll_of, validation_samples) if watched and keep_best else None
            records = _records(epoch, totals, scores, optimizer.param_groups[0]["lr"], stack.rates())
            state.record(*records)
            advance(records[0])
        state.save()
    for model, best in zip(models, state.best_states or stack.states(), strict=True):
        model.load_state_dict(best, strict=False)  # tied parameters stand there once
        model.eval()
    histories = zip(*state.epochs, strict=True)
    return [FitResult(list(history), best) for history, best in zip(histories, state.best_epochs, strict=True)]


def _pass(
    stack: Together | Apart,
    state: TrainingState,
    data: StackedRows,
    batch_size: int,
    nll_of: Likelihood,
    noise_rows: StackedRows | None,
) -> Tensor:
    """Take the steps of one pass; give the mean negative log likelihood and KL of each model, shape (2, models)."""
    totals = torch.zeros(2, len(data.sizes))
    for x, y in data.batches(batch_size):
        nll, kl = stack.losses(x, y, data.sizes, nll_of)
        state.step((nll + kl).sum())
        if noise_rows is not None and state.steps % STEPS_BETWEEN_NOISE == 0:
            _follow(stack, noise_rows, state.steps)
        totals += torch.stack([nll.detach(), kl.detach()]).cpu() * x.shape[1] / data.longest
    return totals


def _checksum_of(parts: Sequence[Tensor | RowSource]) -> int:
    """Checksum of the data that a checkpoint is bound to."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if len(tensors) < len(parts):
        raise ValueError("`checkpoint` is bound to its data, which must be tensors; got inputs of a `RowSource`")
    return checksum(*tensors)


def _check_weights(weights: Sequence[Tensor], train: Sequence[tuple[Tensor | RowSource, Tensor]]) -> None:
    sizes, expected = [tuple(weight.shape) for weight in weights], [(len(x),) for x, _ in train]
    if sizes != expected:
        raise ValueError(f"`weights` must hold one number for each row of `train`, shapes {expected}, got {sizes}")
    if not all((weight > 0).all() and weight.isfinite().all() for weight in weights):
        raise ValueError("`weights` must be positive and finite; leave rows of weight 0 out")


def _stacked(
    models: Sequence[nn.Module], data: StackedRows, nll_of: Likelihood, lengthscale: Lengthscale | None
) -> Together | Apart:
    """Stack models if they can be: only a step tells. One alone is quicker as it is."""
    if len(models) == 1:
        return Apart(models, lengthscale)
    shapes = [{name: value.shape for name, value in model.state_dict().items()} for model in models]
    reason: object = "their layers or shapes differ"
    if all(shape == shapes[0] for shape in shapes):
        try:
            trial = Together(models, lengthscale)
            x, y = data[data.shuffled()[:, :2]]
            nll, kl = trial.losses(x, y, torch.ones(len(models), device=x.device), nll_of)
            (nll + kl).sum().backward()
            trial.drawn(x)
            return Together(models, lengthscale)  # another one, whose running statistics have not seen the trial
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
    warnings.warn(f"the models are trained one after the other, because they cannot be stacked: {reason}", stacklevel=3)
    return Apart(models, lengthscale)


def _follow(stack: Together | Apart, held_out: StackedRows, steps: int) -> None:
    """Let the noise of each model follow the residuals of drawn functions on its held-out rows."""
    x, y = held_out[held_out.shuffled()[:, :MOST_NOISE_ROWS]]
    with torch.no_grad():
        for log_variance, output, target in zip(stack.noises(), stack.drawn(x), y, strict=True):
            follow_residuals(log_variance, output, target, steps)


def _mixture_nll(stack: Together | Apart, held_out: StackedRows, nll_of: Likelihood, num_samples: int) -> Tensor:
    """Score the averaged predictive distribution of each model on its held-out rows, shape (models,)."""
    totals = []
    for rows in held_out.shuffled().split(max(1, ROWS_AT_ONCE // num_samples), dim=1):
        x, y = (part.repeat(1, num_samples, *[1] * (part.ndim - 2)) for part in held_out[rows])
        nll = vmap(nll_of)(stack.drawn(x), y).unflatten(1, (num_samples, -1))
        totals.append(math.log(num_samples) - torch.logsumexp(-nll, dim=1))
    return torch.cat(totals, dim=1).mean(1)


def _records(
    epoch: int, totals: Tensor, scores: Tensor | None, lr: float, rates: list[dict[str, float]]
) -> list[EpochRecord]:
    held_out = [None] * len(rates) if scores is None else scores.tolist()
    return [
        EpochRecord(epoch, nll, kl, score, lr, p)
        for (nll, kl), score, p in zip(totals.T.tolist(), held_out, rates, strict=True)
    ]
