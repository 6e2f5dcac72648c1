"""What training takes: inputs and targets at hand, a loader of them, or rows of several data sets without copies."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from gumdrop.functional.devices import sent
from gumdrop.likelihoods import Likelihood
from gumdrop.prediction.inputs import Arguments, Inputs, arguments


class RowSource(ABC):
    """Inputs that are made when they are asked for, in place of a tensor that holds all of them.

    Training asks for the rows of a batch, by an integer tensor of any shape, and gets a tensor of that shape and the
    columns. So a table may be of any type and on disk, and needs no copy that is standardised.
    """

    device = torch.device("cpu")
    """Where the rows are made."""
    shape: tuple[int, ...]
    """Number of rows, and shape of one."""

    def __len__(self) -> int:
        """Count the rows."""
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, rows: Tensor) -> Tensor:
        """Make some rows."""


class StackedRows:
    """Rows of several data sets, by their numbers and with weights; those that are the same tensors are held once."""

    def __init__(
        self,
        data: Sequence[tuple[Tensor | RowSource, Tensor]],
        rows: Sequence[Tensor],
        weights: Sequence[Tensor] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self._device = device
        distinct = {(id(x), id(y)): (x, y) for x, y in data}
        x, y = zip(*distinct.values(), strict=True)
        whole = len(distinct) == 1
        self._x = x[0] if whole else torch.cat([all_of(part) for part in x])
        self._y = y[0] if whole else torch.cat(y)
        ends = torch.tensor([len(part) for part in x]).cumsum(0)
        starts = dict(zip(distinct, [0, *ends.tolist()], strict=False))
        self._rows = torch.cat([r.cpu() + starts[id(x), id(y)] for r, (x, y) in zip(rows, data, strict=True)])
        self._lengths = torch.tensor([[len(each)] for each in rows], dtype=torch.int32)
        self._firsts = self._lengths.cumsum(0, dtype=torch.int32) - self._lengths
        self.longest = int(self._lengths.max())
        if weights is None:
            self._weights, sizes = None, [float(len(each)) for each in rows]
        else:
            self._weights = [weight.cpu()[each].double() for weight, each in zip(weights, rows, strict=True)]
            sizes = [weight.sum().item() for weight in self._weights]
        self.sizes = torch.tensor(sizes, device=device)

    def shuffled(self) -> Tensor:
        """Shuffle the rows of each; those of the shorter come again, all as often to within one, (models, longest)."""
        if self._weights is not None:
            positions = torch.stack([_drawn_by_weight(weight, self.longest) for weight in self._weights])
        else:
            # One permutation, which each model enters elsewhere: one for each would take as long as half a step of all.
            # Places of 32 bits shuffle the same way in half the memory.
            wide = self.longest * max(1, 2**27 // self.longest)  # so that all rows of the shorter are as likely
            entries = torch.randint(wide, self._lengths.shape, dtype=torch.int32) % self._lengths
            positions = (torch.randperm(self.longest, dtype=torch.int32) + entries) % self._lengths
        return self._numbers(positions)

    def once(self) -> tuple[Tensor, Tensor]:
        """Give the rows of each in order, the last again where there are no more, and their shares in a mean, or 0."""
        positions = torch.arange(self.longest).minimum(self._lengths - 1)
        weights = self._weights or [torch.ones(int(count), dtype=torch.float64) for count in self._lengths]
        shares = nn.utils.rnn.pad_sequence(weights, batch_first=True)
        return self._numbers(positions), shares / shares.sum(1, keepdim=True)

    def _numbers(self, positions: Tensor) -> Tensor:
        """Give the numbers of rows by their places among those of each, (models, ...)."""
        return self._rows.index_select(0, (positions + self._firsts).flatten()).view(positions.shape)

    def num_batches(self, batch_size: int) -> int:
        """Count the batches of a pass, of this size at most."""
        return math.ceil(self.longest / batch_size)

    def batches(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Go through one pass in batches of one size: inputs and targets, (M, B, ...)."""
        # A last batch of a few rows would be a step as long as the others, of more noise.
        for rows in self.shuffled().tensor_split(self.num_batches(batch_size), dim=1):
            yield self[rows]

    def __getitem__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some rows."""
        x, y = (sent(_taken(part, sent(rows, part.device)), self._device) for part in (self._x, self._y))
        return x, y


def all_of(x: Tensor | RowSource) -> Tensor:
    """Make all rows, where they are no tensor yet."""
    return x if isinstance(x, Tensor) else x[torch.arange(len(x))]


def _taken(part: Tensor | RowSource, rows: Tensor) -> Tensor:
    """Take rows, (M, B); of a tensor whole ones, which is three times as quick as an index."""
    if not isinstance(part, Tensor):
        return part[rows]
    return part.index_select(0, rows.flatten()).unflatten(0, rows.shape)


def _drawn_by_weight(weight: Tensor, count: int) -> Tensor:
    """Draw places in proportion to their weights, in random order; each as often as is expected, to within one."""
    ends = weight.cumsum(0)
    steps = (torch.arange(count) + torch.rand(())) * (ends[-1] / count)
    positions = torch.searchsorted(ends, steps, right=True).clamp(max=len(weight) - 1)
    return positions[torch.randperm(count)]


Pair = tuple[Inputs | RowSource, Tensor]
Data = Pair | DataLoader[Any]
Prepared = tuple[Arguments, Tensor] | DataLoader[Any]


def arguments_of(x: Any, name: str = "train") -> Arguments:
    """Give inputs the form in which rows are picked from them."""
    if not isinstance(x, tuple | list | Mapping):
        return Arguments({0: x}, {})
    return arguments(x, name=name, way_out="let the model itself hold what has no rows")


def pair_of(batch: Any, name: str = "train") -> tuple[Arguments, Tensor]:
    """Take a batch of a loader apart."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        what = f"{len(batch)} parts" if isinstance(batch, tuple | list) else type(batch).__name__
        raise TypeError(
            f"a batch of `{name}` must be a pair (inputs, targets), got {what}; a `collate_fn` of the loader can make "
            "one, as in ({'ids': ids, 'mask': mask}, labels)"
        )
    return arguments_of(batch[0], name), batch[1]


