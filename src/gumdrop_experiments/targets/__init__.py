"""Several targets of a row: what the correlation of their noise is worth.

Of two blood values that rise together, one tells of the other beyond what the inputs say of both. An estimator learns
this correlation of the noise from rows that its networks have not seen. It is scored by the joint density of all
targets and by the energy score of drawn ones, beside itself without it.

References:
    Gneiting & Raftery 2007, "Strictly Proper Scoring Rules, Prediction, and Estimation" (JASA 102).
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="several targets of a row with and without the correlation of their noise, by density and energy score",
    minutes=(2, 1),
    source="none; the energy score is that of Gneiting & Raftery 2007",
    estimated=True,
)


class Settings(BaseSettings):
    sets: tuple[str, ...] = flag((), known=("set", "gumdrop_experiments.targets.study.SETS"))
    """Sets to run; all by default."""
    splits: int = flag(5, least=1, quick=1)
    """Random splits of a set, a fifth of the rows to test."""
    members: int = flag(5, least=1, quick=2)
    """Networks of each strength."""
    epochs: int | None = flag(None, least=1, quick=5)
    """Passes over the training rows; by default those of the estimator."""
    num_samples: int = flag(200, least=2, quick=50)
    """Draws of all targets, for the energy score."""
