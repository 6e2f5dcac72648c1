"""The flags of `rows`."""

import dataclasses
from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.settings import BaseSettings, at_least, known

__all__ = ["Settings"]

SETS = ("mnist", "kin8nm", "bike")


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `rows`."""

    epochs: int = 30
    """Passes over the rows."""
    least_steps: int = 1200
    """Steps of each network at least: more passes over few rows."""
    most_steps: int = 6000
    """Steps of each network at most: fewer passes over many rows."""
    num_samples: int = 50
    """Draws of a prediction."""
    test_images: int = 2000
    """Digits to test on, drawn from all test images; half of them also with noise, and moved."""
    sets: tuple[str, ...] = dataclasses.field(default=(), metadata={"recorded": False})
    """Sets to run now, of mnist, kin8nm and bike; all by default. More can be added with --resume."""
    sizes: tuple[int, ...] = dataclasses.field(
        default=(250, 500, 1000, 2000, 5000, 10_000, 60_000), metadata={"recorded": False}
    )
    """Numbers of rows to run now, held-out ones included; a table with fewer gives all it has. More can be added with
    --resume."""
    seeds: int = dataclasses.field(default=5, metadata={"recorded": False})
    """Samples of rows of each size. More can be added with --resume."""
    done: bool = dataclasses.field(default=False, metadata={"recorded": False})
    """Compute no more, and write results, figures and page of the parts that are done; with --resume."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "epochs", "least_steps", "num_samples", "seeds")
        at_least(self, self.least_steps, "most_steps")
        at_least(self, 100, "test_images")
        if not self.sizes or min(self.sizes) < 50:
            raise ValueError(f"`sizes` must be at least 50, got {self.sizes}")

    def for_run(self, options: RunOptions) -> Self:
        """Check the names of sets."""
        known("set", self.sets, SETS)
        return super().for_run(options)

    def quick(self) -> Self:
        """Return settings for a minute."""
        most = {"least_steps": 100, "most_steps": 200, "num_samples": 10, "test_images": 500, "seeds": 1}
        return replace(
            self, sizes=(100, 250), **{name: min(getattr(self, name), value) for name, value in most.items()}
        )
