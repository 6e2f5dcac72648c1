"""The figures of `gradients`."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from gumdrop.views import plots
from gumdrop_experiments.pages.axes import dress

FORMS = ("original", "simplified", "ours")
OTHERS = {"straight-through": plots.PALETTE[3], "REINFORCE": plots.PALETTE[5], "DisARM": plots.GREEN}
STAGES = {"start": "at the start, all rates one half", "midst": "in the midst of a search"}
SHADES = (plots.INK, plots.BLUE, plots.PALETTE[4], plots.GREEN, plots.PALETTE[5])


def figures(results: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Draw bias and deviation of each estimator, the norms over searches, and how far these differ between runs."""
    yield "gradients-bias-variance", _bias_variance(results["enumeration"])
    yield "gradients-norms", _norms(results["norms"])
    yield "gradients-deviations", _deviations(results["norms"])


def _temperatures(found: Mapping[str, Any]) -> list[str]:
    return [name.removeprefix("ours t=") for name in found if name.startswith("ours t=")]


def _bias_variance(part: Mapping[str, Any]) -> Figure:
    """Standard deviation against bias of each estimator, both as shares of the exact gradient's norm."""
    drawing = Figure(figsize=(8.2, 3.6), layout="constrained")
    for ax, (stage, title) in zip(drawing.subplots(1, 2, sharex=True, sharey=True), STAGES.items(), strict=True):
        found = part[stage]
        relaxed = [found[f"ours t={t}"] for t in _temperatures(found)]
        xs, ys = [row["bias"] for row in relaxed], [row["deviation"] for row in relaxed]
        ax.plot(xs, ys, "o-", color=plots.BLUE, markersize=4, linewidth=1.2, label="relaxed, any of its three forms")
        for x, y, t in zip(xs, ys, _temperatures(found), strict=True):
            ax.annotate(f"t={t}", (x, y), xytext=(5, 4), textcoords="offset points", fontsize=plots.SIZE - 1.5)
        for name, colour in OTHERS.items():
            ax.plot(found[name]["bias"], found[name]["deviation"], "D", color=colour, markersize=5, label=name)
        ax.set(yscale="log", xlim=(-0.015, None))
        ax.set_yticks([0.2, 0.5, 1, 2, 4], labels=["0.2", "0.5", "1", "2", "4"])
        ax.yaxis.set_minor_formatter(NullFormatter())
        dress(ax, title=title, x="bias / norm of the exact gradient")
        if stage == "start":
            ax.set_ylabel("standard deviation / norm")
    ax.legend(fontsize=plots.SIZE - 1, frameon=False, loc="best")
    return drawing


def _norms(part: Mapping[str, Any]) -> Figure:
    """Norm of the gradient over searches: mean and one standard deviation over runs."""
    drawing = Figure(figsize=(8.2, 5.6), layout="constrained")
    axes = drawing.subplots(2, 2, sharex=True, sharey=True).flat
    for ax, form in zip(axes, FORMS, strict=False):
        for t, colour in zip(_temperatures(part), SHADES, strict=True):
            _band(ax, part[f"{form} t={t}"], colour, f"t={t}")
        dress(ax, title=form)
    for name, colour in OTHERS.items():
        _band(axes[3], part[name], colour, name)
    dress(axes[3], title="without a relaxation")
    for ax in axes[2:]:
        ax.set_xlabel("step")
    for ax in axes[::2]:
        ax.set_ylabel("L2 norm")
    for ax, place in ((axes[0], "upper right"), (axes[3], "center right")):
        ax.legend(fontsize=plots.SIZE - 1, frameon=False, loc=place)
    axes[0].set_yscale("log")
    axes[0].set_yticks([0.1, 0.2, 0.5, 1, 2, 5], labels=["0.1", "0.2", "0.5", "1", "2", "5"])
    axes[0].yaxis.set_minor_formatter(NullFormatter())
    return drawing


def _deviations(part: Mapping[str, Any]) -> Figure:
    """Standard deviation of the norm over runs: of the relaxed forms at each temperature, and of what has none."""
    drawing = Figure(figsize=(8.2, 3.4), layout="constrained")
    relaxed, others = drawing.subplots(1, 2, sharex=True, sharey=True)
    for t, colour in zip(_temperatures(part), SHADES, strict=True):
        for form, line in zip(FORMS, ("-", "--", ":"), strict=True):
            _deviation(
                relaxed, part[f"{form} t={t}"], color=colour, linestyle=line, label=f"t={t}" if line == "-" else ""
            )
    for name, colour in OTHERS.items():
        _deviation(others, part[name], color=colour, label=name)
    dress(relaxed, title="original (solid), simplified (dashed), ours (dotted)", x="step", y="SD of the norm over runs")
    dress(others, title="without a relaxation", x="step")
    relaxed.set_yscale("log")
    for ax in (relaxed, others):
        ax.legend(fontsize=plots.SIZE - 1, frameon=False)
    return drawing


def _deviation(ax: Axes, row: Mapping[str, Any], **look: Any) -> None:
    ax.plot(np.arange(1, len(row["sd"]) + 1), row["sd"], linewidth=1.3, **look)


def _band(ax: Axes, row: Mapping[str, Any], colour: str, label: str) -> None:
    mean, sd = np.asarray(row["mean"]), np.asarray(row["sd"])
    steps = np.arange(1, len(mean) + 1)
    ax.plot(steps, mean, color=colour, linewidth=1.3, label=label)
    ax.fill_between(steps, np.maximum(mean - sd, mean * 0.05), mean + sd, color=colour, alpha=0.18, linewidth=0)
