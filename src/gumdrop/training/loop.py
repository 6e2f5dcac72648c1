"""One training loop: minimise the negative ELBO, watch the rates, keep the best, stop and resume."""

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from gumdrop.functional.floats import split_gaussian
from gumdrop.layers import HomoscedasticNoise
from gumdrop.networks.rates import dropout_rates, parameter_groups
from gumdrop.objective.elbo import default_lengthscale, negative_elbo
from gumdrop.objective.kl import Lengthscale
from gumdrop.objective.likelihoods import LIKELIHOODS
from gumdrop.prediction import sampling
from gumdrop.prediction.inputs import Arguments
from gumdrop.prediction.ways.evaluate import drawn
from gumdrop.training.checkpoints import checksum
from gumdrop.training.data import Data, Prepared, batches_of, check_data, deals_itself, prepared, set_epoch, tensors_of
from gumdrop.training.processes.group import Portion, Ranks, ranks
from gumdrop.training.processes.sharding import data_parallel, is_sharded
from gumdrop.training.progress import progress_bar
from gumdrop.training.records import EpochRecord, FitResult
from gumdrop.training.state import TrainingState

__all__ = [
    "FUSED_DEVICES",
    "MOST_NOISE_ROWS",
    "STEPS_BETWEEN_NOISE",
    "Likelihood",
    "check_finite",
    "check_settings",
    "epoch_seed",
    "find_likelihood",
    "fit",
    "follow_residuals",
    "mean_rates",
    "noise_of",
    "without_gradient",
]

FUSED_DEVICES = ("cpu", "cuda")
"""Where one kernel updates all parameters; elsewhere that of PyTorch's choice does."""

STEPS_BETWEEN_NOISE = 10
MOST_NOISE_ROWS = 256
MOST_HELD_OUT_ROWS = 4096

Likelihood = Callable[[Tensor, Tensor], Tensor]


