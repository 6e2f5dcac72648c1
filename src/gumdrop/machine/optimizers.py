"""Optimisers of torch that do not load its compiler, which takes longer than the training of a small network."""

import inspect
from typing import Any, TypeVar

import torch

T = TypeVar("T", bound=torch.optim.Optimizer)


def without_compiler(kind: type[T]) -> type[T]:
    """Take what speaks to the compiler off the methods of an optimiser; its steps stay the same to the last bit.

    Args:
        kind: A class of optimisers that never differentiates through its steps.

    Returns:
        A subclass of the same name.

    Example:
        >>> without_compiler(torch.optim.AdamW)([torch.zeros(2, requires_grad=True)], lr=0.1).defaults["lr"]
        0.1
    """
    plain: dict[str, Any] = {name: inspect.unwrap(getattr(kind, name)) for name in ("add_param_group", "zero_grad")}
    plain["step"] = torch.no_grad()(inspect.unwrap(kind.step))
    return type(kind.__name__, (kind,), plain)
