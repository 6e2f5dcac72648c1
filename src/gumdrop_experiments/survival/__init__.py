"""Times that are known in part, beside the models that survival analysis uses: who predicts survival best?

Six sets that lifelines and scikit-survival ship are read from the installed packages. Two times five folds test; all
models get the same numbers, with categories in columns of their own, medians for missing cells, standardised by the
training rows. Beside the estimator as it comes stand Cox's proportional hazards with a ridge of .1, a random survival
forest of 200 trees with 15 rows in a leaf, and the Kaplan-Meier estimate of the training rows.

References:
    Cox 1972, "Regression models and life-tables" (JRSS B 34).
    Ishwaran et al. 2008, "Random survival forests" (Annals of Applied Statistics 2).
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="survival times, some not over: the estimator as it comes beside Cox, a survival forest and Kaplan-Meier",
    minutes=(22, 1),
    source="no published figures: the peers run in the same splits",
)


class Settings(BaseSettings):
    splits: int = flag(10, least=2, quick=2, recorded=False)
    """Splits of each set: each five of them are the folds of one order of the rows."""
    sets: tuple[str, ...] = flag((), known=("set", "gumdrop_experiments.survival.study.SETS"))
    """Sets to run on; all of them by default."""
