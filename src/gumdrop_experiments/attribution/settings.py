"""The flags of `attribution`."""

from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.settings import BaseSettings, at_least


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `attribution`."""

    num_images: int = 60
    """Digits for the curves; the first twenty are shown."""
    iterations: int = 100
    """Steps of each search for masks."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "num_images", "iterations")

    def quick(self) -> Self:
        """Explain the digits that are shown alone, in fewer steps."""
        return replace(self, num_images=min(self.num_images, 20), iterations=min(self.iterations, 40))
