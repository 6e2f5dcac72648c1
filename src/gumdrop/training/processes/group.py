"""Training on several processes and machines, as torchrun starts them: who takes which rows, and what is summed.

Nothing here asks for a setting: torchrun tells each process its rank in the environment, and a process that it did
not start is alone.

References:
    Li et al. 2020, "PyTorch Distributed" (arXiv:2006.15704), for data parallelism.
"""

import atexit
import contextlib
import contextvars
import dataclasses
import datetime
import functools
import itertools
import math
import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader

from gumdrop.functional.devices import sent
from gumdrop.prediction.inputs import Arguments
from gumdrop.training.data import deals_itself, pair_of

T = TypeVar("T")
LONGEST_FAREWELL = datetime.timedelta(seconds=30)
_LONE: contextvars.ContextVar[bool] = contextvars.ContextVar("lone", default=False)


class BatchShard(NamedTuple):
    """The shard of a batch that one process goes through in a step."""

    micro_batches: list[tuple[Arguments, Tensor, int]]
    """Inputs, targets, and how many of the rows count: all, or none of a row that only fills an empty place."""
    num_rows: int
    """Rows of the whole step, over all processes."""


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that work together."""

    rank: int = 0
    """Rank of this one, from 0."""
    world_size: int = 1
    """How many there are."""
    channel: Any = None
    """The `torch.distributed.ProcessGroup` that they talk through; the default one if None."""

    @property
    def is_first(self) -> bool:
        """Whether this is the process of rank 0, which writes files and speaks."""
        return self.rank == 0

    def sum(self, value: Tensor) -> Tensor:
        """Sum a tensor of one shape over all processes; the tensor itself is left as it is."""
        if self.world_size == 1:
            return value
        total = value.detach().clone()
        dist.all_reduce(total, group=self.channel)
        return total

    def maximum(self, value: int) -> int:
        """Find the largest of a number over all processes."""
        return max(self.gather(value))

    def gather(self, value: T) -> list[T]:
        """Give every process what each of them has, in the order of their ranks."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value, group=self.channel)
        return values

    def from_first(self, compute: Callable[[], T]) -> T:
        """Compute something on the first process alone and give it to all; what it raises is raised everywhere."""
        if self.world_size == 1:
            return compute()
        box: list[Any] = [None, None]
        if self.is_first:
            try:
                box[0] = compute()
            except Exception as error:
                box[1] = error
        dist.broadcast_object_list(box, src=0, group=self.channel)
        if box[1] is not None:
            raise box[1]
        value: T = box[0]
        return value

    def batch_shards(
        self, data: tuple[Arguments, Tensor] | DataLoader[Any], batch_size: int, accumulate: int, noise_seed: int
    ) -> Iterator[BatchShard]:
        """Cut the batches of an epoch into the shards of this process.

        The order of the rows comes from torch's random state, which must be the same everywhere; once it is drawn,
        each process gets a random state of its own, so that no two draw the same masks. The batches of a loader whose
        sampler or stream gives each process rows of its own are taken as they come, and one with fewer of them waits
        with a row that does not count; those of any other loader are the same everywhere, and are cut.

        Yields:
            A shard for each step; all processes get the same number of steps and micro-batches.
        """
        if isinstance(data, DataLoader):
            steps = (
                self._own_batches(data, accumulate)
                if self.world_size > 1 and deals_itself(data)
                else (self._cut(*pair_of(batch), accumulate) for batch in data)
            )
        else:
            x, y = data
            order = torch.randperm(len(x))
            # Evenly, as those of many models: a rest of one row is a step of much noise, which no layer can normalise.
            batches = order.tensor_split(math.ceil(len(x) / batch_size))
            steps = (self._cut_rows(x, y, rows, accumulate) for rows in batches)
        for i, shard in enumerate(steps):
            if i == 0 and self.world_size > 1:
                # A generator of the CPU takes 32 bits of its seed, so ranks are mixed into these.
                torch.manual_seed(random.Random(f"{noise_seed} {self.rank}").getrandbits(32))
            yield shard

    def _cut_rows(self, x: Arguments, y: Tensor, rows: Tensor, accumulate: int) -> BatchShard:
        parts = self._mine(rows, accumulate)
        return BatchShard([(x[part], y[sent(part, y.device)], counted) for part, counted in parts], len(rows))

    def _cut(self, x: Arguments, y: Tensor, accumulate: int) -> BatchShard:
        return (
            self._cut_rows(x, y, torch.arange(len(x)), accumulate)
            if self.world_size * accumulate > 1
            else BatchShard([(x, y, len(x))], len(x))
        )

    def _mine(self, rows: Tensor, accumulate: int) -> list[tuple[Tensor, int]]:
        """The parts of this process; an empty one gets a row that does not count, because all must take the step."""
        chunks = rows.tensor_split(self.world_size * accumulate)[self.rank * accumulate :][:accumulate]
        return [(chunk, len(chunk)) if len(chunk) else (rows[:1], 0) for chunk in chunks]

    def _own_batches(self, loader: DataLoader[Any], accumulate: int) -> Iterator[BatchShard]:
        own, filler = ProcessGroup(), None
        for batch in itertools.chain(map(pair_of, loader), itertools.repeat(None)):
            counts = self.gather(0 if batch is None else len(batch[0]))
            if not any(counts):
                return
            if batch is not None:
                shard = own._cut(*batch, accumulate)
                filler = batch[0][:1], batch[1][:1]
                yield BatchShard(shard.micro_batches, sum(counts))
            else:
                if filler is None:
                    raise ValueError(
                        f"process {self.rank} of {self.world_size} got no rows at all from `train`; use fewer "
                        "processes, or data in more pieces"
                    )
                yield BatchShard([(*filler, 0)] * accumulate, sum(counts))


