"""The figures of `co2`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.axes import dress

__all__ = ["NETWORKS", "PROCESSES", "figures"]


PROCESSES = {"squared-exponential": "GP, squared exponential", "seasonal": "GP, seasonal kernel"}
NETWORKS = {
    "relu-fixed": "MC dropout, ReLU, p = .2",
    "tanh-fixed": "MC dropout, tanh, p = .2",
    "relu-learned": "MC dropout, ReLU, learned p",
    "tanh-learned": "MC dropout, tanh, learned p",
}


def figures(results: Plain) -> Iterator[tuple[str, Figure]]:
    """Draw each way to extrapolate, for fixed rates and for learned ones."""
    yield "co2", _panels(results, "fixed")
    yield "co2-learned", _panels(results, "learned")


def _panels(results: Plain, kind: str) -> Figure:
    """Draw weight averaging, a Gaussian process, and drawn functions of both networks, with bands of two SDs."""
    drawing = Figure(figsize=(10, 6.2), layout="constrained")
    axes = drawing.subplots(2, 2, sharex=True, sharey=True)
    process = "squared-exponential" if kind == "fixed" else "seasonal"
    names = [f"{activation}-{kind}" for activation in ("relu", "tanh")]
    relu, tanh = (results["networks"][name] for name in names)
    for ax in axes.flat:
        _data(ax, results)
    _line(axes[0, 0], relu["curve"]["x"], relu["curve"]["averaged"])
    dress(axes[0, 0], title=f"weight averaging, ReLU, {'p = .2' if kind == 'fixed' else 'learned p'}")
    curve = results["processes"][process]["curve"]
    _line(axes[0, 1], curve["x"], curve["mean"])
    _band(axes[0, 1], curve["x"], curve["mean"], curve["std"], plots.BLUE, "2 SD, noise included")
    dress(axes[0, 1], title=PROCESSES[process])
    for ax, name, network in zip(axes[1], names, (relu, tanh), strict=True):
        curve = network["curve"]
        total = np.hypot(curve["epistemic"], network["noise"])
        _line(ax, curve["x"], curve["mean"])
        _band(ax, curve["x"], curve["mean"], total, plots.BLUE, "2 SD, noise included")
        _band(ax, curve["x"], curve["mean"], curve["epistemic"], plots.ORANGE, "2 SD of drawn functions")
        dress(ax, title=NETWORKS[name], x="month, standardised")
    for ax in axes[:, 0]:
        ax.set_ylabel("CO₂ less trend, standardised")
    axes[0, 0].set(xlim=(results["data"]["x"][0], results["data"]["later_x"][-1]), ylim=(-4.5, 9))
    drawing.legend(*axes[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return drawing


def _data(ax: Axes, results: Plain) -> None:
    data = results["data"]
    ax.plot(data["x"], data["y"], "-", color=plots.INK, linewidth=0.7, label="record, trained on")
    ax.plot(data["later_x"], data["later_y"], "-", color=plots.GREEN, linewidth=0.9, label="record, later")
    ax.axvline(data["x"][-1], color=plots.INK, linewidth=0.8, linestyle=":")


def _line(ax: Axes, x: Any, y: Any) -> None:
    ax.plot(x, y, color=plots.ORANGE, linewidth=1.7, label="prediction", zorder=3)


def _band(ax: Axes, x: Any, mean: Any, std: Any, colour: str, label: str) -> None:
    middle, width = np.asarray(mean), 2 * np.asarray(std)
    ax.fill_between(x, middle - width, middle + width, color=colour, alpha=0.2, linewidth=0, label=label)
