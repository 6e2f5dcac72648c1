"""The page of `rivals`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.page import PEERS, megabytes
from gumdrop_experiments.tables.results import OURS
from gumdrop_experiments.tables.scores import COVERAGES

CAPTION = (
    "Test RMSE, and negative log likelihood of the Gaussian with the predicted mean and variance: mean and standard "
    "error over seeds, less is better. Below the line: published means of five seeds. Numbers at the edge are too far "
    "to show."
)
NOTES = (
    "One split, train_test_split(test_size=0.2, random_state=0); inputs and target standardised by its training part. "
    "The seeds are those of the models, so a standard error says nothing of other splits. Nothing was chosen on the "
    "test part. Columns that are no inputs of the rentals: casual, registered, instant, dteday.",
    "Published: the results in scikit-learn-contrib/bde (commit 4bcfcac1); their seconds are wall-clock time of "
    "another machine. * Its standard deviation is its RMSE on the test rows, a gift.",
    "NLL is that of one Gaussian, as published; log likelihood is that of the predicted density, often a mixture.",
    *PEERS,
)


def page(results: Mapping[str, Any]) -> Page:
    """Say where ours stands on both tables."""
    lead = " ".join(_lead(name, each) for name, each in results.items())
    tables = [_table(name, each) for name, each in results.items()]
    return Page("Rivals", lead, [Figure("rivals", CAPTION), *tables], NOTES)


def _lead(name: str, each: Mapping[str, Any]) -> str:
    done = {key: summary for key, summary in each["methods"].items() if "failed" not in summary}
    if not done:
        return f"{name}: every method failed."
    best = min(done, key=lambda key: done[key]["gaussian_nll"][0])
    shown = [OURS, best] if OURS in done and best != OURS else [best]
    said = "; ".join(
        f"{METHODS[key].label} {done[key]['gaussian_nll'][0]:.3f} and {done[key]['rmse'][0]:.3f}" for key in shown
    )
    published = min(each["published"].items(), key=lambda pair: pair[1][1])
    return f"{name}, NLL and RMSE: {said}; the best published, {published[0]}, {published[1][1]} and {published[1][0]}."


def _table(name: str, each: Mapping[str, Any]) -> Table:
    covered = [f"{level} %" for level in COVERAGES]
    columns = ["", "RMSE", "NLL", "log likelihood", "CRPS", *covered, "seconds", "MB"]
    rows, ranks = [], []
    for key, summary in each["methods"].items():
        if "failed" in summary:
            rows.append([METHODS[key].label, f"failed: {summary['failed']}", *[""] * (len(columns) - 2)])
            ranks.append(np.inf)
            continue
        means = [f"{summary[score][0]:.3f}" for score in ("log_likelihood", "crps")]
        inside = [f"{100 * summary[f'coverage_{level}'][0]:.1f}" for level in COVERAGES]
        with_errors = ["{:.4f} ({:.4f})".format(*summary["rmse"]), "{:.3f} ({:.3f})".format(*summary["gaussian_nll"])]
        cost = [f"{summary['seconds']:.1f}", megabytes(summary["megabytes"])]
        rows.append([METHODS[key].label, *with_errors, *means, *inside, *cost])
        ranks.append(summary["gaussian_nll"][0])
    for label, (rmse, nll, seconds) in each["published"].items():
        rows.append([f"published: {label}", f"{rmse}", f"{nll}", *[""] * 5, f"{seconds:g}", ""])
    caption = (
        f"{name}: {each['rows']:,} rows, {each['columns']} inputs, {each['seeds']} seeds, in SD of the target; "
        "standard error in brackets; share of rows inside their intervals in %; seconds of one core to train and "
        "predict, and memory at most beside what was held before: medians over seeds"
    )
    ours = [i for i, key in enumerate(each["methods"]) if key == OURS]
    return Table(caption, columns, rows, ours=ours, best=[(int(np.argmin(ranks)), 2)])
