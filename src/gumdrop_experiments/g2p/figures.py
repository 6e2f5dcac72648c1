"""The figures of `g2p`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.g2p import SPELLERS
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.axes import dress

SCORES = {
    "validation_nll": "held-out loss, nats per word",
    "validation_hamming": "Hamming distance of held-out words",
}
"""What is known of each epoch of the report's network: its distance only where it is trained as reported."""


def figures(results: Plain) -> Iterator[tuple[str, Figure]]:
    """Draw the training of both networks, and how often words of little and of much disagreement are wrong."""
    if results["pooled"]:
        yield "g2p-pooled", _pooled(results["pooled"])
    if results["spellers"]:
        yield "g2p-spellers", _spellers(results)
        yield "g2p-doubt", _disagreement(results)


def _pooled(readers: Plain) -> Figure:
    """The report's two figures: learning curves of all settings, and the rates of those that learn them."""
    some = next(iter(readers.values()))["history"]
    scores = {name: title for name, title in SCORES.items() if name in some}
    learners = [name for name, each in readers.items() if not name.startswith("fixed") and len(each["rates"]) > 1]
    columns = 2 if len(scores) + len(learners) <= 4 else 3
    rows = -(-(len(scores) + len(learners)) // columns)
    drawing = Figure(figsize=(5 * columns, 3.8 * rows), layout="constrained")
    panels = iter(drawing.subplots(rows, columns, squeeze=False).flat)
    for score, title in scores.items():
        ax = dress(next(panels), title=title, x="epoch")
        for name, each in readers.items():
            values = each["history"][score]
            ax.plot(range(1, len(values) + 1), values, label=name, **_look(name))
        ax.locator_params(axis="x", integer=True)
        ax.legend(fontsize=8, frameon=False)
    for name in learners:
        rates = readers[name]["rates"]
        ax = plots.rates_over_training(range(1, len(next(iter(rates.values()))) + 1), rates, ax=next(panels))
        ax.set_title(f"rates: {name}", fontsize=10.5, loc="left")
        ax.locator_params(axis="x", integer=True)
    for ax in panels:
        ax.set_axis_off()
    return drawing


def _look(variant: str) -> dict[str, Any]:
    """How the curve of a setting is drawn: the smaller a fixed rate, the darker."""
    if variant == "fixed 0":
        return {"color": plots.PALETTE[3], "linewidth": 1.3}
    if variant.startswith("fixed"):
        return {"color": plots.BLUE, "alpha": 1.2 - 2 * float(variant.removeprefix("fixed ")), "linewidth": 1.3}
    if variant == "broken":
        return {"color": plots.INK, "linestyle": "--", "linewidth": 1.5}
    return {"color": plots.ORANGE if variant == "learned" else plots.PALETTE[2], "linewidth": 2.2}


def _spellers(results: Plain) -> Figure:
    """Learning curves of the network with attention, and its learned rates."""
    drawing = Figure(figsize=(10, 3.8), layout="constrained")
    curves, rates = drawing.subplots(1, 2)
    for variant in (variant for variant in SPELLERS if variant in results["spellers"]):
        history = results["spellers"][variant]["history"]
        colour = plots.ORANGE if variant == "learned" else plots.BLUE
        epochs = range(1, len(history["nll"]) + 1)
        curves.plot(epochs, history["validation_nll"], color=colour, label=f"{variant}, held out")
        curves.plot(epochs, history["nll"], color=colour, linestyle=":", label=f"{variant}, in training")
    dress(curves, title="network with attention", x="epoch", y="nats per word").legend(fontsize=8, frameon=False)
    shown = "learned" if "learned" in results["spellers"] else "fixed 0.2"
    values = results["spellers"][shown]["rates"]
    plots.rates_over_training(range(1, len(next(iter(values.values()))) + 1), values, ax=rates)
    rates.set_title(f"its rates: {shown}", fontsize=10.5, loc="left")
    return drawing


def _disagreement(results: Plain) -> Figure:
    """How often words are wrong, by how much drawn functions disagree on their phones."""
    drawing = Figure(figsize=(10, 3.6), layout="constrained")
    panels = drawing.subplots(1, len(results["spellers"]), sharey=True, squeeze=False)[0]
    for ax, (variant, each) in zip(panels, results["spellers"].items(), strict=True):
        disagreements = np.asarray(each["judged"]["doubt"])
        wrong = np.asarray(each["judged"]["wrong"], dtype=float)
        groups = np.array_split(np.argsort(disagreements, kind="stable"), min(10, len(disagreements)))
        heights = [100 * wrong[group].mean() for group in groups]
        colour = plots.BLUE if variant.startswith("fixed") else plots.ORANGE
        ax.bar(np.arange(len(groups)) + 0.5, heights, width=0.85, color=colour)
        ax.axhline(100 * wrong.mean(), color=plots.INK, linewidth=1, linestyle=":")
        ax.set_xticks([0, len(groups)], ["least", "most"])
        dress(ax, title=f"{variant}: wrong words by disagreement", x="disagreement of drawn functions")
    panels[0].set_ylabel("words said wrong, %")
    return drawing
