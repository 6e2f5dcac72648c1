"""Say written words (CMUdict): the report's network with its broken setting and ours, and one that is worth using.

The report's learned dropout failed: its regulariser was never added to the loss and a new mask was drawn at each time
step. Here the same network stands in both settings beside fixed rates. The second network attends to the letters; drawn
functions rank its ways to say a word, and where they disagree it tends to be wrong.
"""

from typing import Literal, Self

from gumdrop_experiments.harness import About, BaseSettings, RunOptions, flag, known

ABOUT = About(
    shows="from letters to phones (CMUdict): fixed, broken and learned rates, and uncertainty that announces errors",
    minutes=(150, 3),
    source="a replication report on Concrete Dropout in LSTMs; literature on CMUdict",
    data=("g2p",),
)

PUBLISHED = {"fixed 0.1": "0.82", "broken": "0.96"}
"""Hamming distance of the report's network."""

POOLED = ("fixed 0", "fixed 0.1", "fixed 0.2", "fixed 0.3", "fixed 0.4", "broken", "learned")
"""Ways to set the rates of the report's network."""
GIVEN = "learned, given factors"
"""The way that takes the factors of ``--regularisers``."""
SPELLERS = ("learned", "fixed 0.2")
"""Ways to set the rates of the network with attention."""


class Settings(BaseSettings):
    stress: bool = False
    """Keep the digits that mark stress on vowels."""
    words: int | None = flag(None, least=1, quick=6000)
    """Train on this many pronunciations; all if None."""
    pooled_epochs: int = flag(5, least=1, quick=1)
    """Passes over the data for each setting of the report's network."""
    epochs: int = flag(16, least=1, quick=4)
    """Passes over the data for the network with attention."""
    members: int = flag(1, least=1, recorded=False)
    """Networks with attention that learn their rates, from as many seeds; more than one are also heard together, as
    one mixture. More can be added with --resume."""
    num_samples: int = flag(20, least=1, quick=5)
    """Functions of a network drawn to judge ways to say a word."""
    test_words: int = flag(2000, least=1, quick=200)
    """Words to test with, the first of the test part."""
    lengthscale: float | Literal["fan_in", "weak"] = 7.0
    """Of the prior of the network with attention: a number, fan_in or weak."""
    as_reported: bool = False
    """Train the report's network as the report does: batch normalisation in the decoder too, RMSprop at 0.001 all along
    without clipping, and the parameters of the last epoch. The report has 100 epochs."""
    regularisers: tuple[float, float] | None = flag(None, positive=True)
    """Train the report's network in one more way: rates learned under these factors on the squared weights and on the
    entropy of the masks. The report has 1e-4 for the weights, and no number for the entropy."""
    networks: tuple[str, ...] = flag((), recorded=False)
    """Networks to train now: the report's by the way to set its rates ("fixed 0.1", broken, learned, "learned, given
    factors"), the one with attention as "speller learned" and "speller fixed 0.2"; all by default. More can be added
    with --resume."""

    def for_run(self, options: RunOptions) -> Self:
        """Check the names of networks."""
        known("network", self.networks, (*self.readers(), *(f"speller {variant}" for variant in SPELLERS)))
        return super().for_run(options)

    def readers(self) -> tuple[str, ...]:
        """All ways to set the rates of the report's network that these settings have."""
        return POOLED if self.regularisers is None else (*POOLED, GIVEN)
