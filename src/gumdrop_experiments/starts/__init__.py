"""Do learned rates depend on where they begin, and on the temperature of the relaxed masks they are learned with.

The same networks and data, from starts of .01 to .5, with many steps and with a fifth of them: rates that depend on
their start after few steps alone are a matter of patience, and those that do after many are not. Then temperatures from
.02 to 5, and one that is learned with the weights: what training believes, under relaxed masks, against what the hard
masks of a prediction make of it.
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="whether learned rates depend on their start, and what the temperature of relaxed masks costs",
    minutes=(35, 1),
    source="none; Gal, Hron & Kendall 2017 (arXiv:1705.07832) take a temperature of .1",
    data=("mnist", "uci"),
)


class Settings(BaseSettings):
    splits: int = flag(5, least=1, quick=2)
    """Splits of the UCI sets, from 1 to 20."""
    seeds: int = flag(3, least=1, quick=1)
    """Samples of MNIST's training images."""
    images: int = flag(2000, least=10, quick=300)
    """Size of such a sample."""
    steps: int = flag(2000, least=10, quick=200)
    """Steps of each network; starts are tried with a fifth of them, too."""
