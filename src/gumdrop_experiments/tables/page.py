"""The page of `tables`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.tables.figures import shown
from gumdrop_experiments.tables.methods import CLASS_ROWS, KERNEL_ROWS, METHODS
from gumdrop_experiments.tables.results import OURS

__all__ = ["page"]

CAPTIONS = {
    "tables-log-likelihood": "Held-out log likelihood of each method less that of the estimator as it comes, nats per "
    "row: mean and standard error over folds. Left of the line is worse; numbers at the edge are too far to show.",
    "tables-coverage": "Share of held-out rows inside their 90 % intervals. The band is the 88 to 92 % that was "
    "wanted.",
    "tables-calibration": "Expected calibration error of the predicted class: the mean gap between how sure a method "
    "is and how often it is right. Less is better; a few hundred rows make some hundredths of it by chance.",
}
NOTES = (
    "Five folds, the same for all methods; scores are over all rows, each predicted once. 'Less ours' is the mean over "
    "folds of the difference in log likelihood, with its standard error; folds share training rows, so it is somewhat "
    "too small. Nothing was chosen on these folds. The default for numbers was chosen on training parts of three of "
    "the UCI sets (gumdrop reproduce tuning), which hold many of the same rows.",
    "Gaussian processes have an isotropic RBF kernel with a constant factor, and white noise for numbers. Kernels "
    f"are learned from {KERNEL_ROWS} rows at most, drawn at random, and then they know all rows; for classes they "
    f"know {CLASS_ROWS} rows at most, which is fewer than there are on digits alone. Boosted trees have "
    "scikit-learn's settings, and Gaussian noise of the variance that 5-fold validation within the training part "
    "finds. Boosted quantiles are scored as the Gaussian that has their 5 and 95 % quantiles as its own; where these "
    "cross or meet, its standard deviation is 0.001. Probabilities of peers are kept above 1e-6.",
    "'Rates fixed at .1' is the default in all but the learning of rates: five members, held-out noise, as many steps. "
    "The one network holds nothing out, and learns its noise with its weights, as is mostly done; as many steps.",
)


def page(results: Mapping[str, Any]) -> Page:
    """Say on how many sets the estimators as they come are best."""
    sets, verdicts = results["sets"], results["verdicts"]
    figures = [Figure(name, CAPTIONS[name]) for name in shown(sets)]
    return Page("Tables", _lead(verdicts), [*figures, *(_table(name, each) for name, each in sets.items())], NOTES)


def _lead(verdicts: Mapping[str, Any]) -> str:
    if not verdicts:
        return "Five folds of each set."
    networks, everything = (sum(each[what] for each in verdicts.values()) for what in ("best_network", "best_of_all"))
    covered = [each["coverage"] for each in verdicts.values() if each["coverage"] is not None]
    return (
        f"The estimators as they come have the best held-out log likelihood of the networks, or one within a standard "
        f"error of it, on {networks} of {len(verdicts)} sets; of all methods on {everything}. Their 90 % intervals "
        f"hold 88 to 92 % of the rows on {sum(covered)} of {len(covered)} sets of numbers."
    )


def _table(name: str, each: Mapping[str, Any]) -> Table:
    kinds = {"accuracy": "accuracy", "brier": "Brier", "ece": "ECE"}
    if not each["classes"]:
        kinds = {"rmse": "RMSE", "coverage": "90 %", "width": "width"}
    columns = ["", "log likelihood", "less ours (SE)", *kinds.values(), "seconds"]
    rows = []
    for key, summary in each["methods"].items():
        gap = f"{summary['gap']:+.3f} ({summary['gap_error']:.3f})" if "gap" in summary else ""
        cells = [f"{summary[kind]:.3f}" for kind in kinds]
        rows.append([METHODS[key].label, f"{summary['log_likelihood']:.3f}", gap, *cells, f"{summary['seconds']:.1f}"])
    means = [summary["log_likelihood"] for summary in each["methods"].values()]
    what = f"{each['classes']} classes" if each["classes"] else "numbers, in units of their standard deviation"
    caption = f"{name}: {each['rows']} rows, {each['columns']} columns, {what}; seconds of one core to train on a fold"
    ours = [i for i, key in enumerate(each["methods"]) if key == OURS]
    return Table(caption, columns, rows, ours=ours, best=[(int(np.argmax(means)), 1)])
