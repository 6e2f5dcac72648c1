"""Is a film review good or bad (SST-2): learned dropout in an LSTM against fixed rates.

The one published attempt at learned dropout here drew a new mask for every time step and left the regulariser out of
its loss; its own run was on three classes by mistake. Here one mask serves a whole sentence, in front of ``W_ih``, and
word types are dropped by a rate of their own.
"""

from dataclasses import replace
from typing import Self

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="an LSTM on film reviews (SST-2): learned rates, of word types too, against a grid of fixed ones",
    minutes=(116, 1),
    source="Socher et al. 2013; Gal & Ghahramani 2016 (arXiv:1512.05287)",
    data=("sst",),
)


class Settings(BaseSettings):
    seeds: int = flag(5, least=1, quick=1)
    """Networks trained in each way; with phrases 3 at most."""
    epochs: int = flag(10, least=1, quick=4)
    """Passes over the sentences."""
    phrase_epochs: int = flag(2, least=0, quick=0)
    """Passes over sentences and phrases together, eleven times as many; 0 leaves that part out."""
    hidden: int = flag(256, least=1, quick=64)
    """Units of the LSTM."""
    lr: float | None = flag(None, positive=True)
    """Largest learning rate; 0.001 by default, 0.005 with --quick, whose few steps would go nowhere."""
    ways: tuple[str, ...] = ()
    """Ways to set the rates, as the page calls them: learned, "fixed 0.5" and others; all by default."""
    regularisers: tuple[float, float] | None = flag(None, positive=True)
    """Train one more way to learn rates, with these factors on the squared weights and on the entropy of the masks:
    1e-6 2e-5 in the report."""

    def quick(self) -> Self:
        """Return settings for one small LSTM of each kind and four epochs of sentences alone."""
        return replace(super().quick(), lr=self.lr or 0.005)
