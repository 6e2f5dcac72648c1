"""The figures of `rows`."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from gumdrop.views.plots import BLUE, GREEN, INK, ORANGE, PALETTE
from gumdrop_experiments.pages.axes import dress
from gumdrop_experiments.rows.results import GRID, LEARNED, OFF, PRIORS

__all__ = ["figures"]

LOOKS = {
    OFF: ("none", INK, "-"),
    "0.1": ("0.1", GREEN, "-"),
    "0.3": ("0.3", PALETTE[3], "-"),
    "0.5": ("0.5", PALETTE[5], "-"),
    GRID: ("grid", ORANGE, "--"),
    LEARNED: ("learned", BLUE, "-"),
}
"""Label, colour and style of each way."""
APART = 0.058
"""Least distance of two labels, as a share of the height."""


def figures(results: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Draw test NLL against the number of rows, a column for each set, with the prior above and without it below."""
    sets = results["sets"]
    drawing = Figure(figsize=(3.6 * len(sets), 7), layout="constrained")
    panels = drawing.subplots(len(PRIORS), len(sets), sharex="col", sharey="col", squeeze=False)
    for column, (name, found) in enumerate(sets.items()):
        for row, (prior, label) in enumerate(PRIORS.items()):
            ax = panels[row, column]
            _lines(ax, found["sizes"], prior, is_log=name == "mnist")
            unit = "" if column else "test NLL, nats a row"
            dress(ax, title=f"{found['label']}, {label}", x="rows" if row else "", y=unit)
        for ax in panels[:, column]:
            _name_lines(ax)
    yield "rows", drawing


def _lines(ax: Axes, sizes: Sequence[Mapping[str, Any]], prior: str, *, is_log: bool) -> None:
    """Draw the mean of each way over seeds, and a band from the least to the greatest; densities go below 0 nats."""
    rows = [size["rows"] for size in sizes]
    for way, (label, colour, style) in LOOKS.items():
        scores = [size["ways"][prior][way]["test"]["nll"] for size in sizes]
        means = [np.mean(of_seeds) for of_seeds in scores]
        ax.plot(rows, means, style, marker="o", markersize=3, color=colour, linewidth=1.7, label=label)
        ax.fill_between(rows, list(map(min, scores)), list(map(max, scores)), color=colour, alpha=0.12, linewidth=0)
    ax.set(xscale="log")
    ax.set_xticks(rows, [f"{size / 1000:.3g}k" if size >= 1000 else f"{size}" for size in rows], fontsize=8.5)
    ax.minorticks_off()
    if is_log:
        ax.set(yscale="log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.2, 1.5, 2, 3, 5, 7)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())


def _name_lines(ax: Axes) -> None:
    """Write the name of each line at its right end, pushed apart where ends are near."""
    scale = ax.transData - ax.transAxes
    ends = [(float(scale.transform((1.0, np.asarray(line.get_ydata())[-1]))[1]), line) for line in ax.lines]
    height = float("-inf")
    for end, line in sorted(ends, key=itemgetter(0)):
        height = max(end, height + APART)
        look: dict[str, Any] = {"color": line.get_color(), "fontsize": 9, "va": "center"}
        ax.text(1.02, height, str(line.get_label()), transform=ax.transAxes, **look)
