"""Optimisers without the compiler take the steps of torch's own, and leave the compiler where it is."""

import subprocess
import sys
from pathlib import Path

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


def test_training_leaves_the_compiler_alone(tmp_path: Path) -> None:
    code = """
import sys, torch
from functools import partial
from gumdrop.ensembles import EnsembleSettings, Rows, fit_ensembles
from gumdrop.likelihoods import Gaussian
from gumdrop.networks import mlp
x = torch.randn(20, 2)
make = partial(mlp, 2, 1, hidden=[4], homoscedastic_noise=True)
fit_ensembles([make], [Rows(x, x[:, :1])], EnsembleSettings(num_members=2, epochs=2), Gaussian(), checkpoint="fit.pt")
print({"torch._dynamo", "sympy"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "set()"
