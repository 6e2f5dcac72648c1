"""The page of `decisions`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gumdrop_experiments.decisions.figures import column
from gumdrop_experiments.pages.page import Figure, Page, Table

LEAD = "Which rows to label, which rows to distrust, and what more data change."
LABELS = "What a test set says after each batch of labels: mean over seeds, band of one SE."
OUTLIERS = "AUROC of each score: 0.5 is guessing, 1 is right always. Dots are seeds."
GROWING = "Learned rate of each layer as rows are added by partial_fit; lines are seeds."
NOTES = (
    "Labels: 20 random rows of a pool of 1,000 to begin with, 40 more in each batch; after each batch the estimator "
    "trains anew on all labels, by partial_fit, with 200 passes. The same first rows and test rows for all choices.",
    "Alarms: outlier_p_values of each score against half of the test rows of the known digits; false alarms are "
    "counted on the other half.",
)


def page(results: Mapping[str, Any]) -> Page:
    """Put the scores of each choice and of each detector into tables."""
    outliers = results["outliers"]
    body: list[Figure | Table] = [
        Figure("decisions-labels", LABELS),
        _label_table(results["labels"]),
        Figure("decisions-outliers", OUTLIERS),
        *(_outlier_table(kind, [each[kind] for each in outliers]) for kind in outliers[0]),
        Figure("decisions-growing", GROWING),
    ]
    return Page("What uncertainty is good for", LEAD, body, NOTES)


def _label_table(curves: Mapping[str, Any]) -> Table:
    labels = [int(point["labels"]) for point in curves["random"][0]]
    rows = []
    for choice, each in curves.items():
        values = column(each, "accuracy")
        gain = values - column(curves["random"], "accuracy")
        cells = [f"{values[:, i].mean():.3f} ({_with_error(gain[:, i])})" for i in range(len(labels))]
        rows.append([choice, *(cell.removesuffix(" (+0.000, 0.000)") for cell in cells)])
    caption = "digits: accuracy by number of labels; in brackets the gain over random rows, seed by seed, and its SE"
    return Table(caption, ["", *map(str, labels)], rows)


def _with_error(values: Any) -> str:
    return f"{values.mean():+.3f}, {values.std(ddof=1) / len(values) ** 0.5:.3f}"


def _outlier_table(kind: str, parts: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for name in parts[0]:
        auroc, false, found = (
            np.array([part[name][what] for part in parts]) for what in ("auroc", "false_alarms", "found")
        )
        error = auroc.std(ddof=1) / len(auroc) ** 0.5
        rows.append(
            [name, f"{auroc.mean():.3f} ({error:.3f})", f"{100 * found.mean():.0f}", f"{100 * false.mean():.1f}"]
        )
    best = max(range(len(rows)), key=lambda i: float(rows[i][1].split()[0]))
    columns = ["", "AUROC (SE)", "found at an alarm rate of 5 %", "false alarms, %"]
    return Table(
        f"{kind}: out-of-distribution rows against test rows of the known digits 0 to 7",
        columns,
        rows,
        best=[(best, 1)],
    )