def fit(
    model: nn.Module,
    train: Data,
    *,
    likelihood: str | Likelihood,
    epochs: int,
    validation: Data | None = None,
    num_data: int | None = None,
    batch_size: int = 32,
    lr: float = 5e-3,
    rate_lr: float | None = None,
    weight_decay: float = 0.0,
    lengthscale: Lengthscale | None = None,
    patience: int | None = None,
    honest_noise: bool = False,
    max_norm: float | None = None,
    accumulate: int = 1,
    autocast: torch.dtype | None = None,
    validation_samples: int = 20,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | str = False,
) -> FitResult:
    """Train a converted model in place by AdamW with a one-cycle learning rate.

    With ``validation`` data the model ends with the parameters of its best epoch, otherwise with the last. An
    interruption (Ctrl-C) leaves it with the best so far. Training repeats exactly with the same seed on the same
    machine, also across a stop and resume, and does not touch torch's global random state.

    Under torchrun the same script trains on all processes together: each takes its share of every batch and draws its
    own masks, so that a run on several is the run on one, but for these masks. A model that
    `gumdrop.training.processes.shard` has spread over the processes stays spread.

    Args:
        model: A converted model, on its device.
        train: A pair (inputs, targets) with rows in dimension 0, or a DataLoader of such pairs. Inputs are a tensor, or
            several as a tuple or mapping, which the model gets as arguments. Batches of a loader follow its own order
            and seed; its sampler or dataset is told the epoch by ``set_epoch``, if it has that.
        likelihood: ``"gaussian"`` (means and log variances in halves of the last output dimension),
            ``"categorical"``, ``"bernoulli"``, ``"poisson"``, or a function of output and target that gives the
            negative log likelihood of each example, in nats, shape (N,).
        epochs: Passes over the data, at least 1.
        validation: Held-out inputs and targets, or a loader of them, which the model is not trained on.
        num_data: Size of the training set; the number of rows of ``train`` if None.
        batch_size: Rows per step, over all processes, where ``train`` is not a loader.
        lr: Largest learning rate of the cycle.
        rate_lr: The same for the rates, whose logits move ten times as far, see `gumdrop.parameter_groups`; ``lr`` if
            None.
        weight_decay: Decay of the weights, beside the prior's; never applied to rates and noise.
        lengthscale: Prior, see `gumdrop.negative_elbo`.
        patience: Stop after this many epochs without a better held-out value; never early if None.
        honest_noise: Take the variance of the model's `gumdrop.HomoscedasticNoise` from the residuals of the
            ``validation`` data as training goes on, and not from those of the training data, which a network knows
            too well. The likelihood then stays as blunt as the errors are, and rates settle where they should.
        max_norm: Clip gradients to this norm; no clipping if None.
        accumulate: Parts that a process goes through its share of a batch in, to save memory.
        autocast: Type to compute the network in where that is safe, such as ``torch.bfloat16``; parameters, their
            gradients and the loss stay in their own.
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
        TypeError: If ``train`` or ``validation`` is neither a pair of inputs and targets nor a loader.
        CheckpointError: If ``checkpoint`` is cut short, of another version, or of a run with other settings.

    Example:
        >>> from gumdrop.networks.mlp import mlp
        >>> x = torch.linspace(-1, 1, 64).unsqueeze(1)
        >>> result = fit(mlp(1, 2), (x, x**2), likelihood="gaussian", epochs=2)
        >>> [record.epoch for record in result.history]
        [1, 2]
    """
    nll_of = find_likelihood(likelihood)
    size = check_data(train, "train", likelihood)
    _check_validation(validation, model, likelihood, honest_noise)
    check_settings(epochs=epochs, batch_size=batch_size, accumulate=accumulate, validation_samples=validation_samples)
    check_settings(lr=lr, rate_lr=rate_lr, max_norm=max_norm, patience=patience)
    if patience is not None and validation is None:
        raise ValueError("`patience` needs `validation` data to watch")
    noise = noise_of(model, validation) if honest_noise else None
    num_data = size if num_data is None else num_data
    rate_lr = lr if rate_lr is None else rate_lr
    settings: dict[str, Any] = {
        "likelihood": str(getattr(likelihood, "__qualname__", likelihood)),
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": lr,
        "rate_lr": rate_lr,
    }
    settings |= {"weight_decay": weight_decay, "lengthscale": lengthscale, "num_data": num_data}
    settings |= {"patience": patience, "honest_noise": honest_noise, "max_norm": max_norm, "seed": seed}
    settings |= {"accumulate": accumulate, "autocast": None if autocast is None else str(autocast)}
    if checkpoint is not None:
        settings["data"] = checksum(*tensors_of(train), *tensors_of(validation))
    data, held_out = prepared(train), None if validation is None else prepared(validation)
    device = next(model.parameters()).device
    groups = parameter_groups(model, weight_decay=weight_decay, rate_lr=rate_lr)
    optimizer = torch.optim.AdamW(groups, lr=lr, fused=device.type in FUSED_DEVICES)
    group = ranks()
    steps = group.most(len(train)) if isinstance(train, DataLoader) else math.ceil(size / batch_size)
    state = TrainingState(model, optimizer, steps=epochs * steps, settings=settings, checkpoint=checkpoint, ranks=group)

    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng())
        advance = stack.enter_context(progress_bar(group.is_first and progress, epochs, len(state.epochs)))
        stack.enter_context(state.keep_best())
        if noise is not None:
            stack.enter_context(without_gradient(noise))
        network = model if is_sharded(model) else data_parallel(model)

        def losses(portion: Portion, totals: Tensor) -> Iterator[Tensor]:
            """The loss of this process, part by part; the mean over processes is that of the whole batch."""
            _check_num_data(num_data, portion.num_rows)
            share = portion.num_rows / group.size
            for i, (x, y, counted) in enumerate(portion.parts, start=1):
                is_last = i == len(portion.parts)
                with _unsynchronised(network, not is_last):
                    with torch.autocast(device.type, autocast, enabled=autocast is not None):
                        output = x.to(device).call(network)
                    values = nll_of(output, y.to(device))
                    prior = default_lengthscale(values) if lengthscale is None else lengthscale
                    nll = values.sum() * (counted > 0)
                    loss = negative_elbo(nll / share, model, num_data=num_data, lengthscale=prior)
                    totals += torch.stack([nll.detach(), loss.kl.detach() * counted]).cpu()
                    yield loss.total if is_last else loss.nll

        while len(state.epochs) < epochs and not state.is_stale(patience):
            epoch = len(state.epochs) + 1
            noise_seed = epoch_seed(seed, epoch)
            torch.manual_seed(noise_seed)
            set_epoch(train, epoch)
            model.train()
            totals, num_rows = torch.zeros(2, dtype=torch.float64), 0
            for portion in group.portions(data, batch_size, accumulate, noise_seed):
                state.step(losses(portion, totals), max_norm)
                num_rows += portion.num_rows
                if noise is not None and isinstance(held_out, tuple) and state.steps % STEPS_BETWEEN_NOISE == 0:
                    _follow(noise, model, held_out, state.steps)
                    noise.copy_(group.sum(noise) / group.size)
            totals = group.sum(totals) / num_rows
            check_finite(totals, epoch)
            score = None
            if held_out is not None:
                score = _mixture_nll(model, held_out, nll_of, validation_samples, seed, group)
            mean_nll, mean_kl = totals.tolist()
            lr_now = optimizer.param_groups[0]["lr"]
            record = EpochRecord(epoch, mean_nll, mean_kl, score, lr_now, mean_rates(model))
            state.record(record)
            advance(record)
        state.save()
    model.eval()
    return FitResult([record for record, *_ in state.epochs], state.best_epochs[0])


