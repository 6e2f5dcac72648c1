"""The figures of `g2p`."""

from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.axes import dress

__all__ = ["figures"]


def figures(results: Plain) -> Iterator[tuple[str, Figure]]:
    """Draw the training of both networks, and how often words of little and of much disagreement are wrong."""
    yield "g2p-pooled", _pooled(results)
    yield "g2p-spellers", _spellers(results)
    yield "g2p-doubt", _disagreement(results)


def _pooled(results: Plain) -> Figure:
    """The report's two figures: learning curves of all settings, and the learned rates over training."""
    drawing = Figure(figsize=(10, 3.8), layout="constrained")
    curves, rates = drawing.subplots(1, 2)
    names = list(results["pooled"])
    for name, colour in zip(names, plots.site_colours(len(names)), strict=True):
        values = results["pooled"][name]["history"]["validation_nll"]
        learned = name == "learned"
        curves.plot(
            range(1, len(values) + 1),
            values,
            color=plots.ORANGE if learned else colour,
            linewidth=2.2 if learned else 1.3,
            linestyle="--" if name == "broken" else "-",
            label=name,
        )
    dress(curves, title="held-out loss, nats per word", x="epoch").legend(fontsize=8, frameon=False)
    learned_rates = results["pooled"]["learned"]["rates"]
    plots.rates_over_training(range(1, len(next(iter(learned_rates.values()))) + 1), learned_rates, ax=rates)
    rates.set_title("learned rates of the report's network", fontsize=10, loc="left")
    return drawing


def _spellers(results: Plain) -> Figure:
    """Learning curves of the network with attention, and its learned rates."""
    drawing = Figure(figsize=(10, 3.8), layout="constrained")
    curves, rates = drawing.subplots(1, 2)
    for (variant, each), colour in zip(results["spellers"].items(), (plots.ORANGE, plots.BLUE), strict=True):
        history = each["history"]
        epochs = range(1, len(history["nll"]) + 1)
        curves.plot(epochs, history["validation_nll"], color=colour, label=f"{variant}, held out")
        curves.plot(epochs, history["nll"], color=colour, linestyle=":", label=f"{variant}, in training")
    dress(curves, title="network with attention", x="epoch", y="nats per word").legend(fontsize=8, frameon=False)
    learned = results["spellers"]["learned"]["rates"]
    plots.rates_over_training(range(1, len(next(iter(learned.values()))) + 1), learned, ax=rates)
    rates.set_title("its learned rates", fontsize=10, loc="left")
    return drawing


def _disagreement(results: Plain) -> Figure:
    """How often words are wrong, by how much drawn functions disagree on their phones."""
    drawing = Figure(figsize=(10, 3.6), layout="constrained")
    panels = drawing.subplots(1, len(results["spellers"]), sharey=True)
    for ax, (variant, each) in zip(panels, results["spellers"].items(), strict=True):
        disagreements = np.asarray(each["judged"]["doubt"])
        wrong = np.asarray(each["judged"]["wrong"], dtype=float)
        groups = np.array_split(np.argsort(disagreements, kind="stable"), min(10, len(disagreements)))
        heights = [100 * wrong[group].mean() for group in groups]
        colour = plots.ORANGE if variant == "learned" else plots.BLUE
        ax.bar(np.arange(len(groups)) + 0.5, heights, width=0.85, color=colour)
        ax.axhline(100 * wrong.mean(), color=plots.INK, linewidth=1, linestyle=":")
        ax.set_xticks([0, len(groups)], ["least", "most"])
        dress(ax, title=f"{variant}: wrong words by disagreement", x="disagreement of drawn functions")
    panels[0].set_ylabel("words said wrong, %")
    return drawing
