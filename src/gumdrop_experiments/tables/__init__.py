"""Tables: the estimators as they come beside what people use on tables, in one run on the same folds.

Nothing is chosen on a test fold, and nothing is set for a set.
"""

from gumdrop_experiments.harness import About, BaseSettings, flag

ABOUT = About(
    shows="the estimators as they come beside Gaussian processes, linear models, boosted trees and MC dropout",
    minutes=(103, 2),
    source="none; scikit-learn's models in the same run",
    data=("uci",),
)


class Settings(BaseSettings):
    methods: tuple[str, ...] = flag((), known=("method", "gumdrop_experiments.tables.methods.METHODS"))
    """Methods to run: gumdrop, fixed, mc-dropout, deep-ensemble, process, linear, boosting, quantiles, ngboost,
    catboost, forest, realmlp, tabm; all but the last by default. The last five need `pip install 'gumdrop[rivals]'`."""
    unseen: bool = flag(False)
    """Sets that no default was chosen with: those of statsmodels with one target and 200 rows or more."""
