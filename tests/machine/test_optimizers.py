"""Optimisers without the compiler take the steps of torch's own."""

import pytest
import torch

from gumdrop.machine.optimizers import without_compiler


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.LBFGS, torch.optim.SGD])
def test_the_steps_are_the_same(kind: type[torch.optim.Optimizer]) -> None:
    found = []
    for each in (kind, without_compiler(kind)):
        weight = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)
        optimizer = each([weight], lr=0.1)  # type: ignore[call-arg]

        def loss(weight: torch.Tensor = weight, optimizer: torch.optim.Optimizer = optimizer) -> torch.Tensor:
            optimizer.zero_grad()
            value = (weight - 3).pow(4).sum()
            value.backward()
            return value

        for _ in range(3):
            optimizer.step(loss)
        optimizer.load_state_dict(optimizer.state_dict())
        assert isinstance(optimizer, kind)
        found.append(weight.detach())
    assert torch.equal(*found)
