"""The page of `decisions`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views.plots import INK, PALETTE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import Page, Picture, Table, dress, subplots

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


def page(results: Plain) -> Page:
    """Put the scores of each choice and of each detector into tables."""
    outliers = results["outliers"]
    body: list[Picture | Table] = [
        Picture("decisions-labels", LABELS, _curves(results["labels"])),
        _label_table(results["labels"]),
        Picture("decisions-outliers", OUTLIERS, _aurocs(outliers)),
        *(_outlier_table(kind, [each[kind] for each in outliers]) for kind in outliers[0]),
        Picture("decisions-growing", GROWING, _rates(results["growing"])),
    ]
    return Page("What uncertainty is good for", LEAD, body, NOTES)


def _label_table(curves: Plain) -> Table:
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


def _outlier_table(kind: str, parts: Sequence[Plain]) -> Table:
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


def column(curves: Sequence[Any], score: str) -> Any:
    """Take a score out of curves, shape (seeds, points)."""
    return np.array([[point[score] for point in curve] for curve in curves])


def _curves(curves: Plain) -> Figure:
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    names = {"accuracy": "accuracy on test rows", "log_likelihood": "log likelihood of test rows, nats"}
    for axes, (score, name) in zip(figure.subplots(1, 2), names.items(), strict=True):
        for colour, (choice, each) in zip((INK, *PALETTE[:2]), curves.items(), strict=True):
            labels, values = column(each, "labels")[0], column(each, score)
            mean, error = values.mean(0), values.std(0, ddof=1) / len(values) ** 0.5
            axes.plot(labels, mean, color=colour, label=choice, marker="o", markersize=3)
            axes.fill_between(labels, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)
        axes.set_xticks(labels)
        dress(axes, title="digits", x="rows with a label", y=name)
        axes.legend(fontsize=8, frameon=False, loc="lower right")
    return figure


def _aurocs(outliers: Sequence[Any]) -> Figure:
    figure, panels = subplots(1, len(outliers[0]), sharey=True, size=(10, 3.0))
    for axes, kind in zip(panels, outliers[0], strict=True):
        names = list(outliers[0][kind])[::-1]
        for i, name in enumerate(names):
            values = [each[kind][name]["auroc"] for each in outliers]
            colour = PALETTE[1] if name.startswith("gumdrop") else PALETTE[0]
            axes.scatter(values, [i] * len(values), s=16, alpha=0.5, color=colour, linewidths=0)
            axes.scatter(np.mean(values), i, s=70, marker="|", color=INK)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.set_ylim(-0.6, len(names) - 0.4)
        dress(axes, title=kind, x="AUROC")
    return figure


def _rates(rates: Plain) -> Figure:
    figure = Figure(figsize=(10, 3.0), layout="constrained")
    for axes, (name, curves) in zip(figure.subplots(1, len(rates)), rates.items(), strict=True):
        for curve in curves:
            values = np.array([point["rates"] for point in curve])
            for layer, colour in zip(range(values.shape[1]), PALETTE, strict=False):
                label = f"layer {layer + 1}" + (", inputs" if layer == 0 else "") if curve is curves[0] else None
                axes.plot(
                    [point["rows"] for point in curve], values[:, layer], "o-", markersize=3, color=colour, label=label
                )
        axes.set_xscale("log")
        axes.set_xticks([point["rows"] for point in curves[0]], [str(point["rows"]) for point in curves[0]])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        dress(axes, title=name, x="rows", y="drop probability p")
        axes.legend(fontsize=8, frameon=False)
    return figure
