"""The figure of `shift`."""

from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from gumdrop.views.plots import BLUE, GREEN, INK, ORANGE
from gumdrop_experiments.pages.axes import dress
from gumdrop_experiments.rates.results import ELBO, HELD_OUT, OFF
from gumdrop_experiments.shift.results import LABELS, PLAIN, SIZES
from gumdrop_experiments.shift.shifts import SHIFTS

GREY = "#8a8f98"
LOOKS = {
    OFF: (INK, "-"),
    PLAIN: (INK, ":"),
    "0.1": (GREY, "-"),
    "0.2 / 0.5": (GREEN, "-"),
    ELBO: (BLUE, "-"),
    HELD_OUT: (ORANGE, "-"),
}
"""Ways that are drawn; the grid is one of them."""


def figures(results: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Draw NLL against each step of each shift, of single networks and of ensembles."""
    drawing = Figure(figsize=(9, 6), layout="constrained")
    panels = drawing.subplots(len(SIZES), len(SHIFTS), sharex="col", sharey=True)
    for row, (size, title) in enumerate(SIZES.items()):
        for ax, (name, shift) in zip(panels[row], SHIFTS.items(), strict=True):
            for way, (colour, style) in LOOKS.items():
                if way in results[size]["by_step"]:
                    nll = [each["nll"] for each in results[size]["by_step"][way][name]]
                    ax.plot(results["steps"][name], nll, style, marker="o", markersize=3, color=colour, linewidth=1.4)
            ax.set(yscale="log")
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_formatter(NullFormatter())
            ax.set_xticks(results["steps"][name], [f"{step:g}" for step in results["steps"][name]])
            ax.tick_params(labelsize=9)
            dress(ax, title=f"{title}: {name}", x=shift.label if row else "")
        panels[row, 0].set_ylabel("test NLL, nats per image")
    handles = [panels[-1, 0].lines[i] for i in range(len(LOOKS))]
    labels = [LABELS[way] for way in LOOKS]
    drawing.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    yield "shift", drawing
