"""UCI regression against a grid search."""

from gumdrop_experiments.harness.about import About

__all__ = ["ABOUT"]

ABOUT = About(
    does="Learned dropout with nothing to tune against a searched rate, on the UCI regression sets and their splits.",
    shows="learned dropout with nothing to tune against a grid search over rate and noise, on UCI regression",
    minutes=60,
    quick_minutes=2,
    source="Gal, Hron & Kendall 2017, table 1; Gal & Ghahramani 2016, its authors' clean grid search of 2018",
    data=("uci",),
)
