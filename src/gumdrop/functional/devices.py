"""Numbers on their way to a device, which nobody waits for, and on their way back."""

from collections.abc import Sequence

import torch
from torch import Tensor


def read(numbers: Sequence[Tensor]) -> list[float]:
    """Read numbers, and wait for their device once."""
    if all(each.device.type == "cpu" for each in numbers):
        return [each.item() for each in numbers]
    first = numbers[0]
    found: list[float] = torch.stack([each.to(first) for each in numbers]).tolist()
    return found


def fetched(tensors: Sequence[Tensor]) -> Tensor:
    """Bring numbers to the CPU, and wait for their device once.

    Args:
        tensors: Tensors of any shapes and devices, at least one.

    Returns:
        All their numbers in one dimension, on the CPU.
    """
    device = tensors[0].device
    return torch.cat([each.reshape(-1).to(device) for each in tensors]).cpu()


def sent(value: Tensor, device: torch.device | str) -> Tensor:
    """Send a tensor to a device without waiting for it.

    What comes to the CPU is waited for, since it is read there at once, and so is what goes to MPS, which may read it
    after its memory has been given back.

    Args:
        value: Any tensor.
        device: Where it is wanted.

    Returns:
        The tensor there.
    """
    return value.to(device, non_blocking=torch.device(device).type not in ("cpu", "mps"))
