"""What a loop trains on: inputs and targets at hand, or a loader of them."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from gumdrop.likelihoods import Likelihood
from gumdrop.prediction.inputs import Arguments, Inputs, arguments
from gumdrop.training.rows import RowSource

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
