"""The figures of `starts`."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import itemgetter
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from gumdrop.views.plots import BLUE, GREEN, INK, ORANGE, PALETTE
from gumdrop_experiments.pages.axes import dress
from gumdrop_experiments.starts.networks import STARTS
from gumdrop_experiments.starts.results import LEARNED

LAYERS = ("inputs", "hidden 1", "hidden 2")
COLOURS = (PALETTE[3], BLUE, GREEN)
LEAST = 1e-4
"""Rates that are shown; smaller ones stand at the edge."""


def figures(results: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Draw rates over training from each start, and what each temperature gives."""
    yield "starts", _starts(results)
    yield "starts-temperatures", _temperatures(results)


def _starts(results: Mapping[str, Any]) -> Figure:
    """The rate of each layer over training, a line for each start; few steps dotted."""
    drawing = Figure(figsize=(9, 7), layout="constrained")
    panels = drawing.subplots(len(LAYERS), len(results), sharex=True, sharey=True, squeeze=False)
    shades = [*mpl.colormaps["viridis"](np.linspace(0, 0.85, len(STARTS) - 1)), ORANGE]
    for column, (name, found) in enumerate(results.items()):
        for row, layer in enumerate(LAYERS):
            ax = panels[row, column]
            for start, shade in zip(STARTS, shades, strict=True):
                for length, style in (("short", ":"), ("long", "-")):
                    epoch, *rates = np.array(found[length][start]["over_training"]).T
                    label = f"from {start}" if row == column == 0 and length == "long" else None
                    drawn = rates[row].clip(min=LEAST)
                    ax.plot(epoch / epoch[-1], drawn, style, color=shade, linewidth=1.6, label=label)
            ax.set(yscale="log", ylim=(LEAST * 0.8, 0.75))
            ax.yaxis.set_minor_formatter(NullFormatter())
            dress(ax, title=f"{name}, {found['rows']:,} rows: {layer}", y="drop probability p" if not column else "")
    for ax in panels[-1]:
        ax.set_xlabel("share of the training")
    drawing.legend(loc="outside lower center", ncols=len(STARTS), frameon=False, fontsize=9)
    return drawing


def _temperatures(results: Mapping[str, Any]) -> Figure:
    """Log likelihood, calibration, the training part under both masks, and rates, against the temperature."""
    drawing = Figure(figsize=(9, 9), layout="constrained")
    panels = drawing.subplots(4, len(results), sharex=True, squeeze=False)
    for column, (name, found) in enumerate(results.items()):
        arms = found["temperatures"]
        kind = found["calibration"]
        top, second, third, last = panels[:, column]
        _line(top, arms, itemgetter("log_likelihood"), BLUE)
        dress(top, title=f"{name}: log likelihood, nats")
        _line(second, arms, itemgetter(kind), BLUE)
        if kind == "coverage":
            second.axhline(0.9, color=INK, linewidth=1, linestyle=":")
        dress(second, title="calibration error" if kind == "ece" else "share in 90 % intervals")
        _line(third, arms, itemgetter("relaxed_nll"), ORANGE, "relaxed masks")
        _line(third, arms, itemgetter("hard_nll"), INK, "hard masks")
        dress(third, title="NLL of training rows")
        third.legend(frameon=False, fontsize=8)
        for i, (layer, colour) in enumerate(zip(LAYERS, COLOURS, strict=True)):
            _line(last, arms, partial(_rate, i), colour, layer)
        last.set(xscale="log", yscale="log", xlabel="temperature; star: learned", ylim=(LEAST * 0.8, 1))
        last.yaxis.set_minor_formatter(NullFormatter())
        dress(last, title="learned rates")
    panels[3, 0].legend(frameon=False, fontsize=8)
    for ax in panels.flat:
        ax.axvline(0.1, color=INK, linewidth=0.8, alpha=0.4)
    return drawing


def _rate(layer: int, each: Mapping[str, Any]) -> float:
    return max(float(each["rates"][layer]), LEAST)


def _line(ax: Axes, arms: Mapping[str, Any], value: Callable[[Any], float], colour: str, label: str = "") -> None:
    """Draw one number against the temperature, and a star for the one that was learned."""
    fixed = {float(t): value(each) for t, each in arms.items() if t != LEARNED}
    ax.plot(list(fixed), list(fixed.values()), "o-", color=colour, markersize=4, label=label)
    ax.plot(arms[LEARNED]["temperature"], value(arms[LEARNED]), "*", color=colour, markersize=10)
