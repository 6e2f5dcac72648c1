"""The figures of `uci`."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from gumdrop.views.plots import BLUE, INK, ORANGE, PALETTE
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.uci import PUBLISHED
from gumdrop_experiments.uci.methods import METHODS
from gumdrop_experiments.uci.results import OURS

LEVELS = (50, 90, 95)
MARKERS = "osD^vPX<>"
FARTHEST_GAP = 15.0
GREY = "#8a8f98"


def shown(results: Plain) -> list[str]:
    """Name the figures that the results allow, in the order of the page."""
    methods = [each["methods"] for each in results.values()]
    learned = any(part["rates"] for each in results.values() for part in each["parts"].values())
    compared = any("cost_ratio" in summary for each in methods for summary in each.values())
    return ["uci-log-likelihood", "uci-rmse", "uci-coverage", *["uci-rates"] * learned, *["uci-cost"] * compared]


def figures(results: Plain) -> Iterator[tuple[str, Figure]]:
    """Draw scores, coverage, learned rates and costs of all methods, a panel for each set."""
    draw: dict[str, Callable[[Plain], Figure]] = {
        "uci-log-likelihood": partial(_scores, score="log_likelihood", column=1),
        "uci-rmse": partial(_scores, score="rmse", column=0),
        "uci-coverage": _coverage,
        "uci-rates": _rates,
        "uci-cost": _cost,
    }
    for name in shown(results):
        yield name, draw[name](results)


def _panels(sets: Plain, height: float) -> tuple[Figure, list[Axes]]:
    columns = min(2, len(sets))
    rows = -(-len(sets) // columns)
    figure = Figure(figsize=(5.2 * columns, height * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in panels[len(sets) :]:
        unused.set_axis_off()
    for axes, name in zip(panels, sets, strict=False):
        axes.set_title(name, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def _colour(key: str) -> str:
    return ORANGE if key == OURS else BLUE


def _scores(sets: Plain, score: str, column: int) -> Figure:
    count = max(len(each["methods"]) for each in sets.values())
    figure, panels = _panels(sets, 0.32 * count + 0.9)
    for axes, (name, each) in zip(panels, sets.items(), strict=False):
        keys = list(each["methods"])[::-1]
        for i, key in enumerate(keys):
            mean, error = each["methods"][key][score]
            axes.errorbar(mean, i, xerr=error, marker="o", color=_colour(key), capsize=3)
        axes.set_yticks(range(len(keys)), [METHODS[key].label for key in keys], fontsize=8)
        axes.tick_params(axis="x", labelsize=8)
        _focus(axes, [each["methods"][key][score] for key in keys], lower_is_better=score == "rmse")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        for style, row in zip(("--", ":"), PUBLISHED.get(name, ()), strict=False):
            value = _number(row[column])
            if axes.get_xlim()[0] <= value <= axes.get_xlim()[1]:
                axes.axvline(value, color=INK, linestyle=style, linewidth=1, zorder=0)
    handles = [
        Line2D([], [], color=INK, linestyle="--", linewidth=1, label="published: clean grid search"),
        Line2D([], [], color=INK, linestyle=":", linewidth=1, label="published: Concrete Dropout"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def _focus(axes: Axes, scores: Sequence[tuple[float, float]], *, lower_is_better: bool) -> None:
    """Let a method that is far astray leave the axes, with its value at the edge, rather than squeeze the others."""
    means, errors = np.array(scores).T
    best, near = (means.min(), 1) if lower_is_better else (means.max(), -1)
    reach = max(3 * abs(best - np.median(means)), 6 * np.median(errors), 1e-6)
    shown = np.abs(means - best) <= reach
    low, high = (means - errors)[shown].min(), (means + errors)[shown].max()
    margin = 0.06 * (high - low)
    axes.set_xlim(low - margin, high + margin)
    for i in np.flatnonzero(~shown):
        edge, text = (high + margin, f"{means[i]:.3g} →") if near > 0 else (low - margin, f"← {means[i]:.3g}")
        align = "right" if near > 0 else "left"
        for artist in axes.containers[i].get_children():
            artist.set_visible(False)
        axes.annotate(text, (edge, i), (-4 * near, 0), textcoords="offset points", ha=align, va="center", fontsize=8)


def _number(text: str) -> float:
    """The value in a published figure such as '-2.40 (.04)'."""
    match = re.match(r"-?[\d.]+", text)
    return float(match.group()) if match else float("nan")


def _coverage(sets: Plain) -> Figure:
    count = max(len(each["methods"]) for each in sets.values())
    figure, panels = _panels(sets, 0.32 * count + 0.9)
    for axes, each in zip(panels, sets.values(), strict=False):
        keys = list(each["methods"])[::-1]
        axes.axvline(0, color=INK, linewidth=1, zorder=0)
        axes.axvspan(-2, 2, color=GREY, alpha=0.15, linewidth=0, zorder=0)
        for level, marker, colour in zip(LEVELS, "sod", PALETTE[:3], strict=True):
            gaps = np.array([100 * each["methods"][key][f"coverage_{level}"][0] - level for key in keys])
            inside = np.abs(gaps) < FARTHEST_GAP
            axes.scatter(
                gaps[inside], np.flatnonzero(inside), marker=marker, s=26, color=colour, label=f"{level} % interval"
            )
        for i, key in enumerate(keys):
            if far := [gap for gap in _gaps(each["methods"][key]) if abs(gap) >= FARTHEST_GAP]:
                text, side = ", ".join(f"{gap:+.0f}" for gap in far), "right" if far[0] > 0 else "left"
                axes.annotate(text, (math.copysign(FARTHEST_GAP, far[0]), i), ha=side, va="center", fontsize=8)
        axes.set_xlim(-1.05 * FARTHEST_GAP, 1.05 * FARTHEST_GAP)
        axes.set_yticks(range(len(keys)), [METHODS[key].label for key in keys], fontsize=8)
        axes.tick_params(axis="x", labelsize=8)
        axes.set_xlabel("points above (+) or below (−) what it should be", fontsize=8)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _gaps(summary: Plain) -> list[float]:
    return [100 * summary[f"coverage_{level}"][0] - level for level in LEVELS]


def _rates(sets: Plain) -> Figure:
    figure, panels = _panels(sets, 2.6)
    shown = [key for key in METHODS if any(each["parts"].get(key, {}).get("rates") for each in sets.values())]
    spread = np.random.default_rng(0)
    for axes, each in zip(panels, sets.values(), strict=False):
        for j, key in enumerate(shown):
            rates = np.array(each["parts"].get(key, {}).get("rates") or np.empty((0, 0)))
            for layer in range(rates.shape[1]):
                x = layer + 1 + (j - (len(shown) - 1) / 2) * 0.8 / len(shown)
                jitter = spread.uniform(-0.25, 0.25, len(rates)) * 0.8 / len(shown)
                colour = PALETTE[(j + 1) % len(PALETTE)]
                label = METHODS[key].label if layer == 0 else None
                axes.scatter(x + jitter, rates[:, layer], s=8, color=colour, alpha=0.6, linewidths=0, label=label)
                axes.hlines(np.median(rates[:, layer]), x - 0.3 / len(shown), x + 0.3 / len(shown), color=INK)
        axes.set(xlabel="layer", ylabel="drop probability p", ylim=(-0.02, 0.52))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.tick_params(labelsize=8)
    handles, names = max((axes.get_legend_handles_labels() for axes in panels), key=lambda pair: len(pair[0]))
    figure.legend(handles, names, loc="outside lower center", ncols=2, fontsize=8, frameon=False, markerscale=2)
    return figure


def _cost(sets: Plain) -> Figure:
    figure, panels = _panels(sets, 2.6)
    keys = [key for key in METHODS if any("gain" in each["methods"].get(key, {}) for each in sets.values())]
    looks: dict[str, Any] = {
        key: {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[i]} for i, key in enumerate(keys)
    }
    looks |= {"gumdrop": {"color": ORANGE, "marker": "*", "markersize": 12}}
    for axes, each in zip(panels, sets.values(), strict=False):
        axes.axhline(0, color=INK, linewidth=1, zorder=0)
        axes.axvline(1, color=INK, linewidth=1, zorder=0)
        shown = {key: summary for key, summary in each["methods"].items() if "gain" in summary}
        bottom = -3 * max([0.05, *(summary["gain"] for summary in shown.values())])
        for key, summary in shown.items():
            gain = max(summary["gain"], bottom)
            axes.plot(summary["cost_ratio"], gain, linestyle="none", **looks[key])
        axes.set(xscale="log", xlim=(0.02, 2))
        axes.set_xlabel("row passes in training, ratio to the grid search", fontsize=8)
        axes.set_ylabel("gain in log likelihood", fontsize=8)
        axes.tick_params(labelsize=8)
    handles = [Line2D([], [], linestyle="none", label=METHODS[key].label, **looks[key]) for key in keys]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure
