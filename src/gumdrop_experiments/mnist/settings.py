"""The flags of `mnist`."""

from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.harness.settings import BaseSettings, at_least


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `mnist`."""

    sizes: tuple[int, ...] = ()
    """Numbers of training images; by default 1,000, 4,000, 15,000 and 60,000."""
    seeds: int = 3
    """Networks of each kind and size."""
    epochs: int | None = None
    """Passes over 60,000 images; more over fewer images. 12 by default, 1 with --quick."""
    num_samples: int = 30
    """Draws of a prediction."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "seeds", "epochs", "num_samples")

    def quick(self) -> Self:
        """Return settings for one seed."""
        return replace(self, seeds=1)

    def recorded(self) -> Plain:
        """Return what identifies a run; no sizes are None, as the study chooses them."""
        return super().recorded() | {"sizes": self.sizes or None}
