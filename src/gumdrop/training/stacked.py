"""Train many small models as one batched program: cross-validation splits, seeds, grid points, ensemble members.

Small networks leave a processor waiting for the next call. Models of one architecture that are trained for the same
number of steps are independent, so their parameters can be stacked and every step of all of them taken at once.
"""

import itertools
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.layers import dropout_blocks
from gumdrop.likelihoods import Lengthscale, Likelihood, likelihood_of
from gumdrop.machine.notes import warn
from gumdrop.machine.threads import keep_what_is_freed
from gumdrop.networks.stacked import StackedMLP, stack
from gumdrop.objective.kl import CAPS, check_lengthscale, precision_of
from gumdrop.training.checkpoints import checksum
from gumdrop.training.data import RowSource, StackedRows, all_of, check_data
from gumdrop.training.epochs import Learner, adamw, run_epochs
from gumdrop.training.held_out_noise import (
    MOST_NOISE_ROWS,
    STEPS_BETWEEN_NOISE,
    follow_residuals,
    noise_of,
    without_gradient,
)
from gumdrop.training.in_turn import InTurn
from gumdrop.training.processes.group import process_group, with_long_timeout
from gumdrop.training.progress import Show
from gumdrop.training.records import FitResult
from gumdrop.training.settings import TrainingSettings, chosen
from gumdrop.training.state import TrainingState

MOST_ENCODED = 2**24
"""Numbers that encoded inputs may take, 64 MiB."""


def fit_stacked(
    models: Sequence[nn.Module],
    train: Sequence[tuple[Tensor | RowSource, Tensor]],
    *,
    likelihood: str | Likelihood | Callable[[Tensor, Tensor], Tensor],
    rows: Sequence[Tensor] | None = None,
    held_out: Sequence[Tensor] | None = None,
    weights: Sequence[Tensor] | None = None,
    keep_best: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Show = False,
    settings: TrainingSettings | None = None,
    **changes: Any,
) -> list[FitResult]:
    """Train models in place, each on its own data or rows, as one program.

    Each model is trained as `gumdrop.training.fit` would, with the same optimiser, schedule and objective, on its own
    batches. Models with fewer rows than another begin theirs again within an epoch, so that all take the same number of
    steps; the batches of an epoch are of one size, at most ``batch_size``. Dense networks of one shape, with a rate in
    front of each layer, are stacked, and make their masks of the same random numbers; others are called one after the
    other, with a warning if their dropout is of one strength, see `tune_strength`.

    Args:
        models: Converted models with the same layers and shapes.
        train: Inputs and targets of each model, rows in dimension 0. Data that several models share are held once;
            inputs may be a `gumdrop.training.RowSource`, which is held only where its rows are few.
        likelihood: As for `gumdrop.training.fit`, like all that is not described here.
        rows: Indices of the rows that each model trains on; all of its data if None.
        held_out: Indices of the held-out rows of its data, for each model.
        weights: Weight of each row of each of ``train``: a row of weight 3 counts as three equal ones. Rows are then
            drawn in proportion to their weights, and scores of ``held_out`` are weighted means. All are 1 if None.
        keep_best: Leave each model with the parameters of the epoch that is best on its held-out rows; needed for
            ``patience``, which waits for the last model that gets better.
        checkpoint: File to continue from if it exists, and to keep the state of the run in.
        progress: Show a progress bar; a text stands in front of it.
        settings: The settings; None where all are named.
        changes: Settings by name: ``epochs`` and others of `gumdrop.training.TrainingSettings`, but for those of one
            model alone. Epochs are passes over the largest number of rows.

    Returns:
        One result for each model.

    Raises:
        ValueError: If models, data and rows do not match in number, a setting is out of its range, held-out rows
            are wanted and not given, or the loss stops being finite.
        TypeError: If a setting has another name.
        CheckpointError: If ``checkpoint`` cannot be continued from.
    """
    nll_of, choices = likelihood_of(likelihood), chosen(settings, changes)
    if rows is None:
        rows = [torch.arange(check_data(pair, "train", nll_of)) for pair in train]
    _check_rows(models, train, rows, held_out, weights)
    _check_held_out(choices, keep_best, held_out)
    check_lengthscale(nll_of.prior(choices.lengthscale), 1)
    identity = choices.identity(nll_of) | {"keep_best": keep_best, "model": list(dict.fromkeys(map(repr, models)))}
    if checkpoint is not None:
        identity["data"] = checksum(*itertools.chain(*train), *rows, *(held_out or []), *(weights or []))
    keep_what_is_freed()
    device = next(models[0].parameters()).device
    noises = [noise_of(model, held_out) for model in models] if choices.held_out_noise else []
    with without_gradient(noises):
        stacked = _stacked(models, len(train[0][0].shape))
        train = _encoded(stacked, train)
        data = StackedRows(train, rows, weights, device)
        outside = None if held_out is None else StackedRows(train, held_out, weights, device)
        optimizer = adamw(stacked.groups(choices.weight_decay, choices.largest_rate_lr), choices, device)
        steps, states = choices.epochs * data.num_batches(choices.batch_size), stacked.states
        state = TrainingState(stacked, optimizer, steps=steps, settings=identity, checkpoint=checkpoint, states=states)
        results = run_epochs(_Stacked(stacked, data, outside, nll_of, choices, keep_best), state, choices, progress)
    for model, best in zip(models, state.best_states or stacked.states(), strict=True):
        model.load_state_dict(best, strict=False)  # tied parameters stand there once
        model.eval()
    return results


