"""The page of `tables`."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.tables.figures import shown
from gumdrop_experiments.tables.methods import CLASS_ROWS, KERNEL_ROWS, METHODS
from gumdrop_experiments.tables.results import OURS
from gumdrop_experiments.tables.scores import COVERAGES

PEERS = (
    "Other packages have the settings of their documentation. NGBoost (a normal distribution; 2,000 rounds at most, as "
    "in its authors' benchmark), CatBoost (RMSEWithUncertainty with posterior sampling, the mixture of 10 virtual "
    "models; its defaults for classes) and TabM stop early on training rows that are held out: a tenth, a tenth and a "
    "fifth. RealMLP is trained on the quantiles, or on classes. TabM gives a point, and gets Gaussian noise of the "
    "variance that its held-out rows show. Seconds are processor time with one thread.",
    "The quantile forest, boosted quantiles and RealMLP give quantiles and no density: 21 of them, put in order where "
    "they cross. Their coverage is that of these quantiles; CRPS is twice their mean pinball loss, integrated by the "
    "trapezoidal rule, which is 0.5 % too little against a Gaussian; their log likelihood is that of the Gaussian with "
    "the same 5 and 95 % quantiles, no narrower than rounding to the step in which the training targets come. The "
    "forest's RMSE is that of its mean, that of the others of their median.",
)
"""What is to be said of the methods of other packages, wherever they run."""

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
    "finds. Probabilities of peers are kept above 1e-6.",
    *PEERS,
    "'Rates fixed at .1' is the default in all but the learning of rates: five members, held-out noise, as many steps. "
    "The one network holds nothing out, and learns its noise with its weights, as is mostly done; as many steps. The "
    "deep ensemble does so too, without dropout, and stops after 40 passes as published.",
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
    scored = sum(bool(each["best_crps"]) for each in verdicts.values())
    return (
        f"The estimators as they come have the best held-out log likelihood of the networks, or one within a standard "
        f"error of it, on {networks} of {len(verdicts)} sets; of all methods on {everything}. On {scored} of "
        f"{len(covered)} sets of numbers that holds of CRPS, and on {sum(covered)} their 90 % intervals hold 88 to "
        "92 % of the rows."
    )


def _table(name: str, each: Mapping[str, Any]) -> Table:
    kinds = {"accuracy": "accuracy", "brier": "Brier", "ece": "ECE"}
    if not each["classes"]:
        covered = {f"coverage_{level}": f"{level} %" for level in COVERAGES}
        kinds = {"rmse": "RMSE", "crps": "CRPS", **covered, "width": "width of 90 %"}
    columns = ["", "log likelihood", "less ours (SE)", *kinds.values(), "seconds", "MB"]
    rows, means = [], []
    for key, summary in each["methods"].items():
        if "failed" in summary:
            rows.append([METHODS[key].label, f"failed: {summary['failed']}", *[""] * (len(columns) - 2)])
            means.append(-math.inf)
            continue
        gap = f"{summary['gap']:+.3f} ({summary['gap_error']:.3f})" if "gap" in summary else ""
        cells = [f"{summary[kind]:.3f}" for kind in kinds]
        cost = [f"{summary['seconds']:.1f}", megabytes(summary["megabytes"])]
        rows.append([METHODS[key].label, f"{summary['log_likelihood']:.3f}", gap, *cells, *cost])
        means.append(summary["log_likelihood"])
    what = f"{each['classes']} classes" if each["classes"] else "numbers, in units of their standard deviation"
    caption = (
        f"{name}: {each['rows']} rows, {each['columns']} columns, {what}; seconds of one core to train on a fold and "
        "predict, and memory at most beside what was held before; medians over folds"
    )
    ours = [i for i, key in enumerate(each["methods"]) if key == OURS]
    return Table(caption, columns, rows, ours=ours, best=[(int(np.argmax(means)), 1)])


def megabytes(value: float | None) -> str:
    """Write memory for a cell; empty where the system does not tell."""
    return "" if value is None else f"{value:.0f}"
