"""The figures of `co2`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.co2 import KINDS
from gumdrop_experiments.co2.chains import hyper_parameters
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.axes import dress

PROCESSES = {
    "squared-exponential": "GP, squared exponential",
    "sampled": "GP, squared exponential, sampled",
    "seasonal": "GP, seasonal kernel",
}
BESIDE = {"scripts": "sampled", "fixed": "squared-exponential", "learned": "seasonal"}
"""The process that stands beside each kind of networks, where it was computed."""
Lines = dict[str, Any]


def figures(results: Plain) -> Iterator[tuple[str, Figure]]:
    """Draw the record, each way to extrapolate it, how the networks learn it, and the chains of the process."""
    yield "co2-record", _record(results)
    for kind in kinds(results):
        yield f"co2-{kind}", _panels(results, kind)
    if results["networks"]:
        yield "co2-fit", _fit(results["networks"])
    if "sampled" in results["processes"]:
        yield "co2-chains", hyper_parameters(results["processes"])


def kinds(results: Plain) -> list[str]:
    """Say which kinds of networks there are."""
    return [kind for kind in KINDS if _of_kind(results, kind)]


def _of_kind(results: Plain, kind: str) -> list[Plain]:
    return [each for name, each in results["networks"].items() if name.rpartition("-")[2] == kind]


def _record(results: Plain) -> Figure:
    """Draw the record as the networks get it, and what followed."""
    drawing = Figure(figsize=(10, 3), layout="constrained")
    ax = drawing.subplots()
    _data(ax, results)
    dress(ax, x="month, standardised", y="CO₂ less trend, standardised")
    ax.legend(frameon=False, fontsize=9)
    return drawing


def _panels(results: Plain, kind: str) -> Figure:
    """Draw weight averaging, a Gaussian process, and drawn functions of the networks, with bands of two SDs."""
    drawing = Figure(figsize=(10, 6.2), layout="constrained")
    axes = drawing.subplots(2, 2, sharex=True, sharey=True)
    x, process, networks = results["asked"], BESIDE.get(kind, ""), _of_kind(results, kind)
    for ax in axes.flat:
        _data(ax, results)
    _averaged(axes[0, 0], x, networks[0])
    if process in results["processes"]:
        curve = results["processes"][process]["curve"]
        _line(axes[0, 1], x, curve["mean"])
        _band(axes[0, 1], x, curve["mean"], curve["std"], plots.BLUE, "2 SD, noise included")
        dress(axes[0, 1], title=PROCESSES[process])
    else:
        _averaged(axes[0, 1], x, networks[-1])
    for ax, network in zip(axes[1], networks, strict=False):
        curve = network["curve"]
        _line(ax, x, curve["mean"])
        total = np.hypot(curve["epistemic"], network["noise"])
        _band(ax, x, curve["mean"], total, plots.BLUE, "2 SD, noise included")
        _band(ax, x, curve["mean"], curve["epistemic"], plots.ORANGE, "2 SD of drawn functions")
        dress(ax, title=f"drawn functions, {network['label']}", x="month, standardised")
    if len(networks) == 1:
        axes[1, 1].remove()
        axes[0, 1].tick_params(labelbottom=True)
    for ax in axes[:, 0]:
        ax.set_ylabel("CO₂ less trend, standardised")
    axes[0, 0].set(xlim=(x[0], x[-1]), ylim=(-4.5, 9))
    drawing.legend(*axes[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return drawing


def _averaged(ax: Axes, x: Any, network: Plain) -> None:
    _line(ax, x, network["curve"]["averaged"])
    dress(ax, title=f"weight averaging, {network['label']}")


def _data(ax: Axes, results: Plain) -> None:
    data = results["data"]
    ax.plot(data["x"], data["y"], "-", color=plots.INK, linewidth=0.7, label="record, trained on")
    ax.plot(data["later_x"], data["later_y"], "-", color=plots.GREEN, linewidth=0.9, label="record, later")
    ax.axvline(data["x"][-1], color=plots.INK, linewidth=0.8, linestyle=":")


def _line(ax: Axes, x: Any, y: Any) -> None:
    ax.plot(x, y, color=plots.ORANGE, linewidth=1.4, label="prediction", zorder=3)


def _band(ax: Axes, x: Any, mean: Any, std: Any, colour: str, label: str) -> None:
    middle, width = np.asarray(mean), 2 * np.asarray(std)
    ax.fill_between(x, middle - width, middle + width, color=colour, alpha=0.2, linewidth=0, label=label)


def _fit(networks: Plain) -> Figure:
    """Draw the share of the seasons that each network explains, its error, and the learned rates, over steps."""
    drawing = Figure(figsize=(11, 3.6), layout="constrained")
    seasons, errors, rates = drawing.subplots(1, 3)
    colours = dict(zip(KINDS, (plots.INK, *plots.PALETTE), strict=False))
    for name, network in networks.items():
        activation, kind = name.split("-")
        look: Lines = {"color": colours[kind], "linestyle": "-" if activation == "relu" else "--", "linewidth": 1.2}
        steps = [each["step"] for each in network["looks"]]
        seasons.plot(steps, [100 * each["seasons"] for each in network["looks"]], label=network["label"], **look)
        errors.plot(steps, [each["rmse"] for each in network["looks"]], **look)
        if kind in ("learned", "narrow", "held"):
            rates.plot(steps, [np.mean(each["rates"]) for each in network["looks"]], **look)
    dress(seasons, title="seasons explained, %", x="step").set_ylim(-10, 102)
    dress(errors, title="RMSE on the months of training", x="step").set_ylim(0, None)
    dress(rates, title="learned p, mean over layers", x="step").set_ylim(0, None)
    for ax in (seasons, errors, rates):
        ax.set_xscale("log")
        ax.set_xlim(left=10)
    drawing.legend(*seasons.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return drawing
