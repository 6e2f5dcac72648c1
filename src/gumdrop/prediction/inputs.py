"""What a model is called with: arguments with a row for each example, arguments that all share, and batches of both."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from gumdrop.functional.devices import sent

Result = TypeVar("Result")
Inputs = Tensor | Sequence[Any] | Mapping[str, Any]
"""Arguments of a call: one tensor, or several as a tuple or by their names."""
Batches = Iterable[Any]
"""A DataLoader, or any iterable of batches, see `inputs_of`."""

UNORDERED = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)
"""Samplers that give rows in an order of their own, or not all of them."""


@dataclass(frozen=True)
class Arguments:
    """Arguments of a call of a model, each by its place (an integer) or its name."""

    rows: dict[int | str, Any]
    """Those with a row for each example, in dimension 0."""
    shared: dict[int | str, Any]
    """Those that all examples share."""

    def __len__(self) -> int:
        """Count the rows."""
        return len(next(iter(self.rows.values())))

    def __getitem__(self, rows: slice | Tensor) -> "Arguments":
        """Pick rows, by a slice or by their numbers."""

        def picked(value: Any) -> Any:
            return value[sent(rows, value.device) if isinstance(rows, Tensor) else rows]

        return Arguments({key: picked(value) for key, value in self.rows.items()}, self.shared)

    def to(self, device: torch.device) -> "Arguments":
        """Move all tensors."""
        shared = {
            key: sent(value, device) if isinstance(value, Tensor) else value for key, value in self.shared.items()
        }
        return Arguments({key: sent(value, device) for key, value in self.rows.items()}, shared)

    def call(self, model: Callable[..., Any]) -> Any:
        """Call a model."""
        every = self.rows | self.shared
        positions = sorted(key for key in every if isinstance(key, int))
        return model(*(every[i] for i in positions), **{key: every[key] for key in every if isinstance(key, str)})

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors with rows."""
        return list(self.rows.values())

    @property
    def alone(self) -> Tensor | None:
        """The tensor, where it is the only argument; else None."""
        return self.rows[0] if self.rows.keys() == {0} and not self.shared else None


def arguments(
    x: Any,
    shared: Collection[int | str] = (),
    *,
    name: str = "x",
    way_out: str = "name what has no rows, as the edges of a graph, in `shared`",
) -> Arguments:
    """Sort the arguments of a call into those with rows and those without."""
    if not isinstance(x, Tensor | tuple | list | Mapping):
        raise TypeError(
            f"`{name}` must be a tensor, a tuple or mapping of tensors, or a DataLoader or another iterable of batches "
            f"of these, got {type(x).__name__}"
        )
    given: dict[int | str, Any] = (
        dict(x) if isinstance(x, Mapping) else dict(enumerate([x] if isinstance(x, Tensor) else x))
    )
    if isinstance(shared, str) or not given.keys() >= set(shared):
        raise ValueError(
            f"`shared` must be a collection of places or names of arguments in `{name}`, {list(given)}, got {shared!r}"
        )
    flags = (type(None), bool, int, float, str)  # which can have no rows
    without = {key for key, value in given.items() if key in shared or isinstance(value, flags)}
    rows = {key: value for key, value in given.items() if key not in without}
    for key, value in rows.items():
        if not isinstance(value, Tensor) or value.ndim == 0:
            what = "a tensor without dimensions" if isinstance(value, Tensor) else type(value).__name__
            raise TypeError(f"`{name}` must hold tensors with rows in dimension 0, got {what} at {key!r}; {way_out}")
    lengths = [value.shape[0] for value in rows.values()]  # not len, which would fix the rows of an exported model
    if not lengths or lengths[0] == 0 or any(length != lengths[0] for length in lengths):
        counts = sorted(set(lengths))
        raise ValueError(
            f"`{name}` must hold tensors with the same number of rows, at least 1, got {counts}; {way_out}"
        )
    return Arguments(rows, {key: value for key, value in given.items() if key in without})


def tensor_of(
    result: Any,
    output: Callable[[Any], Tensor] | None,
    way_out: str = "pass `output`, a function that takes the tensor out of it, as in output=lambda result: "
    "result.logits",
) -> Tensor:
    """Take the output tensor out of what a model returned."""
    result = result if output is None else output(result)
    if not isinstance(result, Tensor):
        what = "`output`" if output is not None else "the model"
        raise TypeError(f"{what} returned a {type(result).__name__}; {way_out}")
    return result


def inputs_of(batch: Any) -> Any:
    """Take the inputs out of a batch."""
    if not isinstance(batch, tuple | list):
        return batch
    if len(batch) not in (1, 2):
        raise TypeError(
            "a batch must be a pair (inputs, targets), a tuple (inputs,), a tensor or a mapping, got "
            f"{len(batch)} parts; several inputs are a tuple or mapping inside it, as in ((ids, mask), target)"
        )
    return batch[0]


def by_batches(
    predict: Callable[[Arguments, int | None], Result],
    joined: Callable[[list[Result]], Result],
    model: nn.Module,
    x: Inputs | Batches,
    shared: Collection[int | str],
    seed: int | None,
) -> Result:
    """Predict the rows of one call, or batch by batch with the same drawn functions in each."""
    if isinstance(x, Tensor | tuple | list | Mapping) or not isinstance(x, Iterable):
        return predict(arguments(x, shared), seed)
    if isinstance(x, DataLoader) and (isinstance(x.sampler, UNORDERED) or x.drop_last):
        raise ValueError(
            "`x` must be a loader that gives each row once and in order, got one with `shuffle=True`, a random sampler "
            "or `drop_last=True`; build another for prediction"
        )
    seed = torch.Generator().seed() if seed is None else seed  # the same masks, whatever the rows
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    parts: list[Result] = []
    with torch.random.fork_rng(devices=[]):  # a loader takes a number of torch's random state
        for batch in x:  # not in a comprehension, whose frame would count in the place that a warning names
            parts.append(predict(arguments(inputs_of(batch), shared).to(device), seed))
    if not parts:
        raise ValueError("`x` must hold at least one batch, got none; an iterator can be gone through only once")
    return joined(parts)
