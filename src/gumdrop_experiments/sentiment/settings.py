"""The flags of `sentiment`."""

from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.settings import BaseSettings, at_least

__all__ = ["Settings"]


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `sentiment`."""

    seeds: int = 5
    """Networks trained in each way; with phrases 3 at most."""
    epochs: int = 10
    """Passes over the sentences."""
    phrase_epochs: int = 2
    """Passes over sentences and phrases together, eleven times as many; 0 leaves that part out."""
    hidden: int = 256
    """Units of the LSTM."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "seeds", "epochs", "hidden")
        at_least(self, 0, "phrase_epochs")

    def quick(self) -> Self:
        """Return settings for a small LSTM and two epochs of sentences alone."""
        seeds, epochs, hidden = min(self.seeds, 2), min(self.epochs, 2), min(self.hidden, 64)
        return replace(self, seeds=seeds, epochs=epochs, phrase_epochs=0, hidden=hidden)
