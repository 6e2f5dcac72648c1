"""The figure of `rivals`."""

from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.results import OURS

SCORES = {"rmse": "RMSE, SD of the target", "gaussian_nll": "NLL of the Gaussian, nats per row"}
GREY = "#8a8f98"


def figures(results: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Draw both scores of every method, and the published ones, a row for each table."""
    height = sum(_lines(each) for each in results.values())
    figure = Figure(figsize=(9.6, 0.27 * height + 2.2), layout="constrained")
    ratios = [_lines(each) for each in results.values()]
    panels = figure.subplots(len(results), 2, squeeze=False, sharey="row", height_ratios=ratios)
    for row, (name, each) in zip(panels, results.items(), strict=True):
        for column, (axes, score) in enumerate(zip(row, SCORES, strict=True)):
            _draw(axes, each, score, column)
            axes.set_title(name if column == 0 else "", fontsize=10, loc="left")
            axes.set_xlabel(SCORES[score], fontsize=8)
    marks = [
        Line2D([], [], color=ORANGE, marker="o", linestyle="none", label="gumdrop"),
        Line2D([], [], color=BLUE, marker="o", linestyle="none", label="others in this run"),
        Line2D([], [], color=GREY, marker="D", markerfacecolor="none", linestyle="none", label="published"),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    yield "rivals", figure


def _lines(each: Mapping[str, Any]) -> int:
    return len(each["methods"]) + len(each["published"])


def _draw(axes: Axes, each: Mapping[str, Any], score: str, column: int) -> None:
    labels = [METHODS[key].label for key in each["methods"]] + list(each["published"])
    count = len(labels)
    means = [
        *(summary[score][0] for summary in each["methods"].values() if score in summary),
        *(found[column] for found in each["published"].values()),
    ]
    # The best two thirds in view; what is far astray stands as a number at the edge.
    low, middle = min(means), sorted(means)[2 * len(means) // 3]
    high = middle + 0.5 * (middle - low)
    for i, (key, summary) in enumerate(each["methods"].items()):
        if score not in summary:
            axes.annotate("failed", (low, count - 1 - i), fontsize=8, va="center", color=GREY)
            continue
        mean, error = summary[score]
        look = {"color": ORANGE if key == OURS else BLUE, "marker": "o", "capsize": 2}
        _point(axes, mean, error, count - 1 - i, high, look)
    for i, found in enumerate(each["published"].values()):
        look = {"color": GREY, "marker": "D", "markerfacecolor": "none"}
        _point(axes, found[column], 0.0, count - 1 - len(each["methods"]) - i, high, look)
    axes.axhline(len(each["published"]) - 0.5, color=INK, linewidth=0.5)
    axes.set_xlim(low - 0.08 * (high - low), high + 0.08 * (high - low))
    axes.set_yticks(range(count), labels[::-1], fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.15)


def _point(axes: Axes, mean: float, error: float, height: float, edge: float, look: dict[str, Any]) -> None:
    if mean <= edge:
        axes.errorbar(mean, height, xerr=error, markersize=5, linestyle="none", **look)
    else:
        axes.annotate(f"{mean:.3g} →", (edge, height), fontsize=8, va="center", ha="right", color=look["color"])
