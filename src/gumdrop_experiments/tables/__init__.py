"""Tables: the estimators as they come beside what people use on tables, in one run on the same folds.

Nothing is chosen on a test fold, and nothing is set for a set.
"""

from gumdrop_experiments.harness.about import About

ABOUT = About(
    does="The estimators beside Gaussian processes, linear models, boosted trees, networks and rivals, by 5 folds.",
    shows="the estimators as they come beside Gaussian processes, linear models, boosted trees and MC dropout",
    minutes=40,
    quick_minutes=2,
    source="none; scikit-learn's models in the same run",
    data=("uci",),
)
