"""The figures of `tables`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gumdrop.views.plots import BLUE, INK, ORANGE, PALETTE
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.results import OURS, WANTED_COVERAGE

MARKERS = "o^sDvPX<>dhp8"
GREY = "#8a8f98"

Sets = Mapping[str, Any]


def shown(sets: Sets) -> list[str]:
    """Name the figures that the sets allow, in the order of the page."""
    compared = all(OURS in each["methods"] and len(each["methods"]) > 1 for each in sets.values())
    kinds = {bool(each["classes"]) for each in sets.values()}
    return [
        *["tables-log-likelihood"] * compared,
        *["tables-coverage"] * (False in kinds),
        *["tables-calibration"] * (True in kinds),
    ]


def figures(results: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Draw how far each method is from ours, and the calibration of all, for numbers and for classes."""
    sets = results["sets"]
    draw: dict[str, Callable[[], Figure]] = {
        "tables-log-likelihood": lambda: _gaps(sets),
        "tables-coverage": lambda: _coverage({name: each for name, each in sets.items() if not each["classes"]}),
        "tables-calibration": lambda: _calibration({name: each for name, each in sets.items() if each["classes"]}),
    }
    for name in shown(sets):
        yield name, draw[name]()


def _gaps(sets: Sets) -> Figure:
    keys = [key for key in METHODS if key != OURS and any(key in each["methods"] for each in sets.values())][::-1]
    columns = min(4, len(sets))
    rows = -(-len(sets) // columns)
    figure = Figure(figsize=(2.2 + 2.4 * columns, rows * (0.28 * len(keys) + 0.9)), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for unused in list(panels.flat)[len(sets) :]:
        unused.set_visible(False)
    for axes, (name, each) in zip(panels.flat, sets.items(), strict=False):
        _draw_gaps(axes, each["methods"], keys)
        axes.set_title(name, fontsize=9, loc="left")
        axes.set_yticks(range(len(keys)), [METHODS[key].label for key in keys], fontsize=8)
        axes.tick_params(axis="x", labelsize=8)
    figure.supxlabel("log likelihood less that of gumdrop, nats per row", fontsize=9)
    return figure


def _draw_gaps(axes: Axes, methods: Mapping[str, Any], keys: list[str]) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.axvline(0, color=INK, linewidth=1, zorder=0)
    gaps = {key: methods[key] for key in keys if "gap" in methods.get(key, {})}
    found = [each["gap"] for each in gaps.values()]
    # Most of the gaps in view; a method that is far astray must not squeeze the others.
    reach = max(0.03, 2.5 * float(np.median(np.abs(found))))
    low = max(-reach, min(found) - 0.1 * reach)
    high = min(reach, max(0.0, *(each["gap"] + each["gap_error"] for each in gaps.values())))
    low, high = low - 0.15 * (high - low), high + 0.1 * (high - low)
    for i, key in enumerate(keys):
        if key not in gaps:
            why = "failed" if key in methods else "none for classes"
            axes.annotate(f"  {why}", (low, i), fontsize=7, va="center", color=GREY)
            continue
        gap, error = methods[key]["gap"], methods[key]["gap_error"]
        if abs(gap) > reach:
            text, edge, side = (f"← {gap:.2f}", low, "left") if gap < 0 else (f"{gap:+.2f} →", high, "right")
            shift = (3 if gap < 0 else -3, 0)
            axes.annotate(
                text, (edge, i), shift, textcoords="offset points", fontsize=8, va="center", ha=side, color=ORANGE
            )
        else:
            axes.errorbar(gap, i, xerr=error, marker="o", color=BLUE, capsize=2, markersize=4)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_ylim(-0.6, len(keys) - 0.4)


def _coverage(sets: Sets) -> Figure:
    figure, axes = _by_set(sets, "coverage_90")
    low, high = WANTED_COVERAGE
    axes.axvspan(100 * low, 100 * high, color=GREY, alpha=0.2, linewidth=0, zorder=0)
    axes.set_xlabel("rows inside the 90 % interval, %", fontsize=9)
    return figure


def _calibration(sets: Sets) -> Figure:
    figure, axes = _by_set(sets, "ece")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("calibration error, points", fontsize=9)
    return figure


def _by_set(sets: Sets, score: str) -> tuple[Figure, Axes]:
    """Draw a score of all methods, a line for each set."""
    figure = Figure(figsize=(8.4, 0.5 * len(sets) + 1.7), layout="constrained")
    axes = figure.add_subplot()
    names = list(sets)[::-1]
    for j, (key, method) in enumerate(METHODS.items()):
        pairs = [
            (100 * sets[name]["methods"][key][score], i)
            for i, name in enumerate(names)
            if score in sets[name]["methods"].get(key, {})
        ]
        if pairs:
            x, y = zip(*pairs, strict=True)
            look: dict[str, Any] = {"s": 28, "color": PALETTE[j % len(PALETTE)], "marker": MARKERS[j]}
            if key == OURS:
                look = {"s": 110, "color": ORANGE, "marker": "*", "zorder": 3}
            axes.scatter(x, y, label=method.label, linewidths=0, **look)
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.grid(axis="y", color=GREY, alpha=0.25)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure, axes
