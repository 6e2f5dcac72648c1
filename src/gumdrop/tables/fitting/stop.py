"""End a training run where it was stopped: its last checkpoint, as that of a shorter run."""

from pathlib import Path

from gumdrop.training.checkpoints import read_checkpoint, write_checkpoint


def shortened(checkpoint: Path, place: Path) -> int:
    """Return how many epochs a stopped run has done, and write its checkpoint as one of a run that ends there.

    Training with it and with this many epochs takes no further step, and does all that comes after the last: it picks
    the best epoch, and fits the noise. With 0 epochs no file is written.
    """
    if not checkpoint.exists():
        return 0
    state = read_checkpoint(checkpoint, checkpoint.read_bytes())
    done = len(state["epochs"])
    if done:
        state["settings"]["epochs"] = done
        write_checkpoint(place, state)
    return done
