"""Numbers on their way to a device, which nobody waits for, and on their way back."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def read(numbers: Sequence[Tensor]) -> list[float]:
    """Read numbers, and wait for their device once."""
    if all(each.device.type == "cpu" for each in numbers):
        return [each.item() for each in numbers]
    first = numbers[0]
    values: list[float] = torch.stack([each.to(first) for each in numbers]).tolist()
    return values


def fetched(tensors: Sequence[Tensor]) -> Tensor:
    """Bring the numbers of one or more tensors to the CPU, in one dimension, and wait for their device once."""
    device = tensors[0].device
    return torch.cat([each.reshape(-1).to(device) for each in tensors]).cpu()


def device_of(module: nn.Module) -> torch.device:
    """Find where the parameters of a module are."""
    return next(module.parameters()).device


def sent(value: Tensor, device: torch.device | str) -> Tensor:
    """Send a tensor to a device without waiting for it, but wait where it is read at once, or MPS may read it late."""
    return value.to(device, non_blocking=torch.device(device).type not in ("cpu", "mps"))
