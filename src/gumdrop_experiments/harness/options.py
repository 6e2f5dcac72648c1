"""The flags that all experiments share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Launcher = Literal["processes", "submitit"]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The flags that all experiments share."""

    data: Path | None = None
    """Folder that holds a folder for each data set, as DIR/uci and DIR/mnist."""
    out: Path | None = None
    """Folder for results, figures and the page; by default `runs/NAME`."""
    seed: int = 0
    """Seed of everything random."""
    quick: bool = False
    """Run the same code on a smaller problem, in minutes."""
    device: str = "cpu"
    """Where to train, as torch spells it: cpu, cuda, cuda:1, mps."""
    resume: bool = False
    """Go on with a run that was stopped."""
    jobs: int = 1
    """Parts to compute at a time, each in a process of its own."""
    launcher: Launcher = "processes"
    """Where these processes run: on this machine, or where submitit puts them, which is Slurm if there is `sbatch`."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.jobs < 1:
            raise ValueError(f"`jobs` must be at least 1, got {self.jobs}")
        if self.seed < 0:
            raise ValueError(f"`seed` must be at least 0, got {self.seed}")

    def seeds(self, count: int) -> range:
        """So many seeds, from that of the run on."""
        return range(self.seed, self.seed + count)
