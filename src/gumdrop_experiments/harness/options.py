"""The flags that all experiments share."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gumdrop_experiments.harness.launch import Launcher

if TYPE_CHECKING:
    pass

__all__ = ["RunOptions"]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The flags that all experiments share.

    Args:
        data: Folder that holds a folder for each data set, as DIR/uci and DIR/mnist.
        out: Folder for results, figures and the page; by default `runs/NAME`.
        seed: Seed of everything random.
        quick: Run the same code on a smaller problem, in minutes.
        device: Where to train, as torch spells it: cpu, cuda, cuda:1, mps.
        resume: Go on with a run that was stopped.
        jobs: Parts to compute at a time, each in a process of its own.
        launcher: Where these processes run: on this machine, or where submitit puts them, which is Slurm if there is
            `sbatch`.
    """

    data: Path | None = None
    out: Path | None = None
    seed: int = 0
    quick: bool = False
    device: str = "cpu"
    resume: bool = False
    jobs: int = 1
    launcher: Launcher = "processes"

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.jobs < 1:
            raise ValueError(f"`jobs` must be at least 1, got {self.jobs}")
        if self.seed < 0:
            raise ValueError(f"`seed` must be at least 0, got {self.seed}")
