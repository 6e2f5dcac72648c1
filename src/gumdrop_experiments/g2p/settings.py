"""The flags of `g2p`."""

from dataclasses import dataclass, field, replace
from typing import Literal, Self

from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.settings import BaseSettings, at_least, check_regularisers, known

POOLED = ("fixed 0", "fixed 0.1", "fixed 0.2", "fixed 0.3", "fixed 0.4", "broken", "learned")
"""Ways to set the rates of the report's network."""
GIVEN = "learned, given factors"
"""The way that takes the factors of ``--regularisers``."""
SPELLERS = ("learned", "fixed 0.2")
"""Ways to set the rates of the network with attention."""


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
    members: int = field(default=1, metadata={"recorded": False})
    """Networks with attention that learn their rates, from as many seeds; more than one are also heard together, as
    one mixture. More can be added with --resume."""
    num_samples: int = 20
    """Functions of a network drawn to judge ways to say a word."""
    test_words: int = 2000
    """Words to test with, the first of the test part."""
    lengthscale: float | Literal["fan_in", "weak"] = 7.0
    """Of the prior of the network with attention: a number, fan_in or weak."""
    as_reported: bool = False
    """Train the report's network as the report does: batch normalisation in the decoder too, RMSprop at 0.001 all along
    without clipping, and the parameters of the last epoch. The report has 100 epochs."""
    regularisers: tuple[float, float] | None = None
    """Train the report's network in one more way: rates learned under these factors on the squared weights and on the
    entropy of the masks. The report has 1e-4 for the weights, and no number for the entropy."""
    networks: tuple[str, ...] = field(default=(), metadata={"recorded": False})
    """Networks to train now: the report's by the way to set its rates ("fixed 0.1", broken, learned, "learned, given
    factors"), the one with attention as "speller learned" and "speller fixed 0.2"; all by default. More can be added
    with --resume."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "words", "pooled_epochs", "epochs", "members", "num_samples", "test_words")
        check_regularisers(self.regularisers)

    def for_run(self, options: RunOptions) -> Self:
        """Check the names of networks."""
        known("network", self.networks, (*self.readers(), *(f"speller {variant}" for variant in SPELLERS)))
        return super().for_run(options)

    def readers(self) -> tuple[str, ...]:
        """All ways to set the rates of the report's network that these settings have."""
        return POOLED if self.regularisers is None else (*POOLED, GIVEN)

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
