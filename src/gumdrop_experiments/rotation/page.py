"""The page of `rotation`."""

import statistics

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gumdrop.views import plots
from gumdrop_experiments.harness import Plain, WithPictures
from gumdrop_experiments.pages import Page, Picture, Table, dress, legend_below, subplots

SCATTER = (
    "A test image of a 1 (number 9978), turned. Each point is one drawn function: what goes into the softmax for the "
    "three classes that come out on top, and what comes out. Good is a spread that overlaps where the answer changes."
)
ENTROPY = (
    "The entropy of the averaged prediction, and its parts. Good is an entropy that rises where the answer changes. "
    "The mutual information is the part that more data would remove."
)
TELLING = (
    "Digits told from pictures that are none: area under the curve (AUROC) of each kind of uncertainty; 1 is perfect."
)
NOTES = (
    "After the example of Gal & Ghahramani 2016, who show this digit to LeNet with dropout of 0.5 and give no figures.",
    "Pictures that are none are made of digits: pixels in one random order; left halves of digits beside right halves "
    "of others, some of which happen to be digits; and negatives. A folder of idx files (letters, clothes) can be "
    "given with --others.",
)

TITLES = {"perceptron": "dense, 3 x 512", "lenet": "LeNet"}
COLOURS = (plots.BLUE, plots.ORANGE, plots.GREEN)
UNCERTAINTIES = {
    "predictive_entropy": ("predictive entropy", plots.INK, "-"),
    "expected_entropy": ("expected entropy of a draw", plots.BLUE, "--"),
    "mutual_information": ("mutual information", plots.ORANGE, "-"),
}
SPREAD = 4.0
"""Degrees over which the points of one angle and its classes are spread."""


def page(found: WithPictures) -> Page:
    """Say where the answers change, and how uncertain they are there."""
    results, pictures = found
    networks = results["networks"].items()
    return Page(
        title="A digit that turns",
        lead=" ".join(f"{TITLES[name]}: {_sentence(results['angles'], network)}" for name, network in networks),
        body=[
            Picture("rotation", SCATTER, _scatter(results, pictures)),
            Picture("rotation-entropy", ENTROPY, _entropy(results)),
            _table(results),
        ],
        notes=[*NOTES, *(_about(name, network) for name, network in networks)],
    )


def _sentence(angles: list[int], network: Plain) -> str:
    label, entropy = network["turning"]["label"], network["turning"]["predictive_entropy"]
    changes = [i for i in range(1, len(label)) if label[i] != label[i - 1]]
    if not changes:
        return f"the answer is {label[0]} at every angle; the entropy is {max(entropy):.2f} nats at most."
    at = ", ".join(f"{angles[i]}° ({label[i - 1]} to {label[i]})" for i in changes)
    around = [entropy[j] for i in changes for j in (i - 1, i)]
    return (
        f"the answer changes at {at}; the entropy is {statistics.fmean(around):.2f} nats on average on both sides of "
        f"these changes, and {statistics.fmean(entropy):.2f} over all angles."
    )


def _about(name: str, network: Plain) -> str:
    rates = ", ".join(f"{p:.3f}" for p in network["rates"])
    return (
        f"{TITLES[name]}: {network['epochs']} epochs, {network['accuracy']:.2%} of the test images, learned p {rates}."
    )


def _table(results: Plain) -> Table:
    rows = [
        [TITLES[name], kind, *(f"{scores[score]:.3f}" for score in UNCERTAINTIES)]
        for name, network in results["networks"].items()
        for kind, scores in network["telling"].items()
    ]
    return Table(TELLING, ["network", "pictures", *(label for label, *_ in UNCERTAINTIES.values())], rows)


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
    drawing, panels = subplots(1, 2, sharey=True, size=(9, 3.9))
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
    legend_below(drawing, panels[0], 3)
    return drawing
