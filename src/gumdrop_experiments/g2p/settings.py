"""The flags of `g2p`."""

from dataclasses import dataclass, replace
from typing import Literal, Self

from gumdrop_experiments.harness.settings import BaseSettings, at_least, check_regularisers

__all__ = ["Settings"]


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `g2p`."""

    stress: bool = False
    """Keep the digits that mark stress on vowels."""
    words: int | None = None
    """Train on this many pronunciations; all if None."""
    pooled_epochs: int = 5
    """Passes over the data for each setting of the report's network."""
    epochs: int = 16
    """Passes over the data for the network with attention."""
    num_samples: int = 20
    """Functions drawn to judge ways to say a word."""
    test_words: int = 2000
    """Words to test with, the first of the test part."""
    lengthscale: float | Literal["fan_in", "weak"] = 7.0
    """Of the prior of the network with attention: a number, fan_in or weak."""

    regularisers: tuple[float, float] | None = None
    """Train the report's network in one more way: rates learned under these factors on the squared weights and on the
    entropy of the masks. The report has 1e-4 for the weights, and no number for the entropy."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "words", "pooled_epochs", "epochs", "num_samples", "test_words")
        check_regularisers(self.regularisers)

    def quick(self) -> Self:
        """Return settings for a twentieth of the words and a few epochs."""
        return replace(
            self,
            words=min(self.words or 6000, 6000),
            pooled_epochs=min(self.pooled_epochs, 1),
            epochs=min(self.epochs, 4),
            num_samples=min(self.num_samples, 5),
            test_words=min(self.test_words, 200),
        )
