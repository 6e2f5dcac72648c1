"""Intervals that hold what they promise: on twelve tables, in the quarters of a column, and while rows drift.

Twelve tables, ten splits of each. The model of `fit_table` gives intervals of its own, conformal ones, and conformal
ones by the quarters of one column, the input that goes most with the target on training rows. Beside it stand
cross-conformal intervals (CV+) of MAPIE and normalised split-conformal ones of crepes, both around boosted trees, and
quantiles of CatBoost. Three streams follow: a model is trained on their first rows, and its conformal levels stay, or
follow the rows that come.

References:
    Barber, Candes, Ramdas & Tibshirani 2021, "Predictive Inference with the Jackknife+" (arXiv:1905.02928).
    Gibbs & Candes 2021, "Adaptive Conformal Inference Under Distribution Shift" (arXiv:2106.00170).
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="coverage of plain and conformal intervals: on tables, in groups, and while rows drift",
    minutes=(52, 1),
    source="none; MAPIE, crepes and CatBoost in the same run",
    data=("uci", "tables"),
)


class Settings(BaseSettings):
    sets: tuple[str, ...] = flag((), known=("table", "gumdrop_experiments.guarantee.ways.SETS"))
    """Tables to run; all by default."""
    splits: int = flag(10, least=2, quick=2)
    """Random splits of each table."""
    rows: int = flag(1200, least=100, quick=100)
    """Rows of a table at most, a fifth of which test."""
    epochs: int | None = flag(None, least=1, quick=2)
    """Passes over the training rows; those of the default if None."""