def noise_of(model: nn.Module, held_out: Any) -> Tensor:
    """Find the log variance of a model, which is to follow the residuals of held-out data.

    Args:
        model: A model with one `gumdrop.HomoscedasticNoise`.
        held_out: The data, or None.

    Returns:
        Its parameter, shape (D,).

    Raises:
        ValueError: If there is another number of them, or no data.
    """
    modules = [module for module in model.modules() if isinstance(module, HomoscedasticNoise)]
    if len(modules) != 1 or held_out is None:
        raise ValueError(
            "`honest_noise` needs held-out data and a model with one `gumdrop.HomoscedasticNoise`, got "
            f"{len(modules)} of these and {'no' if held_out is None else 'such'} data"
        )
    return modules[0].log_variance


@contextlib.contextmanager
def without_gradient(parameter: Tensor) -> Iterator[None]:
    """Context in which a parameter is not trained.

    Args:
        parameter: The parameter.

    Yields:
        Nothing.
    """
    required = parameter.requires_grad
    parameter.requires_grad_(False)
    try:
        yield
    finally:
        parameter.requires_grad_(required)


def follow_residuals(log_variance: Tensor, output: Tensor, y: Tensor, steps: int) -> None:
    """Move the log variance of the noise towards that of held-out residuals, in place, quickly at first.

    Args:
        log_variance: Log variances, shape (..., D).
        output: What drawn functions say of the held-out rows, means and log variances, shape (..., N, 2 D).
        y: Observations, shape (..., N, D).
        steps: Number of steps taken so far.
    """
    mean, _ = split_gaussian(output)
    square = (y.to(mean.device) - mean).square().mean(-2)
    log_variance.lerp_(square.clamp(min=1e-6).log(), max(0.1, STEPS_BETWEEN_NOISE / (steps + STEPS_BETWEEN_NOISE)))


def _follow(log_variance: Tensor, model: nn.Module, held_out: tuple[Arguments, Tensor], steps: int) -> None:
    """Let the noise follow the residuals of drawn functions on some held-out rows."""
    x, y = held_out
    rows = torch.randperm(len(x))[:MOST_NOISE_ROWS]
    seed = int(torch.randint(2**31, ()))
    with torch.no_grad(), sampling(model, seed=seed, shared=False):
        output = x[rows].to(log_variance.device).call(model)
        follow_residuals(log_variance, output, y[rows.to(y.device)], steps)


