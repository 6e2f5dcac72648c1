"""The page of `gaps`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.page import PEERS
from gumdrop_experiments.tables.results import OURS
from gumdrop_experiments.tables.scores import COVERAGES

CAPTION = (
    "Test log likelihood, nats per row, higher is better: mean and standard error over splits of each kind. What falls "
    "from random splits to gaps and tails is what a method does not know and does not say. Lines: published for gap "
    "splits. Numbers at the edge are too far to show."
)
NOTES = (
    "Random splits are the published ones. A gap split holds out the middle third of the rows in the order of one "
    "input, a tail split both outer sixths; there is one for each input, and rows of equal values stay in the order of "
    "the file. All is standardised by the training part, and scored in units of the target. Standard errors are over "
    "splits, which share rows.",
    "'Rates fixed at .1' is the default in all but the learning of rates; the one network with MC dropout holds "
    "nothing out, and learns its noise with its weights; the deep ensemble has a head for the noise, no dropout, and "
    "stops after 40 passes. The published networks are others.",
    *PEERS,
)


def page(results: Mapping[str, Any]) -> Page:
    """Say how far each method falls where a stretch of an input was held out."""
    tables = [
        _table(kind, name, each, results["published"] if kind == "gap" else {})
        for kind, sets in results["kinds"].items()
        for name, each in sets.items()
    ]
    return Page("Gaps", _lead(results["means"]), [Figure("gaps", CAPTION), _means(results["means"]), *tables], NOTES)


def _lead(means: Mapping[str, Any]) -> str:
    if "gap" not in means:
        return "Splits of the UCI sets that hold out a stretch of one input, beside random ones."
    known = {key: mean for key, mean in means["gap"].items() if mean is not None}
    said = ", ".join(
        f"{METHODS[key].label} {mean:.3f}" for key, mean in sorted(known.items(), key=lambda pair: -pair[1])
    )
    return f"Mean log likelihood over sets where the middle third of an input is held out: {said}."


def _means(means: Mapping[str, Any]) -> Table:
    keys = list(next(iter(means.values())))
    rows = [
        [METHODS[key].label, *("" if each[key] is None else f"{each[key]:.3f}" for each in means.values())]
        for key in keys
    ]
    ours = [i for i, key in enumerate(keys) if key == OURS]
    best = [
        (int(np.argmax([-np.inf if each[key] is None else each[key] for key in keys])), column + 1)
        for column, each in enumerate(means.values())
    ]
    return Table("Log likelihood, nats per row, mean over sets", ["", *means], rows, ours=ours, best=best)


def _table(kind: str, name: str, each: Mapping[str, Any], published: Mapping[str, Any]) -> Table:
    columns = ["", "log likelihood", "RMSE", "CRPS", *(f"{level} %" for level in COVERAGES), "seconds"]
    rows = []
    for key, summary in each["methods"].items():
        if "failed" in summary:
            rows.append([METHODS[key].label, f"failed: {summary['failed']}", *[""] * (len(columns) - 2)])
            continue
        digits = 3 if summary["rmse"][0] > 0.2 else 4
        inside = [f"{100 * summary[f'coverage_{level}'][0]:.1f}" for level in COVERAGES]
        scores = [f"{summary[score][0]:.{digits}f}" for score in ("rmse", "crps")]
        mean, error = summary["log_likelihood"]
        rows.append([METHODS[key].label, f"{mean:.3f} ({error:.3f})", *scores, *inside, f"{summary['seconds']:.1f}"])
    rows += [[f"published: {label}", f"{value:.2f}", *[""] * 6] for label, value in published.get(name, {}).items()]
    caption = (
        f"{name}, {kind} splits: mean over {each['splits']}, standard error in brackets; nats per row and units of the "
        "target; share of rows inside their intervals in %; median seconds of one core to train and predict"
    )
    return Table(caption, columns, rows, ours=[i for i, key in enumerate(each["methods"]) if key == OURS])
