"""Train one model, on one process or on many: minimise the negative ELBO and keep the best epoch."""

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from gumdrop.functional.devices import device_of, sent
from gumdrop.layers.site import sites_of
from gumdrop.likelihoods import Likelihood, likelihood_of
from gumdrop.machine.notes import warn
from gumdrop.machine.threads import limited_threads, threads_for
from gumdrop.networks.rates import parameter_groups
from gumdrop.objective.elbo import negative_elbo
from gumdrop.prediction.drawing import draw
from gumdrop.prediction.draws import Output, drawn
from gumdrop.prediction.inputs import Arguments, tensor_of
from gumdrop.training.checkpoints import checksum
from gumdrop.training.data import Data, Prepared, batches_of, check_data, deals_itself, prepared, set_epoch, tensors_of
from gumdrop.training.epochs import Learner, adamw, epoch_seed, mean_rates, run_epochs
from gumdrop.training.held_out_noise import (
    MOST_NOISE_ROWS,
    STEPS_BETWEEN_NOISE,
    follow_residuals,
    noise_of,
    without_gradient,
)
from gumdrop.training.processes.group import BatchShard, ProcessGroup, process_group
from gumdrop.training.processes.sharding import data_parallel, is_sharded
from gumdrop.training.progress import Show
from gumdrop.training.records import FitResult
from gumdrop.training.settings import TrainingSettings, chosen
from gumdrop.training.state import TrainingState


def fit(
    model: nn.Module,
    train: Data,
    *,
    likelihood: str | Likelihood | Callable[[Tensor, Tensor], Tensor],
    validation: Data | None = None,
    num_data: int | None = None,
    output: Output = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Show = False,
    measure: Callable[[nn.Module, int], Mapping[str, float]] | None = None,
    settings: TrainingSettings | None = None,
    **changes: Any,
) -> FitResult:
    """Train a converted model in place by AdamW with a one-cycle learning rate.

    With ``validation`` data the model ends with the parameters of its best epoch, otherwise with the last. An
    interruption (Ctrl-C) leaves it with the best so far. Training repeats exactly with the same seed on the same
    machine, also across a stop and resume, and does not touch torch's global random state.

    Under torchrun the same script trains on all processes together: each takes its shard of every batch and draws its
    own masks, so that a run on several is the run on one, but for these masks. A model that
    `gumdrop.training.processes.shard` has spread over the processes stays spread.

    Args:
        model: A converted model, on its device.
        train: A pair (inputs, targets) with rows in dimension 0, or a DataLoader of such pairs. Inputs are a tensor, or
            several as a tuple or mapping, which the model gets as arguments. Batches of a loader follow its own order
            and seed; its sampler or dataset is told the epoch by ``set_epoch``, if it has that.
        likelihood: ``"gaussian"`` (means and log variances in halves of the last output dimension),
            another of `gumdrop.likelihoods.LIKELIHOODS` such as ``"categorical"``, a likelihood, or a function of
            output and target that gives the negative log likelihood of each example, in nats, shape (N,).
        validation: Held-out inputs and targets, or a loader of them, which the model is not trained on.
        num_data: Size of the training set; the number of rows of ``train`` if None.
        output: Takes the output tensor out of what the model returns, as in ``output=lambda result: result.logits``.
        checkpoint: File to continue from if it exists, and to keep the state of the run in. It is written whole
            or not at all.
        progress: Show a progress bar; a text stands in front of it.
        measure: Called after each epoch with the model, in eval mode, and the number of the epoch. The numbers that it
            gives by name, such as an accuracy, are kept in `EpochRecord.measured` and in the checkpoint; none if None.
        settings: The settings; None where all are named.
        changes: Settings by name: ``epochs``, ``batch_size``, ``lr`` and others of `gumdrop.training.TrainingSettings`.

    Returns:
        The history and the best epoch.

    Raises:
        ValueError: If an argument is outside its range, data are not finite or rows do not match, or the loss
            stops being finite.
        TypeError: If ``train`` or ``validation`` is neither a pair of inputs and targets nor a loader, a setting has
            another name, or the model does not return a tensor and ``output`` is None.
        CheckpointError: If ``checkpoint`` is cut short, of another version, or of a run with other settings.

    Example:
        >>> from gumdrop.networks import mlp
        >>> x = torch.linspace(-1, 1, 64).unsqueeze(1)
        >>> result = fit(mlp(1, 2), (x, x**2), likelihood="gaussian", epochs=2)
        >>> [record.epoch for record in result.history]
        [1, 2]
    """
    nll_of, choices = likelihood_of(likelihood), chosen(settings, changes)
    size = check_data(train, "train", nll_of)
    noise, num_data = _noise_to_follow(validation, model, nll_of, choices), _counted(num_data, size, choices.batch_size)
    data = [] if checkpoint is None else [*tensors_of(train), *tensors_of(validation)]
    run = choices.identity(nll_of) | {"num_data": num_data, "data": checksum(*data), "dropout": _dropout_of(model)}
    groups = parameter_groups(model, weight_decay=choices.weight_decay, rate_lr=choices.largest_rate_lr)
    group, optimizer = process_group(), adamw(groups, choices, device_of(model))
    steps = choices.epochs * _num_batches(train, size, choices.batch_size, group)
    state = TrainingState(model, optimizer, steps=steps, settings=run, checkpoint=checkpoint, group=group)
    threads = threads_for([model], choices.batch_size) if _is_of_rows(train) else None
    with limited_threads(threads), state.keep_best(), without_gradient([] if noise is None else [noise]):
        learner = _Single(
            model=model,
            network=model if is_sharded(model) else data_parallel(model),
            data=prepared(train),
            held_out=None if validation is None else prepared(validation),
            likelihood=nll_of,
            noise=noise,
            output=output,
            num_data=num_data,
            settings=choices,
            group=group,
        )
        measured = None if measure is None else lambda epoch: measure(model.eval(), epoch)
        (result,) = run_epochs(learner, state, choices, group.is_first and progress, measured)
    model.eval()
    return result


