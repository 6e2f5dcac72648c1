"""The flags of `starts`."""

from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.settings import BaseSettings, at_least


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `starts`."""

    splits: int = 5
    """Splits of the UCI sets, from 1 to 20."""
    seeds: int = 3
    """Samples of MNIST's training images."""
    images: int = 2000
    """Size of such a sample."""
    steps: int = 2000
    """Steps of each network; starts are tried with a fifth of them, too."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "splits", "seeds")
        at_least(self, 10, "images", "steps")

    def quick(self) -> Self:
        """Return settings for fewer splits, images and steps."""
        return replace(
            self,
            splits=min(self.splits, 2),
            seeds=1,
            images=min(self.images, 300),
            steps=min(self.steps, 200),
        )
