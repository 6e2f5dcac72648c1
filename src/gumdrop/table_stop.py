"""End a training run where it was stopped: its last checkpoint, as that of a shorter run."""

import io
from pathlib import Path

import torch

from gumdrop.atomic import replacing

__all__ = ["shortened"]


def shortened(checkpoint: Path, place: Path) -> int:
    """Write the checkpoint of a stopped run as one of a run that ends there.

    Training with it and with so many epochs takes no further step, and does all that comes after the last: it picks
    the best epoch, and fits the noise.

    Args:
        checkpoint: File that the stopped run left.
        place: File to write.

    Returns:
        How many epochs are done; 0 if nothing was kept, and then no file is written.
    """
    if not checkpoint.exists():
        return 0
    state = torch.load(io.BytesIO(checkpoint.read_bytes()), weights_only=True)
    done = len(state["epochs"])
    if done:
        state["settings"]["epochs"] = done
        with replacing(place, "wb") as file:
            torch.save(state, file)
    return done
