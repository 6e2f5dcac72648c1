"""The flags of `co2`."""

from dataclasses import dataclass

from gumdrop_experiments.harness.settings import BaseSettings, at_least

__all__ = ["Settings"]


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `co2`."""

    epochs: int | None = None
    """Passes over the 272 months of training; 250 by default, 60 with --quick."""
    num_samples: int | None = None
    """Functions that are drawn from each network; 10,000 by default, 300 with --quick."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "epochs", "num_samples")
