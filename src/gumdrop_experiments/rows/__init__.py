"""What are learned rates worth, from few rows to many, beside no dropout, fixed rates and a grid of them.

The same networks learn from more and more digits of MNIST and rows of two tables, without dropout, with fixed rates and
with learned ones, each with and without the same prior on the weights: what a prior does is then not put down to
dropout. Held-out rows, which are a part of the rows that there are, say which epoch to keep and which fixed rate to
take. Test rows judge: as they are, and digits also with noise and moved.
"""

from dataclasses import replace
from typing import Self

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="nats against the number of rows: no dropout, fixed rates, the best of a grid, learned rates",
    minutes=(130, 1),
    source="none",
    data=("mnist", "uci", "tables"),
    estimated=True,
)

SETS = {"mnist": "MNIST", "kin8nm": "kin8nm", "bike": "bike sharing"}


class Settings(BaseSettings):
    epochs: int = flag(30, least=1)
    """Passes over the rows."""
    least_steps: int = flag(1200, least=1, quick=100)
    """Steps of each network at least: more passes over few rows."""
    most_steps: int = flag(6000, quick=200)
    """Steps of each network at most: fewer passes over many rows."""
    num_samples: int = flag(50, least=1, quick=10)
    """Draws of a prediction."""
    test_images: int = flag(2000, least=100, quick=500)
    """Digits to test on, drawn from all test images; half of them also with noise, and moved."""
    sets: tuple[str, ...] = flag((), recorded=False, known=("set", "gumdrop_experiments.rows.SETS"))
    """Sets to run now, of mnist, kin8nm and bike; all by default. More can be added with --resume."""
    sizes: tuple[int, ...] = flag((250, 500, 1000, 2000, 5000, 10_000, 60_000), recorded=False)
    """Numbers of rows to run now, held-out ones included; a table with fewer gives all it has. More can be added with
    --resume."""
    seeds: int = flag(5, least=1, quick=1, recorded=False)
    """Samples of rows of each size. More can be added with --resume."""
    protocols: bool = flag(False, recorded=False)
    """Train 1,000 digits by other protocols, too: shorter, slower, or with digits held out beside them."""
    done: bool = flag(False, recorded=False)
    """Compute no more, and write results, figures and page of the parts that are done; with --resume."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        super().__post_init__()
        if self.most_steps < self.least_steps:
            raise ValueError(f"`most_steps` must be at least {self.least_steps}, got {self.most_steps}")
        if not self.sizes or min(self.sizes) < 50:
            raise ValueError(f"`sizes` must be at least 50, got {self.sizes}")

    def quick(self) -> Self:
        """Return settings for a minute."""
        return replace(super().quick(), sizes=(100, 250))
