"""Train many small models as one batched program: cross-validation splits, seeds, grid points, ensemble members.

Small networks leave a processor waiting for the next call. Models of one architecture that are trained for the same
number of steps are independent, so their parameters can be stacked and every step of all of them taken at once.
"""

import copy
import itertools
import math
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from gumdrop.conversion import parameter_groups
from gumdrop.layers import dropout_blocks
from gumdrop.objective import Lengthscale, kl_divergence
from gumdrop.training.loop import FUSED_DEVICES, Likelihood, check_finite, check_settings, epoch_seed, find_likelihood
from gumdrop.training.state import EpochRecord, FitResult, TrainingState, checksum, progress_bar

__all__ = ["fit_stacked"]


class _WithKL(nn.Module):
    """A model that returns its KL divergence beside its output, so that one functional call gives both."""

    def __init__(self, model: nn.Module, lengthscale: Lengthscale) -> None:
        super().__init__()
        self.model, self.lengthscale = model, lengthscale

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.model(x), kl_divergence(self.model, lengthscale=self.lengthscale)


class _Stack(nn.Module):
    """The parameters of several models of one architecture, stacked in dimension 0."""

    def __init__(self, models: Sequence[nn.Module], lengthscale: Lengthscale) -> None:
        super().__init__()
        parameters, buffers = stack_module_state([_WithKL(model, lengthscale) for model in models])
        # Dots cannot stand in the names of a module's own parameters.
        self._keys = {name: name.replace(".", "/") for name in [*parameters, *buffers]}
        for name, value in parameters.items():
            self.register_parameter(self._keys[name], nn.Parameter(value.detach()))
        for name, value in buffers.items():
            self.register_buffer(self._keys[name], value)
        self._template = [_WithKL(copy.deepcopy(models[0]), lengthscale).train()]  # in a list: not a part of this one

    def _stacked_of(self, value: Tensor) -> Tensor:
        model = self._template[0]
        named = itertools.chain(model.named_parameters(), model.named_buffers())
        (name,) = (name for name, each in named if each is value)
        return self._values()[name]

    def _values(self) -> dict[str, Tensor]:
        return {name: getattr(self, key) for name, key in self._keys.items()}

    def losses(self, x: Tensor, y: Tensor, num_data: Tensor, nll_of: Likelihood) -> tuple[Tensor, Tensor]:
        """Negative log likelihood and KL per datum of each model on a batch of its own, each of shape (models,)."""

        def one(values: dict[str, Tensor], x: Tensor, y: Tensor, num_data: Tensor) -> tuple[Tensor, Tensor]:
            output, kl = functional_call(self._template[0], values, (x,))
            return nll_of(output, y).mean(), kl / num_data

        nll, kl = vmap(one, randomness="different")(self._values(), x, y, num_data)
        return nll, kl

    def groups(self, weight_decay: float, rate_lr: float) -> list[dict[str, Any]]:
        """The parameter groups of one model, with stacked parameters in them."""
        groups = parameter_groups(self._template[0].model, weight_decay=weight_decay, rate_lr=rate_lr)
        return [group | {"params": [self._stacked_of(each) for each in group["params"]]} for group in groups]

    def rates(self) -> dict[str, Tensor]:
        """Drop probability of each site, shape (models,); the mean where each unit has its own."""
        blocks = list(dropout_blocks(self._template[0].model))
        logits = {block.name: self._stacked_of(block.site.p_logit).detach() for block in blocks}
        return {
            name: torch.sigmoid(logit).flatten(1).mean(1) if logit.ndim > 1 else torch.sigmoid(logit)
            for name, logit in logits.items()
        }

    def write_back(self, models: Sequence[nn.Module]) -> None:
        """Give each model its slice, and leave it in eval."""
        for i, model in enumerate(models):
            state = {name.removeprefix("model."): value.detach()[i] for name, value in self._values().items()}
            model.load_state_dict(state, strict=False)  # tied parameters stand there once
            model.eval()


