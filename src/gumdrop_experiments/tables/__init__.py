"""Tables: the estimators as they come beside what people use on tables, in one run on the same folds.

Nothing is chosen on a test fold, and nothing is set for a set.
"""

from dataclasses import dataclass
from typing import Self

from gumdrop_experiments.harness.about import About
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.settings import BaseSettings, known

ABOUT = About(
    does="The estimators beside Gaussian processes, linear models, boosted trees, networks and rivals, by 5 folds.",
    shows="the estimators as they come beside Gaussian processes, linear models, boosted trees and MC dropout",
    minutes=40,
    quick_minutes=2,
    source="none; scikit-learn's models in the same run",
    data=("uci",),
)


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `tables`."""

    methods: tuple[str, ...] = ()
    """Methods to run: gumdrop, fixed, mc-dropout, deep-ensemble, process, linear, boosting, quantiles, ngboost,
    catboost, forest, realmlp, tabm; all but the last by default. The last five need `pip install 'gumdrop[rivals]'`."""

    def for_run(self, options: RunOptions) -> Self:
        """Check the names of methods."""
        from gumdrop_experiments.tables.methods import METHODS

        known("method", self.methods, METHODS)
        return self
