"""The state of a training that a study writes out by itself, so that a run that was stopped goes on from it."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from gumdrop.machine.files import replacing


def restore(checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Any]:
    """Take over what a training that was stopped has saved."""
    if not checkpoint.exists():
        return []
    saved = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    found: list[Any] = saved["done"]
    return found


def save(checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer, done: list[Any]) -> None:
    """Write the state of a training, whole or not at all."""
    with replacing(checkpoint, "wb") as file:
        torch.save({"done": done, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