def _dropout_of(model: nn.Module) -> list[list[float | bool]]:
    """What does not change of the dropout of a model while it is trained, nor when it is first run."""
    return [[site.strength, site.temperature, site.is_fixed] for site in sites_of(model)]


def _num_batches(data: Data, size: int, batch_size: int, group: ProcessGroup) -> int:
    """Count the batches of an epoch, of the process with the most of them."""
    return group.maximum(len(data)) if isinstance(data, DataLoader) else math.ceil(size / batch_size)


def _counted(num_data: int | None, size: int, batch_size: int) -> int:
    """Rows that the KL is divided by, with a word if they are fewer than there are."""
    if num_data is not None and batch_size <= num_data < size:  # fewer than a batch are an error
        warn(
            f"`num_data` is {num_data}, and `train` has {size} rows: the KL counts as if there were fewer of them; "
            "leave `num_data` out unless rows are repeated"
        )
    return size if num_data is None else num_data


def _is_of_rows(data: Data) -> bool:
    """Whether a model sees rows of numbers on the CPU, so that the widths of its layers tell how large a step is."""
    x = None if isinstance(data, DataLoader) else data[0]
    return isinstance(x, Tensor) and x.ndim == 2 and x.is_floating_point() and x.device.type == "cpu"


def _noise_to_follow(
    data: Data | None, model: nn.Module, likelihood: Likelihood, settings: TrainingSettings
) -> Tensor | None:
    """Check held-out data, and find the noise that is to follow their residuals."""
    if data is None:
        if settings.patience is not None:
            raise ValueError("`patience` needs `validation` data")
    elif not isinstance(data, DataLoader):
        check_data(data, "validation", likelihood)
    elif settings.held_out_noise:
        raise ValueError("`held_out_noise` draws rows of `validation` at random, got a loader; give inputs and targets")
    elif is_sharded(model) and isinstance(data.dataset, IterableDataset):
        raise ValueError("`validation` of a sharded model must give all processes as many batches, got a stream")
    return noise_of(model, data) if settings.held_out_noise else None


