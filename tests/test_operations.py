"""How many operations a learned rate adds to a training step: in small networks they are what it costs.

Their number does not depend on the processor. One more is no fault, but should be a decision: raise the limit then.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import gumdrop as gd


class _Counter(TorchDispatchMode):
    """Counts what reaches the dispatcher, from Python or from autograd."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def operations(function: Callable[[], Any]) -> int:
    function()
    with _Counter() as counter:
        function()
    return counter.count


def chain(layers: int) -> nn.Sequential:
    return nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(20, 20), nn.ReLU())))


def of_a_step(model: nn.Module, loss_of: Callable[[Tensor], Tensor], x: Tensor) -> int:
    def step() -> None:
        model.zero_grad()
        loss_of(model(x)).backward()

    return operations(step)


def for_each_site(count: Callable[[int], int]) -> float:
    """What a further layer adds, without the fixed part of a step."""
    return (count(6) - count(3)) / 3


def test_a_site_and_its_kl_in_a_step() -> None:
    x = torch.randn(8, 20)

    def plain(layers: int) -> int:
        return of_a_step(chain(layers), lambda output: output.square().mean(), x)

    def learned(layers: int) -> int:
        model = gd.learn_dropout(chain(layers))
        return of_a_step(
            model, lambda out: gd.negative_elbo(out.square().mean(), model, num_data=1000, likelihood="categorical"), x
        )

    assert for_each_site(learned) - for_each_site(plain) <= 35


def test_the_kl_of_a_site_alone() -> None:
    def kl(layers: int) -> int:
        model = gd.learn_dropout(chain(layers))
        return operations(lambda: gd.kl_divergence(model, lengthscale="fan_in"))

    assert for_each_site(kl) <= 3  # numbers of its rate and norms are read, and all else happens once for all sites
