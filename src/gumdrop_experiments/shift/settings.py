"""The flags of `shift`."""

from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.settings import BaseSettings, at_least


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `shift`."""

    images: int = 10_000
    """Training images; each network holds a fifth of them out."""
    test_images: int = 2000
    """Test images, each at every step of every shift."""
    epochs: int = 40
    """Passes over the training images."""
    num_samples: int = 20
    """Draws of each network."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 50, "images")
        at_least(self, 2, "test_images")
        at_least(self, 1, "epochs", "num_samples")

    def quick(self) -> Self:
        """Return settings for a minute."""
        return replace(self, images=min(self.images, 1000), test_images=min(self.test_images, 200), epochs=5)
