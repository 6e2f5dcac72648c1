"""The flags of `sentiment`."""

from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.settings import BaseSettings, at_least, check_regularisers

QUICK_LR = 0.005


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
    lr: float | None = None
    """Largest learning rate; 0.001 by default, 0.005 with --quick, whose few steps would go nowhere."""
    ways: tuple[str, ...] = ()
    """Ways to set the rates, as the page calls them: learned, "fixed 0.5" and others; all by default."""
    regularisers: tuple[float, float] | None = None
    """Train one more way to learn rates, with these factors on the squared weights and on the entropy of the masks:
    1e-6 2e-5 in the report."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "seeds", "epochs", "hidden")
        at_least(self, 0, "phrase_epochs")
        check_regularisers(self.regularisers)
        if self.lr is not None and not self.lr > 0:
            raise ValueError(f"`lr` must be positive, got {self.lr}")

    def quick(self) -> Self:
        """Return settings for one small LSTM of each kind and four epochs of sentences alone."""
        epochs, hidden, lr = min(self.epochs, 4), min(self.hidden, 64), self.lr or QUICK_LR
        return replace(self, seeds=1, epochs=epochs, phrase_epochs=0, hidden=hidden, lr=lr)