@dataclass(frozen=True, eq=False, kw_only=True)
class _Single(Learner):
    """The steps of one model, each on this process's shard of a batch, and its held-out value."""

    model: nn.Module
    network: nn.Module
    """The model, or what averages its gradients over the processes."""
    data: Prepared
    held_out: Prepared | None
    likelihood: Likelihood
    noise: Tensor | None
    """Log variance that follows the residuals of the held-out data."""
    output: Output = None
    num_data: int
    settings: TrainingSettings
    group: ProcessGroup

    def train(self, epoch: int, state: TrainingState) -> Tensor:
        settings = self.settings
        set_epoch(self.data, epoch)
        self.model.train()
        totals, num_rows = _zeros(device_of(self.model)), 0
        noise_seed = epoch_seed(settings.seed, epoch)
        for shard in self.group.batch_shards(self.data, settings.batch_size, settings.accumulate, noise_seed):
            state.step(self._losses(shard, totals), settings.max_norm)
            num_rows += shard.num_rows
            if self.noise is not None and state.steps % STEPS_BETWEEN_NOISE == 0:
                self._follow(self.noise, state.steps)
        return (self.group.sum(totals.cpu()) / num_rows).unsqueeze(1)

    def scores(self) -> list[float] | None:
        """Score the averaged predictive distribution of a few draws, as prediction will; processes share the rows."""
        if self.held_out is None:
            return None
        model, settings, group = self.model, self.settings, self.group
        device, num_samples, seed = device_of(model), settings.validation_samples, settings.seed
        total = _zeros(device)
        # A sharded model must make the same calls on all processes, so that each of them scores all rows.
        is_whole = is_sharded(model) or deals_itself(self.held_out)
        mine = slice(None) if is_whole else slice(group.rank, None, group.world_size)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # a loader that shuffles gives all processes the same batches
            for x, y in batches_of(self.held_out):
                x, y = x[mine].to(device), sent(y[mine], device)
                if not len(x):
                    continue
                draws = torch.cat(list(drawn(model, x, num_samples, seed, 4096, self.output, has_parts=False)))
                nll = torch.stack([self.likelihood.nll(output, y) for output in draws])
                nll_of_rows = math.log(num_samples) - torch.logsumexp(-nll, dim=0)
                total += torch.stack([nll_of_rows.sum().to(total.dtype), total.new_full((), len(x))])
        score, count = group.sum(total).tolist()
        return [float(score / count)]

    def rates(self) -> list[dict[str, float]]:
        return [mean_rates(self.model)]

    def _losses(self, shard: BatchShard, totals: Tensor) -> Iterator[Tensor]:
        """The loss of this process, part by part; the mean over processes is that of the whole batch."""
        if self.num_data < shard.num_rows:
            raise ValueError(
                f"`num_data` must be at least the batch of {shard.num_rows}, got {self.num_data}; it is the size of "
                "the whole training set, over all processes"
            )
        autocast, device = self.settings.autocast, device_of(self.model)
        share = shard.num_rows / self.group.world_size
        for i, (x, y, counted) in enumerate(shard.micro_batches, start=1):
            is_last = i == len(shard.micro_batches)
            with _unsynchronised(self.network, not is_last):
                with torch.autocast(device.type, autocast, enabled=autocast is not None):
                    output = self._output(x.to(device))
                values = self.likelihood.nll(output, sent(y, device))
                prior = self.likelihood.prior(self.settings.lengthscale)
                nll = values.sum() * (counted > 0)
                loss = negative_elbo(nll / share, self.model, num_data=self.num_data, lengthscale=prior)
                totals += torch.stack([nll.detach(), loss.kl.detach() * counted])
                yield loss.total if is_last else loss.nll

    def _output(self, x: Arguments) -> Tensor:
        """Call the network, and take the tensor out of what it returns."""
        try:
            result = x.call(self.network)
        except ValueError as error:
            if len(x) > 1 or "more than 1 value per channel" not in str(error):
                raise
            raise ValueError(
                "a batch of one row cannot be normalised by the batch normalisation of `model`: choose `batch_size=` "
                "(of a loader also `drop_last=True`), `accumulate` and the number of processes so that each part of a "
                "batch has at least 2 rows"
            ) from error
        return tensor_of(result, self.output)

    def _follow(self, log_variance: Tensor, steps: int) -> None:
        """Let the noise follow the residuals of drawn functions on some held-out rows."""
        assert isinstance(self.held_out, tuple)
        x, y = self.held_out
        rows = torch.randperm(len(x))[:MOST_NOISE_ROWS]
        function = draw(self.model, seed=int(torch.randint(2**31, ())), fresh=True, shared=False)
        with torch.no_grad():
            output = tensor_of(x[rows].to(log_variance.device).call(function), self.output)
            follow_residuals(log_variance, output, y[sent(rows, y.device)], steps, self.likelihood)
        log_variance.copy_(self.group.sum(log_variance) / self.group.world_size)


def _unsynchronised(network: nn.Module, wanted: bool) -> contextlib.AbstractContextManager[None]:
    """Context in which gradients stay with their process, where several parts of a batch are to be summed first."""
    if wanted and isinstance(network, nn.parallel.DistributedDataParallel):
        return network.no_sync()
    return contextlib.nullcontext()


def _zeros(device: torch.device) -> Tensor:
    """Two sums on a device, in float64 where it has that."""
    return torch.zeros(2, dtype=torch.float32 if device.type == "mps" else torch.float64, device=device)
