"""Optimisers of torch that do not load its compiler, which takes longer than the training of a small network."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T", bound=torch.optim.Optimizer)


def without_compiler(kind: type[T]) -> type[T]:
    """Take what speaks to the compiler off a class of optimisers; its steps stay the same to the last bit."""
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    plain: dict[str, object] = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    plain["step"] = torch.no_grad()(inspect.unwrap(kind.step))
    return type(kind.__name__, (kind,), plain)


def minimise(loss: Callable[[], Tensor], parameters: Sequence[Tensor], **options: Any) -> None:
    """Minimise a smooth loss, in place, by L-BFGS; parameters have a gradient as long as it takes."""
    for parameter in parameters:
        parameter.requires_grad_()
    optimizer = without_compiler(torch.optim.LBFGS)(parameters, line_search_fn="strong_wolfe", **options)

    def evaluated() -> Tensor:
        value = loss()
        for parameter, gradient in zip(parameters, torch.autograd.grad(value, parameters), strict=True):
            parameter.grad = gradient
        return value

    with torch.enable_grad():
        optimizer.step(evaluated)
    for parameter in parameters:
        parameter.requires_grad_(False)
