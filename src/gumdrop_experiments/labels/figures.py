"""The figures of `labels`."""

from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.labels import PUBLISHED_RUN
from gumdrop_experiments.labels.ways import WAYS
from gumdrop_experiments.pages.axes import dress

TITLES = {"mnist": "each digit once", "repeated": "each digit three times, with noise"}
SCORES = {"accuracy": "share of test digits right", "nll": "negative log likelihood, nats per digit"}
COLOURS = {"none": plots.INK, "fixed": plots.ORANGE, "learned": plots.BLUE}
LINES = {"BatchBALD": "-", "BALD": "--", "BALD one at a time": "-.", "random": ":", "entropy": "--"}


def figures(results: Plain) -> Iterator[tuple[str, Figure]]:
    """Draw accuracy and likelihood against labels for each pool."""
    for pool, ways in results["pools"].items():
        yield f"labels-{pool}", _curves(pool, ways)


def _curves(pool: str, ways: Plain) -> Figure:
    drawing = Figure(figsize=(11, 4.4), layout="constrained")
    panels = drawing.subplots(1, 2)
    for ax, (score, title) in zip(panels, SCORES.items(), strict=True):
        for name, found in ways.items():
            way, curve = WAYS[name], found["curve"]
            look = {"color": COLOURS[way.rates], "linestyle": LINES[way.choice], "linewidth": 1.3}
            ax.plot(curve["labels"], curve[score], label=way.label, **look)
            low, high = (np.array(curve[score]) + sign * np.array(curve[f"{score}_error"]) for sign in (-1, 1))
            ax.fill_between(curve["labels"], low, high, color=look["color"], alpha=0.12, linewidth=0)
        if pool == "mnist":
            label = "published, p = .5, BatchBALD, one run"
            ax.plot(PUBLISHED_RUN["labels"], PUBLISHED_RUN[score], "D", color="#8a8f98", markersize=4, label=label)
        dress(ax, title=TITLES[pool], x="digits with a label", y=title).locator_params(axis="x", integer=True)
    panels[1].set_yscale("log")
    panels[1].set_yticks(ticks := [0.1, 0.2, 0.5, 1, 2], [f"{tick:g}" for tick in ticks])
    panels[1].minorticks_off()
    for goal in (0.9, 0.95):
        panels[0].axhline(goal, color=plots.INK, linewidth=0.5)
    drawing.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9
    )
    return drawing
