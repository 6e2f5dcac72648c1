"""The figure of `gaps`."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.tables.methods import METHODS

LOOKS: dict[str, tuple[str, str]] = {"random": ("#8a8f98", "o"), "gap": (ORANGE, "s"), "tail": (BLUE, "D")}
LINES: dict[str, Literal["--", ":"]] = {"MC dropout": "--", "ensemble": ":"}


def figures(results: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Draw the log likelihood of each method on each kind of split, a panel for each set."""
    kinds = results["kinds"]
    names = list(next(iter(kinds.values())))
    keys = list(next(iter(kinds.values()))[names[0]]["methods"])[::-1]
    columns = min(2, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(2.4 + 3.8 * columns, rows * (0.36 * len(keys) + 1.1)), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False, sharey=True).flat)
    for unused in panels[len(names) :]:
        unused.set_visible(False)
    for axes, name in zip(panels, names, strict=False):
        _draw(axes, {kind: sets[name]["methods"] for kind, sets in kinds.items()}, keys)
        axes.set_title(name, fontsize=10, loc="left")
        axes.set_yticks(range(len(keys)), [METHODS[key].label for key in keys], fontsize=8)
        if "gap" in kinds:
            for label, value in results["published"].get(name, {}).items():
                if axes.get_xlim()[0] <= value <= axes.get_xlim()[1]:
                    axes.axvline(value, color=INK, linestyle=LINES[label], linewidth=1, zorder=0)
    marks = [
        Line2D([], [], color=LOOKS[kind][0], marker=LOOKS[kind][1], linestyle="none", label=f"{kind} splits")
        for kind in kinds
    ]
    lines = [
        Line2D([], [], color=INK, linestyle=style, linewidth=1, label=f"published, gap: {label}")
        for label, style in LINES.items()
    ]
    figure.legend(handles=[*marks, *lines], loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    yield "gaps", figure


def _draw(axes: Axes, methods: Mapping[str, Any], keys: list[str]) -> None:
    """Draw a set; a method that is far astray stands as a number at the edge and does not squeeze the others."""
    found = {
        (kind, i): each[key]["log_likelihood"]
        for kind, each in methods.items()
        for i, key in enumerate(keys)
        if "failed" not in each[key]
    }
    means = sorted(mean for mean, _ in found.values())
    high, middle = means[-1], means[len(means) // 3]
    low = middle - 0.6 * (high - middle) - 1e-3
    steps = {kind: 0.22 * (1 - j) for j, kind in enumerate(methods)}
    for (kind, i), (mean, error) in found.items():
        colour, marker = LOOKS[kind]
        if mean >= low:
            look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4, "capsize": 2}
            axes.errorbar(mean, i + steps[kind], xerr=error, linestyle="none", **look)
        else:
            axes.annotate(f"← {mean:.2f}", (low, i + steps[kind]), fontsize=7, va="center", color=colour)
    axes.set_xlim(low - 0.05 * (high - low), high + 0.08 * (high - low))
    axes.set_ylim(-0.6, len(keys) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel("test log likelihood, nats per row", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