def fit_shared(
    models: Sequence[nn.Module],
    train: Sequence[Any],
    *,
    settings: TrainingSettings,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Show = False,
    **options: Any,
) -> list[FitResult]:
    """Return what `fit_stacked` does of models that are shared out among the processes of torchrun.

    Each process draws masks of its own, and those beyond the first add their number to the name of the checkpoint. One
    that gets no model waits. All of them get all results.
    """
    group = with_long_timeout(process_group())
    if group.world_size == 1:
        return fit_stacked(models, train, settings=settings, checkpoint=checkpoint, progress=progress, **options)
    mine = range(group.rank, len(models), group.world_size)
    for name in ("rows", "held_out", "weights"):
        if options.get(name) is not None:
            options[name] = [options[name][i] for i in mine]
    if checkpoint is not None and group.rank:
        path = Path(checkpoint)
        checkpoint = path.with_name(f"{path.stem}-{group.rank}{path.suffix}")
    results: list[FitResult] = []
    if mine:
        results = fit_stacked(
            [models[i] for i in mine],
            [train[i] for i in mine],
            settings=replace(settings, seed=settings.seed + 2**20 * group.rank),
            checkpoint=checkpoint,
            progress=group.is_first and progress,
            **options,
        )
    of_all: dict[int, FitResult] = {}
    for part in group.gather([(i, models[i].state_dict(), result) for i, result in zip(mine, results, strict=True)]):
        for i, weights, result in part:
            models[i].load_state_dict(weights)
            models[i].eval()
            of_all[i] = result
    return [of_all[i] for i in range(len(models))]


def _check_rows(
    models: Sequence[nn.Module],
    train: Sequence[tuple[Tensor | RowSource, Tensor]],
    rows: Sequence[Tensor],
    held_out: Sequence[Tensor] | None,
    weights: Sequence[Tensor] | None,
) -> None:
    if not models or not len(models) == len(train) == len(rows) == len(held_out or rows):
        raise ValueError(
            f"`models`, `train`, `rows` and `held_out` must be of one length, at least 1, got {len(models)}, "
            f"{len(train)}, {len(rows)} and {len(held_out or rows)}"
        )
    if weights is None:
        return
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
    for name in ("accumulate", "autocast"):
        if getattr(settings, name) != getattr(TrainingSettings, name):
            raise ValueError(f"`{name}` is for one model alone, see `gumdrop.training.fit`; leave it out")


def _stacked(models: Sequence[nn.Module], num_dims: int) -> StackedMLP | InTurn:
    """Stack models if they can be, and their inputs have so many dimensions."""
    stacked = stack(models) if num_dims == 2 else None
    strengths = {tuple(block.site.strength for block in dropout_blocks(model)) for model in models}
    if stacked is None and len(models) > 1 and len(strengths) == 1:
        warn(
            "the models are trained one after the other: only dense networks of one shape, with a learned rate in "
            "front of each layer, can be stacked"
        )
    return InTurn(models) if stacked is None else stacked


def _encoded(
    stacked: StackedMLP | InTurn, train: Sequence[tuple[Tensor | RowSource, Tensor]]
) -> Sequence[tuple[Tensor | RowSource, Tensor]]:
    """Make inputs and encode them once, where there is room for it: in each step it takes a fifth of the time."""
    encoding = stacked.encoding if isinstance(stacked, StackedMLP) else None
    inputs = {id(x): x for x, _ in train}
    columns = math.prod(train[0][0].shape[1:]) if encoding is None else encoding.num_outputs
    if sum(map(len, inputs.values())) * columns > MOST_ENCODED:
        return train
    known = {i: all_of(x) for i, x in inputs.items()}
    if encoding is not None:
        stacked.encoding, device = None, encoding.left.device
        known = {i: encoding(sent(x, device)) for i, x in known.items()}
    return [(known[id(x)], y) for x, y in train]


