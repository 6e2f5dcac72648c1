"""Optimisers of torch that do not load its compiler, which takes longer than the training of a small network."""

import inspect
from typing import Any, TypeVar

import torch

T = TypeVar("T", bound=torch.optim.Optimizer)


def without_compiler(kind: type[T]) -> type[T]:
    """Take what speaks to the compiler off a class of optimisers; its steps stay the same to the last bit."""
    plain: dict[str, Any] = {name: inspect.unwrap(getattr(kind, name)) for name in ("add_param_group", "zero_grad")}
    plain["step"] = torch.no_grad()(inspect.unwrap(kind.step))
    return type(kind.__name__, (kind,), plain)
