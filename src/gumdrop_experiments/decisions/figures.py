"""The figures of `decisions`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views.plots import INK, PALETTE
from gumdrop_experiments.pages.axes import dress


def figures(results: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Draw what came of each choice of labels, how well out-of-distribution rows are told, and rates against rows."""
    yield "decisions-labels", _curves(results["labels"])
    yield "decisions-outliers", _aurocs(results["outliers"])
    yield "decisions-growing", _rates(results["growing"])


def column(curves: Sequence[Any], score: str) -> Any:
    """Take a score out of curves, shape (seeds, points)."""
    return np.array([[point[score] for point in curve] for curve in curves])


def _curves(curves: Mapping[str, Any]) -> Figure:
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
    figure = Figure(figsize=(10, 3.0), layout="constrained")
    panels = figure.subplots(1, len(outliers[0]), sharey=True)
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


def _rates(rates: Mapping[str, Any]) -> Figure:
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
