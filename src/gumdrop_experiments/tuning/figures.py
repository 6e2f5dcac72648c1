"""The figure of `tuning`."""

from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib.figure import Figure

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.tuning.results import DEFAULT


def figures(results: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Draw what each candidate gains over the default, a panel for each set."""
    yield "tuning", _gains(results["summary"])


def _gains(summary: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Figure:
    labels = [label for label in next(iter(summary.values())) if label != DEFAULT][::-1]
    figure = Figure(figsize=(11, 0.46 * len(labels) + 1.6), layout="constrained")
    for axes, (name, rows) in zip(
        figure.subplots(2, -(-len(summary) // 2), sharey=True).flat, summary.items(), strict=False
    ):
        axes.set_title(name, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.axvline(0, color=INK, linewidth=1)
        left, right = -0.3, 0.1
        for i, label in enumerate(labels):
            gain, error = rows[label]["gain"], rows[label]["gain_error"]
            if gain < left:
                axes.annotate(f"← {gain:.2f}", (left, i), fontsize=8, va="center", color=ORANGE)
            elif gain > right:
                axes.annotate(f"{gain:+.2f} →", (right, i), fontsize=8, va="center", ha="right", color=ORANGE)
            else:
                axes.errorbar(gain, i, xerr=error, marker="o", color=BLUE, capsize=2, markersize=4)
        axes.set_xlim(left, right)
        axes.set_yticks(range(len(labels)), labels, fontsize=8)
        axes.tick_params(axis="x", labelsize=8)
    for axes in figure.axes[len(summary) :]:
        axes.set_axis_off()
    figure.supxlabel("gain in log likelihood over the default, nats per row", fontsize=9)
    return figure
