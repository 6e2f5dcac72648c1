"""The flags of `gradients`."""

from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.settings import BaseSettings, at_least


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `gradients`."""

    runs: int = 30
    """Searches for masks with each estimator."""
    iterations: int = 100
    """Steps of each search."""
    num_draws: int = 3000
    """Gradients drawn for bias and variance."""
    splits: int = 10
    """Splits of the UCI sets, from 1 to 20."""

    def __post_init__(self) -> None:
        """Check the ranges; a standard deviation is of two at least."""
        at_least(self, 2, "runs", "num_draws")
        at_least(self, 1, "iterations", "splits")

    def quick(self) -> Self:
        """Return settings for fewer and shorter searches, and fewer draws and splits."""
        return replace(
            self,
            runs=min(self.runs, 4),
            iterations=min(self.iterations, 10),
            num_draws=min(self.num_draws, 2000),
            splits=min(self.splits, 5),
        )
