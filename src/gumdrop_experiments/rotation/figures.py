"""The figures of `rotation`."""

from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gumdrop.views import plots
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.harness.reproduce import WithPictures
from gumdrop_experiments.pages.axes import dress

TITLES = {"perceptron": "dense, 3 x 512", "lenet": "LeNet"}
COLOURS = (plots.BLUE, plots.ORANGE, plots.GREEN)
UNCERTAINTIES = {
    "predictive_entropy": ("predictive entropy", plots.INK, "-"),
    "expected_entropy": ("expected entropy of a draw", plots.BLUE, "--"),
    "mutual_information": ("mutual information", plots.ORANGE, "-"),
}
SPREAD = 4.0
"""Degrees over which the points of one angle and its classes are spread."""


def figures(found: WithPictures) -> Iterator[tuple[str, Figure]]:
    """Draw the softmax under the picture as it turns, and the parts of the entropy."""
    yield "rotation", _scatter(found.results, found.pictures)
    yield "rotation-entropy", _entropy(found.results)


def _scatter(results: Plain, pictures: NDArray[np.float32]) -> Figure:
    """Inputs and outputs of the softmax at each angle, under the picture as it turns, shape (angles, H, W)."""
    drawing = Figure(figsize=(10, 6.4), layout="constrained")
    strip, *rows = drawing.subfigures(3, 1, height_ratios=[0.55, 2.4, 2.4], squeeze=False)[:, 0]
    for ax, picture, angle in zip(strip.subplots(1, len(pictures)), pictures, results["angles"], strict=True):
        ax.imshow(picture, cmap="Greys", vmin=0, vmax=1)
        ax.set_title(f"{angle}°", fontsize=9)
        ax.set_axis_off()
    for part, (name, network) in zip(rows, results["networks"].items(), strict=True):
        axes = part.subplots(1, 2)
        for ax, kind in zip(axes, ("inputs", "outputs"), strict=True):
            values = np.asarray(network["turning"][kind])
            for k, (digit, colour) in enumerate(zip(network["turning"]["classes"], COLOURS, strict=False)):
                steps = np.linspace(-0.5, 0.5, len(values)) + (k - 1)
                x = np.asarray(results["angles"])[None] + SPREAD / 3 * steps[:, None]
                ax.plot(x, values[:, :, k], ".", color=colour, markersize=2.5, alpha=0.5, rasterized=True)
                ax.plot([], [], "o", color=colour, label=f"{digit}")
            ax.set_xticks(results["angles"])
            dress(ax, title=f"{TITLES[name]}: {kind} of the softmax", x="rotation in degrees")
        axes[0].legend(frameon=False, fontsize=9, title="class", title_fontsize=9, ncols=3, loc="best")
    return drawing


def _entropy(results: Plain) -> Figure:
    """The parts of the entropy at each angle, with the class that is predicted."""
    drawing = Figure(figsize=(9, 3.9), layout="constrained")
    panels = drawing.subplots(1, 2, sharey=True)
    for ax, (name, network) in zip(panels, results["networks"].items(), strict=True):
        turning = network["turning"]
        for kind, (label, colour, style) in UNCERTAINTIES.items():
            ax.plot(results["angles"], turning[kind], style, color=colour, label=label, marker="o", markersize=3.5)
        for angle, label, height in zip(
            results["angles"], turning["label"], turning["predictive_entropy"], strict=True
        ):
            ax.annotate(f"{label}", (angle, height), (0, 6), textcoords="offset points", ha="center", fontsize=9)
        ax.set_xticks(results["angles"])
        dress(ax, title=f"{TITLES[name]}; numbers: predicted class", x="rotation in degrees")
    highest = max(max(network["turning"]["predictive_entropy"]) for network in results["networks"].values())
    panels[0].set(ylabel="nats", ylim=(0, 1.12 * highest))
    drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return drawing
