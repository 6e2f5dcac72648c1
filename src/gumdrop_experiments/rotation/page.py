"""The page of `rotation`."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gumdrop.views import plots
from gumdrop_experiments.harness import Plain, WithPictures
from gumdrop_experiments.pages import Page, Picture, Table, dress, legend_below, subplots

SCATTER = """A test image of a 1 (number 9978), turned. Each point is one drawn function: what goes into the softmax
for three classes, and what comes out. Good is a spread that overlaps where the answer changes."""
ENTROPY = """The entropy of the averaged prediction, and its parts; dotted, that of the network with dropout off.
Good is an entropy that rises where the answer changes. The mutual information is the part that more data would
remove."""
PREDICTED = "What each network says, angle by angle from left to right, and the entropy in nats at the first angle."
TELLING = (
    "Digits told from pictures that are none: area under the curve (AUROC) of each kind of uncertainty; 1 is perfect."
)
NOTES = (
    """After Xu, Zhao & Zhao's tutorial, which shows this digit to the networks of `regularisation` after 1,500
    epochs of gradient descent, prints their answers with dropout off, and has figures of the points. The command
    says how they are trained here.""",
    """Pictures that are none are made of digits: pixels in one random order; left halves of digits beside right
    halves of others, some of which happen to be digits; and negatives. A folder of idx files (letters, clothes) can
    be given with --others.""",
)

PUBLISHED = {"perceptron-both": "1 1 1 1 1 3 3 7 7 7 7 7", "lenet-half": "1 1 1 1 1 1 7 7 7 7 7 7"}
"""What the tutorial's networks say, dropout off."""
COLOURS = {1: plots.GREEN, 3: plots.BLUE, 7: plots.ORANGE}
"""Of the classes that are shown."""
UNCERTAINTIES = {
    "predictive_entropy": ("predictive entropy", plots.INK, "-"),
    "expected_entropy": ("expected entropy of a draw", plots.BLUE, "--"),
    "mutual_information": ("mutual information", plots.ORANGE, "-"),
}
SPREAD = 4.0
"""Degrees over which the points of one angle and its classes are spread."""


def page(outcome: WithPictures) -> Page:
    """Say where the answers change, and how uncertain they are there."""
    results, (turned, shown) = outcome
    networks = results["networks"]
    body: list[Picture | Table] = [
        Picture("rotation", SCATTER, _scatter(results, turned, shown)),
        Picture("rotation-entropy", ENTROPY, _entropy(results)),
        _predicted(networks),
        _telling(networks),
    ]
    lead = " ".join(_sentence(results["angles"], network) for network in networks.values())
    return Page("A digit that turns", lead, body, [*NOTES, *map(_about, networks.values())])


def _sentence(angles: list[int], network: Plain) -> str:
    label, entropy = network["turning"]["label"], network["turning"]["predictive_entropy"]
    changes = [i for i in range(1, len(label)) if label[i] != label[i - 1]]
    at = ", ".join(f"{angles[i]}° ({label[i - 1]} to {label[i]})" for i in changes) or "no angle"
    most = f"{max(entropy):.2f} at most, at {angles[entropy.index(max(entropy))]}°"
    return f"{network['label']}: the answer changes at {at}; the entropy is {entropy[0]:.2f} nats at first and {most}."


def _about(network: Plain) -> str:
    rates = "".join(f", learned p {', '.join(f'{p:.3f}' for p in last)}" for last in network["rates"])
    return f"{network['label']}: {network['epochs']} epochs, {network['accuracy']:.2%} of the test images{rates}."


def _predicted(networks: Plain) -> Table:
    rows = []
    for name, network in networks.items():
        turning = network["turning"]
        entropies = (turning["entropy_off"][0], turning["predictive_entropy"][0], turning["mutual_information"][0])
        labels = (" ".join(map(str, turning[label])) for label in ("label_off", "label"))
        rows.append([network["label"], *labels, PUBLISHED.get(name, "–"), *(f"{value:.3f}" for value in entropies)])
    heads = ["network", "dropout off", "draws", "tutorial", "entropy, dropout off", "draws", "mutual information"]
    return Table(PREDICTED, heads, rows)


def _telling(networks: Plain) -> Table:
    rows = [
        [network["label"], kind, *(f"{scores[score]:.3f}" for score in UNCERTAINTIES)]
        for network in networks.values()
        for kind, scores in network["telling"].items()
    ]
    return Table(TELLING, ["network", "pictures", *(label for label, *_ in UNCERTAINTIES.values())], rows)


def _scatter(results: Plain, turned: NDArray[np.float32], shown: dict[str, NDArray[np.float32]]) -> Figure:
    """Inputs and outputs of the softmax, (2, draws, angles, classes), under the picture as it turns, (angles, H, W)."""
    drawing = Figure(figsize=(10, 11), layout="constrained")
    strip, *rows = drawing.subfigures(1 + len(shown), 1, height_ratios=[0.55, *[2.4] * len(shown)], squeeze=False)[:, 0]
    for ax, picture, angle in zip(strip.subplots(1, len(turned)), turned, results["angles"], strict=True):
        ax.imshow(picture, cmap="Greys", vmin=0, vmax=1)
        ax.set_title(f"{angle}°", fontsize=9)
        ax.set_axis_off()
    for row, (name, points) in zip(rows, shown.items(), strict=True):
        axes = row.subplots(1, 2)
        for ax, kind, values in zip(axes, ("inputs", "outputs"), points, strict=True):
            for k, (digit, colour) in enumerate(COLOURS.items()):
                steps = np.linspace(-0.5, 0.5, len(values)) + (k - 1)
                x = np.asarray(results["angles"])[None] + SPREAD / 3 * steps[:, None]
                ax.plot(x, values[:, :, k], ".", color=colour, markersize=1.5, alpha=0.3, rasterized=True)
                ax.plot([], [], "o", color=colour, label=f"class {digit}")
            ax.set_xticks(results["angles"])
            dress(ax, title=f"{results['networks'][name]['label']}: {kind} of the softmax", x="rotation in degrees")
    legend_below(drawing, axes[0], 3)
    return drawing


def _entropy(results: Plain) -> Figure:
    drawing, panels = subplots(2, 2, sharex=True, sharey=True, size=(9, 6.4))
    for ax, network in zip(panels.flat, results["networks"].values(), strict=True):
        turning = network["turning"]
        for kind, (label, colour, style) in UNCERTAINTIES.items():
            ax.plot(results["angles"], turning[kind], style, color=colour, label=label, marker="o", markersize=3.5)
        ax.plot(results["angles"], turning["entropy_off"], ":", color=plots.INK, label="entropy, dropout off")
        for label, *top in zip(turning["label"], results["angles"], turning["predictive_entropy"], strict=True):
            ax.annotate(f"{label}", top, (0, 6), textcoords="offset points", ha="center", fontsize=9)
        ax.set_xticks(results["angles"])
        dress(ax, title=f"{network['label']}; numbers: predicted class", x="rotation in degrees")
    panels[0, 0].set(ylabel="nats", ylim=(0, 2.4))
    legend_below(drawing, panels[0, 0], 4)
    return drawing
