"""Rows to train on: of several data sets, for several models at once, without copies of what is large."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from gumdrop.functional.devices import sent


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
            places = torch.stack([_drawn_by_weight(weight, self.longest) for weight in self._weights])
        else:
            # One permutation, which each model enters elsewhere: one for each would take as long as half a step of all.
            # Places of 32 bits shuffle the same way in half the memory.
            wide = self.longest * max(1, 2**27 // self.longest)  # so that all rows of the shorter are as likely
            entries = torch.randint(wide, self._lengths.shape, dtype=torch.int32) % self._lengths
            places = (torch.randperm(self.longest, dtype=torch.int32) + entries) % self._lengths
        return self._numbers(places)

    def once(self) -> tuple[Tensor, Tensor]:
        """Give the rows of each in order, the last again where there are no more, and their shares in a mean, or 0."""
        places = torch.arange(self.longest).minimum(self._lengths - 1)
        weights = self._weights or [torch.ones(int(count), dtype=torch.float64) for count in self._lengths]
        shares = nn.utils.rnn.pad_sequence(weights, batch_first=True)
        return self._numbers(places), shares / shares.sum(1, keepdim=True)

    def _numbers(self, places: Tensor) -> Tensor:
        """Give the numbers of rows by their places among those of each, (models, ...)."""
        return self._rows.index_select(0, (places + self._firsts).flatten()).view(places.shape)

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
    places = torch.searchsorted(ends, steps, right=True).clamp(max=len(weight) - 1)
    return places[torch.randperm(count)]
