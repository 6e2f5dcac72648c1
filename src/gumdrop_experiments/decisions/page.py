"""The page of `decisions`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views.plots import INK, PALETTE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import (
    Cell,
    Page,
    Picture,
    Table,
    band,
    dress,
    mean_and_error,
    name_rows,
    subplots,
    table_of,
    ticks_at,
    with_error,
)

LEAD = "Which rows to label, which rows to distrust, and what more data change."
LABELS = "What a test set says after each batch of labels: mean over seeds, band of one SE."
OUTLIERS = "AUROC of each score: 0.5 is guessing, 1 is right always. Dots are seeds."
GROWING = """Learned rate of each layer as rows are added by partial_fit, in several orders of the rows. Each fit
chooses its architecture and strength anew, so rates need not fall steadily."""
LINES = ("-", "--", ":")
NOTES = (
    """Labels: 20 random rows of a pool of 1,000 to begin with, 40 more in each batch; after each batch the estimator
    trains anew on all labels, by partial_fit, with 200 passes. The same first rows and test rows for all choices.""",
    """Alarms: outlier_p_values of each score against half of the test rows of the known digits; false alarms are
    counted on the other half.""",
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
    usual, rows = column(curves["random"], "accuracy"), []
    for choice, curve in curves.items():
        values = column(curve, "accuracy")
        gains = [mean_and_error(gain) for gain in (values - usual).T]
        said = [f" ({gain:+.3f}, {error:.3f})" if gain or error else "" for gain, error in gains]
        rows.append([choice, *(f"{mean:.3f}{gain}" for mean, gain in zip(values.mean(0), said, strict=True))])
    caption = "digits: accuracy by number of labels; in brackets the gain over random rows, seed by seed, and its SE"
    return Table(caption, ["", *map(str, labels)], rows)


def _outlier_table(kind: str, parts: Sequence[Plain]) -> Table:
    records = {
        name: {score: mean_and_error(part[name][score] for part in parts) for score in scores}
        for name, scores in parts[0].items()
    }
    cells: dict[str, Cell] = {
        "AUROC (SE)": lambda record: with_error(record["auroc"]),
        "found at an alarm rate of 5 %": lambda record: f"{100 * record['found'][0]:.0f}",
        "false alarms, %": lambda record: f"{100 * record['false_alarms'][0]:.1f}",
    }
    best = max(range(len(records)), key=lambda i: list(records.values())[i]["auroc"][0])
    caption = f"{kind}: out-of-distribution rows against test rows of the known digits 0 to 7"
    return table_of(caption, records, cells, best=[(best, 1)])


def column(curves: Sequence[Any], score: str) -> Any:
    """Take a score out of curves, shape (seeds, points)."""
    return np.array([[point[score] for point in curve] for curve in curves])


def _curves(curves: Plain) -> Figure:
    figure, panels = subplots(1, 2, size=(10, 3.6))
    names = {"accuracy": "accuracy on test rows", "log_likelihood": "log likelihood of test rows, nats"}
    for axes, (score, name) in zip(panels, names.items(), strict=True):
        for colour, (choice, curve) in zip((INK, *PALETTE[:2]), curves.items(), strict=True):
            labels = column(curve, "labels")[0]
            mean, error = np.transpose([mean_and_error(values) for values in column(curve, score).T])
            band(axes, labels, mean, mean - error, mean + error, color=colour, label=choice, marker="o", markersize=3)
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
        name_rows(axes, names)
        dress(axes, title=kind, x="AUROC")
    return figure


def _rates(rates: Plain) -> Figure:
    figure, panels = subplots(1, len(rates), size=(10, 3.0))
    for axes, (name, curves) in zip(panels, rates.items(), strict=True):
        sizes = [point["rows"] for point in curves[0]]
        for layer, colour in zip(range(len(curves[0][0]["rates"])), PALETTE, strict=False):
            values = [[point["rates"][layer] for point in curve] for curve in curves]
            lines = axes.plot(sizes, np.transpose(values), "o-", markersize=3, color=colour)
            lines[0].set_label(f"layer {layer + 1}" + (", inputs" if layer == 0 else ""))
            for line, style in zip(lines, LINES, strict=False):
                line.set_linestyle(style)
        ticks_at(axes, sizes)
        title = f"{name}; {len(curves)} orders of the rows, a line style for each"
        dress(axes, title=title, x="rows", y="drop probability p", ylim=(0, None), legend=8)
    return figure
