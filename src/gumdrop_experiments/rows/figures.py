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
CHANGED = {"noisy": "digits with noise", "moved": "digits that are moved"}
APART = 0.058
"""Least distance of two labels, as a share of the height."""


def figures(results: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Draw test nats against rows, scores of changed digits, and the rates."""
    yield "rows", _nats(results)
    if "mnist" in results:
        yield "rows-changed", _changed(results["mnist"])
    yield "rows-rates", _rates(results)


def _nats(results: Mapping[str, Any]) -> Figure:
    """Test NLL against the number of rows, a column for each set, with the prior above and without it below."""
    drawing = Figure(figsize=(3.6 * len(results), 7), layout="constrained")
    panels = drawing.subplots(len(PRIORS), len(results), sharex="col", sharey="col", squeeze=False)
    for column, found in enumerate(results.values()):
        for row, (prior, label) in enumerate(PRIORS.items()):
            ax = panels[row, column]
            _lines(ax, found["sizes"], prior, "test", "nll")
            unit = "" if column else "test NLL, nats a row"
            dress(ax, title=f"{found['label']}, {label}", x="rows" if row else "", y=unit)
        for ax in panels[:, column]:
            _name_lines(ax)
    return drawing


def _changed(found: Mapping[str, Any]) -> Figure:
    """NLL of digits with noise and of moved ones, and the calibration error of digits as they are."""
    drawing = Figure(figsize=(10.8, 3.6), layout="constrained")
    panels = drawing.subplots(1, len(CHANGED) + 1)
    for ax, (test, label) in zip(panels, CHANGED.items(), strict=False):
        _lines(ax, found["sizes"], "prior", test, "nll")
        dress(ax, title=f"{label}: NLL, nats", x="rows")
    _lines(panels[-1], found["sizes"], "prior", "test", "ece", is_log=False)
    dress(panels[-1], title="digits as they are: calibration error", x="rows")
    for ax in panels:
        _name_lines(ax)
    return drawing


def _rates(results: Mapping[str, Any]) -> Figure:
    """Learned rates by layer; dotted without the prior."""
    drawing = Figure(figsize=(3.6 * len(results), 3.4), layout="constrained")
    (panels,) = drawing.subplots(1, len(results), sharey=True, squeeze=False)
    for ax, found in zip(panels, results.values(), strict=True):
        rows = [size["rows"] for size in found["sizes"]]
        for layer, (name, colour) in enumerate(zip(found["layers"], (PALETTE[3], BLUE, GREEN), strict=True)):
            for prior, style in zip(PRIORS, ("o-", "o:"), strict=True):
                rates = [[run[layer] for run in size["ways"][prior][LEARNED]["rates"]] for size in found["sizes"]]
                label = name if prior == "prior" else None
                ax.plot(rows, [np.mean(of_size) for of_size in rates], style, color=colour, markersize=3, label=label)
        _rows_axis(ax, rows)
        ax.set_ylim(0, None)
        dress(ax, title=found["label"], x="rows", y="" if ax is not panels[0] else "learned drop probability p")
    panels[0].legend(frameon=False, fontsize=9)
    return drawing


def _lines(
    ax: Axes, sizes: Sequence[Mapping[str, Any]], prior: str, test: str, score: str, *, is_log: bool = True
) -> None:
    """Draw the mean of each way over seeds, and a band from the least to the greatest."""
    rows = [size["rows"] for size in sizes]
    for way, (label, colour, style) in LOOKS.items():
        scores = [size["ways"][prior][way][test][score] for size in sizes]
        ax.plot(rows, [np.mean(of_seeds) for of_seeds in scores], style, color=colour, linewidth=1.7, label=label)
        ax.fill_between(rows, list(map(min, scores)), list(map(max, scores)), color=colour, alpha=0.12, linewidth=0)
    _rows_axis(ax, rows)
    if is_log and ax.dataLim.ymin > 0:
        ax.set(yscale="log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())


def _rows_axis(ax: Axes, rows: Sequence[int]) -> None:
    ax.set(xscale="log")
    ax.set_xticks(rows, [f"{size / 1000:g}k" if size >= 1000 else f"{size}" for size in rows], fontsize=8.5)
    ax.minorticks_off()


def _name_lines(ax: Axes) -> None:
    """Write the name of each line at its right end, pushed apart where ends are near."""
    scale = ax.transData - ax.transAxes
    ends = [(float(scale.transform((1.0, np.asarray(line.get_ydata())[-1]))[1]), line) for line in ax.lines]
    height = float("-inf")
    for end, line in sorted(ends, key=itemgetter(0)):
        height = max(end, height + APART)
        look: dict[str, Any] = {"color": line.get_color(), "fontsize": 9, "va": "center"}
        ax.text(1.02, height, str(line.get_label()), transform=ax.transAxes, **look)