def prepared(data: Data) -> Prepared:
    """Give inputs at hand the form in which rows are picked from them; a loader stays what it is."""
    return data if isinstance(data, DataLoader) else (arguments_of(data[0]), data[1])


def batches_of(data: Prepared) -> Iterator[tuple[Arguments, Tensor]]:
    """Go through data once."""
    if isinstance(data, DataLoader):
        yield from (pair_of(batch, "validation") for batch in data)
    else:
        yield data


def check_data(data: Data, name: str, likelihood: Likelihood) -> int:
    """Check inputs and targets, and count the rows; those of a loader are taken on trust."""
    if isinstance(data, DataLoader):
        return len(data.dataset)  # type: ignore[arg-type]
    kinds = Tensor | RowSource | tuple | list | Mapping
    if not (isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], kinds) and isinstance(data[1], Tensor)):
        raise TypeError(
            f"`{name}` must be a tuple (inputs, targets), a tensor or a tuple or mapping of tensors and a tensor, or a "
            f"DataLoader of such pairs, got {type(data).__name__}"
        )
    x, y = arguments_of(data[0], name), data[1]
    if len(x) != len(y) or len(x) == 0:
        raise ValueError(f"`{name}` must hold as many inputs as targets, at least 1, got {len(x)} and {len(y)}")
    for part, what in (*((value, "inputs") for value in x.tensors), (y, "targets")):
        if not isinstance(part, Tensor) or not part.is_floating_point():
            continue
        ends, is_open = torch.stack(part.aminmax()), what == "targets" and likelihood.has_open_targets
        if ends.isnan().any() or not (is_open or ends.isfinite().all()):  # without a copy of the data
            bad = int((~part.isfinite()).sum())
            raise ValueError(f"the {what} in `{name}` hold {bad} values that are NaN or infinite; remove or fill them")
    likelihood.check(y, name)
    return len(x)


def tensors_of(data: Data | None) -> list[Tensor]:
    """List the tensors that a checkpoint is bound to; those of a loader are taken on trust."""
    if data is None or isinstance(data, DataLoader):
        return []
    rows = arguments_of(data[0]).rows
    return [*(rows[key] for key in sorted(rows, key=str)), data[1]]


def set_epoch(data: Data | Prepared, epoch: int) -> None:
    """Tell a sampler or a stream, which has an order of its own for each epoch, which one this is."""
    for part in (data.sampler, data.dataset) if isinstance(data, DataLoader) else ():
        if hasattr(part, "set_epoch"):
            part.set_epoch(epoch)


def deals_itself(data: Any) -> bool:
    """Tell whether data are a loader that gives each process rows of its own."""
    return isinstance(data, DataLoader) and (
        isinstance(data.dataset, IterableDataset) or isinstance(data.sampler, DistributedSampler)
    )