def check_settings(**settings: float | None) -> None:
    """Check that numbers are positive, and at least 1 where they are counts.

    Args:
        settings: Numbers by name; None is left out.

    Raises:
        ValueError: If one is not.
    """
    for name, value in settings.items():
        if isinstance(value, int) and value < 1:
            raise ValueError(f"`{name}` must be at least 1, got {value}")
        if value is not None and not value > 0:
            raise ValueError(f"`{name}` must be positive, got {value}")


def check_finite(totals: Tensor, epoch: int) -> None:
    """Check that the losses of an epoch are numbers.

    Args:
        totals: Sums of the losses.
        epoch: Number of the epoch.

    Raises:
        ValueError: If one is not.
    """
    if not totals.isfinite().all():
        raise ValueError(f"the loss is not finite in epoch {epoch}; try a smaller `lr`")


def epoch_seed(seed: int, epoch: int) -> int:
    """Seed of shuffling and masks of one epoch, so that a run can go on from any epoch.

    Args:
        seed: Seed of the run.
        epoch: Number of the epoch.

    Returns:
        The seed.
    """
    return seed * 1_000_003 + epoch


def mean_rates(model: nn.Module) -> dict[str, float]:
    """Read the drop probability of each site, the mean where each unit has its own.

    Args:
        model: A converted model.

    Returns:
        One number for each site.
    """
    return {name: float(torch.as_tensor(p).mean()) for name, p in dropout_rates(model).items()}


def find_likelihood(likelihood: str | Likelihood) -> Likelihood:
    """Look up a likelihood by its name.

    Args:
        likelihood: A name, or the function itself.

    Returns:
        The function.

    Raises:
        ValueError: If there is none of that name.
    """
    if callable(likelihood):
        return likelihood
    if likelihood not in LIKELIHOODS:
        raise ValueError(f"`likelihood` must be a function or one of {', '.join(LIKELIHOODS)}, got {likelihood!r}")
    return LIKELIHOODS[likelihood]


def _check_num_data(num_data: int, batch: int) -> None:
    if num_data < batch:
        raise ValueError(
            f"`num_data` must be at least the batch of {batch}, got {num_data}; it is the size of the whole training "
            "set, over all processes"
        )


def _unsynchronised(network: nn.Module, wanted: bool) -> contextlib.AbstractContextManager[None]:
    """Context in which gradients stay with their process, where several parts of a batch are to be summed first."""
    if wanted and isinstance(network, nn.parallel.DistributedDataParallel):
        return network.no_sync()
    return contextlib.nullcontext()


def _check_validation(data: Data | None, model: nn.Module, likelihood: str | Likelihood, honest_noise: bool) -> None:
    if data is None:
        return
    if not isinstance(data, DataLoader):
        check_data(data, "validation", likelihood)
    elif honest_noise:
        raise ValueError("`honest_noise` draws rows of `validation` at random, got a loader; give inputs and targets")
    elif is_sharded(model) and isinstance(data.dataset, IterableDataset):
        raise ValueError("`validation` of a sharded model must give all processes as many batches, got a stream")


def _mixture_nll(
    model: nn.Module,
    data: Prepared,
    nll_of: Likelihood,
    num_samples: int,
    seed: int,
    group: Ranks = Ranks(),
) -> float:
    """Score the averaged predictive distribution of a few draws, as prediction will; processes share the rows."""
    device = next(model.parameters()).device
    total = torch.zeros(2, dtype=torch.float64, device=device)
    # A sharded model must make the same calls on all processes, so that each of them scores all rows.
    mine = slice(None) if is_sharded(model) or deals_itself(data) else slice(group.rank, None, group.size)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # a loader that shuffles gives all processes the same batches
        for x, y in batches_of(data):
            x, y = x[mine].to(device), y[mine].to(device)
            if not len(x):
                continue
            draws = torch.cat(list(drawn(model, x, num_samples, seed, MOST_HELD_OUT_ROWS, None, has_parts=False)))
            nll = torch.stack([nll_of(draw, y) for draw in draws])
            each = math.log(num_samples) - torch.logsumexp(-nll, dim=0)
            total += torch.stack([each.sum().double(), torch.tensor(len(x)).to(each.double())])
    score, count = group.sum(total).tolist()
    return float(score / count)