def precisions_of(stack: StackedMLP, *, num_data: Tensor, lengthscale: Lengthscale) -> Tensor:
    """Precisions of each layer of a stack's members, (M or 1, L), capped as `kl_divergence` does; 0 without dropout."""
    check_lengthscale(lengthscale, 1)
    numbers = [0.0] * stack.num_free + [precision_of(lengthscale, units) for units in stack.units]
    precisions = sent(torch.tensor([numbers], dtype=num_data.dtype), num_data.device)
    if (cap := CAPS.get(str(lengthscale))) is None:
        return precisions
    count = sum(weight[0].numel() + len(weight[0]) for weight in stack.views.weights[stack.num_free :])
    return precisions * (2 * cap / count * num_data).clamp(max=1.0).unsqueeze(1)


@dataclass(frozen=True, eq=False)
class _Stacked(Learner):
    """The steps of several models, each on a batch of its own, and their held-out values."""

    stack: StackedMLP | InTurn
    data: StackedRows
    held_out: StackedRows | None
    likelihood: Likelihood
    settings: TrainingSettings
    keep_best: bool

    def train(self, epoch: int, state: TrainingState) -> Tensor:
        data, totals = self.data, torch.zeros(2, len(self.data.sizes), device=self.data.sizes.device)
        lengthscale = self.likelihood.prior(self.settings.lengthscale)
        learn = self._learns(lengthscale)
        for x, y in data.batches(self.settings.batch_size):
            nll, kl = learn(x, y)
            if self.settings.max_norm is not None:
                self.stack.clip(self.settings.max_norm)
            state.advance()
            if self.settings.held_out_noise and state.steps % STEPS_BETWEEN_NOISE == 0:
                self._follow(state.steps)
            totals += torch.stack([nll, kl / data.sizes]) * (x.shape[1] / data.longest)
        return totals.cpu()

    def _learns(self, lengthscale: Lengthscale) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Give what leaves a gradient in the parameters, of inputs and targets."""
        models, sizes, likelihood = self.stack, self.data.sizes, self.likelihood
        if isinstance(models, InTurn):
            return partial(models.learn, likelihood=likelihood, lengthscale=lengthscale, num_data=sizes)
        precisions = precisions_of(models, num_data=sizes, lengthscale=lengthscale)

        def slope(output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            nll, g = likelihood.slope(output.flatten(0, 1), y.flatten(0, 1))
            return nll.view(len(y), -1).mean(1), g.view_as(output) / y.shape[1]

        return lambda x, y: models.learn(x, partial(slope, y=y), precisions, sizes)

    def scores(self) -> list[float] | None:
        """Held-out value of each model, where it decides on the best epoch: of the averaged predictive distribution."""
        if self.held_out is None or not self.keep_best:
            return None
        num_samples, totals = self.settings.validation_samples, []
        order, shares = self.held_out.once()
        most = max(1, 2**16 // (num_samples * len(self.data.sizes)))  # which bounds memory
        for rows in order.split(most, dim=1):
            x, y = self.held_out[rows]
            output = self.stack.drawn(x, num_samples, self.settings.seed)
            of_draws = y.repeat(1, num_samples, *[1] * (y.ndim - 2)).flatten(0, 1)
            nll = self.likelihood.nll(output.flatten(0, 2), of_draws).view(len(y), num_samples, -1)
            totals.append(math.log(num_samples) - torch.logsumexp(-nll, dim=1))
        return list((torch.cat(totals, dim=1).cpu() * shares).sum(1).tolist())

    def rates(self) -> list[dict[str, float]]:
        return self.stack.rates()

    @torch.no_grad()
    def _follow(self, steps: int) -> None:
        """Let the noise of each model follow the residuals of drawn functions on its held-out rows."""
        assert self.held_out is not None
        x, y = self.held_out[self.held_out.shuffled()[:, :MOST_NOISE_ROWS]]
        noises = self.stack.noises()
        followed = torch.stack(noises)
        follow_residuals(followed, self.stack.drawn(x, 1, None).squeeze(1), y, steps, self.likelihood)
        for log_variance, value in zip(noises, followed, strict=True):
            log_variance.copy_(value)
