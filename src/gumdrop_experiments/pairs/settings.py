"""The flags of `pairs`."""

from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.settings import BaseSettings, at_least


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `pairs`."""

    images: int = 4
    """Test images of each digit of a pair."""
    iterations: int = 100
    """Steps of each search for masks."""
    classifier_steps: int = 900
    """Batches that the classifier is trained on."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "images", "iterations", "classifier_steps")

    def quick(self) -> Self:
        """Return settings for two images of each digit, in fewer steps."""
        return replace(
            self,
            images=min(self.images, 2),
            iterations=min(self.iterations, 40),
            classifier_steps=min(self.classifier_steps, 200),
        )