def process_group() -> ProcessGroup:
    """Find the processes that work together, and meet them at the first call.

    Returns:
        The rank of this one and the world size: from torchrun's environment, or from a process group that is already
        there.

    Example:
        >>> process_group().world_size
        1
    """
    if _LONE.get() or not dist.is_available():
        return ProcessGroup()
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
            return ProcessGroup()
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        _meet()
    return ProcessGroup(dist.get_rank(), dist.get_world_size())


@functools.cache
def _long_timeout_channel() -> Any:
    return dist.new_group(backend="gloo", timeout=datetime.timedelta(days=7))


def with_long_timeout(group: ProcessGroup) -> ProcessGroup:
    """Give a process group a timeout of days, for work in which processes do not keep in step."""
    return group if group.world_size == 1 else dataclasses.replace(group, channel=_long_timeout_channel())


def _meet() -> None:
    """Form a process group, also after an earlier one of the same rendezvous store was torn down."""
    store, rank, size = next(iter(dist.rendezvous("env://")))
    # With a static rendezvous, processes that are started again find the addresses of the dead in the same store.
    life = (store.add("gumdrop/arrivals", 1) - 1) // size
    own = dist.PrefixStore(f"gumdrop/life-{life}", store)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=own, rank=rank, world_size=size)
    atexit.register(_leave, own, size)


def _leave(store: dist.Store, size: int) -> None:
    if dist.is_initialized():
        _await_others(store, size)
        dist.destroy_process_group()


def _await_others(store: dist.Store, size: int) -> None:
    """Hold until all processes are done: what the threads of Gloo still let go of must not meet a Python that ends."""
    if getattr(sys, "last_value", None) is not None:
        return  # an error ends this process, and the others would not come
    # A process that ends with a status of its own, or one that writes for long, is not waited for forever.
    with contextlib.suppress(RuntimeError):
        if store.add("gumdrop/done", 1) == size:
            store.set("gumdrop/all-done", "")
        store.wait(["gumdrop/all-done"], LONGEST_FAREWELL)


@contextlib.contextmanager
def single_process() -> Iterator[None]:
    """Context in which this process works by itself, whatever torchrun says."""
    token = _LONE.set(True)
    try:
        yield
    finally:
        _LONE.reset(token)