def fit_stacked(
    models: Sequence[nn.Module],
    train: Sequence[tuple[Tensor, Tensor]],
    *,
    likelihood: str | Likelihood,
    epochs: int,
    batch_size: int = 32,
    lr: float = 5e-3,
    rate_lr: float | None = None,
    weight_decay: float = 0.0,
    lengthscale: Lengthscale = "fan_in",
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
) -> list[FitResult]:
    """Train models of one architecture in place, each on its own data, as one program.

    Each model is trained as `gumdrop.training.fit` would, with the same optimiser, schedule and objective, on its own
    batches and masks. Data sets that are smaller than the largest begin again within an epoch, so that all models
    take the same number of steps.

    Args:
        models: Converted models with the same layers and shapes.
        train: Inputs and targets of each model, rows in dimension 0.
        likelihood: As for `gumdrop.training.fit`, like all that follow.
        epochs: Passes over the largest of the data sets.
        batch_size: Rows per step and model.
        lr: Largest learning rate of the cycle.
        rate_lr: The same for the logits; ten times ``lr`` if None.
        weight_decay: Decay of the weights, beside the prior's.
        lengthscale: Prior, see `gumdrop.kl_divergence`.
        seed: Seed of shuffling and masks.
        checkpoint: File to continue from if it exists, and to keep the state of the run in.
        progress: Show a progress bar; a text stands in front of it.

    Returns:
        One result for each model.

    Raises:
        ValueError: If models and data do not match in number, models cannot be stacked, or the loss stops being
            finite.
        CheckpointError: If ``checkpoint`` cannot be continued from.
    """
    if not models or len(models) != len(train):
        raise ValueError(f"`models` and `train` must be of one length, at least 1, got {len(models)} and {len(train)}")
    shapes = [{name: value.shape for name, value in model.state_dict().items()} for model in models]
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError("`models` must have the same layers and shapes to be stacked; train the others by themselves")
    nll_of = find_likelihood(likelihood)
    check_settings(epochs=epochs, batch_size=batch_size, lr=lr, rate_lr=rate_lr)
    rate_lr = 10 * lr if rate_lr is None else rate_lr
    sizes = torch.tensor([len(x) for x, _ in train])
    settings: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "rate_lr": rate_lr}
    settings |= {"weight_decay": weight_decay, "lengthscale": lengthscale, "seed": seed}
    if checkpoint is not None:
        settings["data"] = checksum(*(part for pair in train for part in pair))
    stack = _Stack(models, lengthscale)
    fused = next(stack.parameters()).device.type in FUSED_DEVICES
    optimizer = torch.optim.AdamW(stack.groups(weight_decay, rate_lr), lr=lr, fused=fused)
    steps = epochs * math.ceil(int(sizes.max()) / batch_size)
    state = TrainingState(stack, optimizer, steps=steps, settings=settings, checkpoint=checkpoint)
    x, y = (nn.utils.rnn.pad_sequence([pair[i] for pair in train], batch_first=True) for i in range(2))
    each = torch.arange(len(models)).unsqueeze(1)

    with torch.random.fork_rng(), progress_bar(progress, epochs, len(state.epochs)) as advance:
        while len(state.epochs) < epochs:
            epoch = len(state.epochs) + 1
            torch.manual_seed(epoch_seed(seed, epoch))
            totals = torch.zeros(2, len(models))
            for rows in _shuffled(sizes).split(batch_size, dim=1):
                batch_nll, batch_kl = stack.losses(x[each, rows], y[each, rows], sizes, nll_of)
                state.step((batch_nll + batch_kl).sum())
                totals += torch.stack([batch_nll.detach(), batch_kl.detach()]) * rows.shape[1] / sizes.max()
            check_finite(totals, epoch)
            lr_now = optimizer.param_groups[0]["lr"]
            rates = {name: p.tolist() for name, p in stack.rates().items()}
            state.record(
                *(
                    EpochRecord(epoch, nll, kl, None, lr_now, {name: p[i] for name, p in rates.items()})
                    for i, (nll, kl) in enumerate(totals.T.tolist())
                )
            )
            advance(EpochRecord(epoch, totals[0].mean().item(), totals[1].mean().item(), None, lr_now, {}))
        state.save()
    stack.write_back(models)
    return [FitResult(list(history), epochs) for history in zip(*state.epochs, strict=True)]


def _shuffled(sizes: Tensor) -> Tensor:
    """Shuffle the row numbers of each data set; the shorter ones begin again until all are as long as the longest."""
    longest = int(sizes.max())
    orders = [torch.cat([torch.randperm(n) for _ in range(-(-longest // n))])[:longest] for n in sizes.tolist()]
    return torch.stack(orders)
