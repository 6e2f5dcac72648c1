"""The flags of `transformers`."""

from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.settings import BaseSettings, at_least


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `transformers`."""

    seeds: int = 3
    """Networks trained in each way."""
    review_epochs: int = 8
    """Passes over the reviews."""
    sum_epochs: int = 8
    """Passes over the sums."""
    lines: int = 4000
    """Sums to train with."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "seeds", "review_epochs", "sum_epochs", "lines")

    def quick(self) -> Self:
        """Return settings for one seed, one pass and few sums."""
        return replace(self, seeds=1, review_epochs=1, sum_epochs=1, lines=min(self.lines, 300))
