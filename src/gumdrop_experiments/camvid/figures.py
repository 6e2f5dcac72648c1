"""The figures of `camvid`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from gumdrop.views import plots
from gumdrop_experiments.camvid import ALL_VARIANTS, BY_CLASS
from gumdrop_experiments.camvid.study import TRAIN, VALIDATION
from gumdrop_experiments.data.camvid import CAMVID_CLASSES, CAMVID_COLOURS, VOID
from gumdrop_experiments.harness.reproduce import WithPictures
from gumdrop_experiments.pages.axes import dress

Results = Mapping[str, Sequence[Mapping[str, Any]]]
NO_CLASS = (0, 0, 0)
COLOURS = dict(zip(ALL_VARIANTS, (plots.INK, *plots.PALETTE), strict=False))
SIDES = {"down_blocks": 0, "down": 0, "middle": 1, "up": 2, "up_blocks": 2, "join": 2, "head": 3}
"""Parts of the networks, in the order in which data pass them: on the way down, between, on the way up, at the end."""


def figures(found: WithPictures) -> Iterator[tuple[str, Figure]]:
    """Draw training, learned rates and calibration of all networks, and maps of the uncertainties of one."""
    yield "camvid-curves", _curves(found.results)
    if "learned" in found.results:
        yield "camvid-rates", _rates(found.results)
    yield "camvid-calibration", _calibration(found.results)
    yield "camvid-classes", _class_calibration(found.results)
    if found.pictures:
        yield "camvid-maps", _maps(found.pictures)


def by_depth(names: Iterable[str]) -> list[str]:
    """Sort the sites of a network from the picture to the classes; it lists blocks apart from what lies between them.

    Args:
        names: Names of the sites of a network of `camvid`.

    Returns:
        The names, as data pass them.
    """

    def depth(name: str) -> tuple[int, int, int]:
        kind, stage = [*name.split("."), "0"][:2]
        return SIDES[kind], int(stage), list(SIDES).index(kind)

    return sorted(names, key=depth)


def _curves(results: Results) -> Figure:
    """Training loss of each network over epochs, and mean IoU of what it was trained on and of validation pictures."""
    drawing = Figure(figsize=(10, 3.8), layout="constrained")
    losses, shares = drawing.subplots(1, 2)
    for variant, runs in results.items():
        for i, run in enumerate(runs):
            epochs, look = range(1, len(run["nll"]) + 1), {"color": COLOURS[variant], "linewidth": 1.4}
            losses.plot(epochs, run["nll"], label=None if i else variant, **look)
            shares.plot(epochs, run[TRAIN], linestyle=":", **look)
            looks = [(epoch, iou) for epoch, iou in zip(epochs, run[VALIDATION], strict=True) if iou is not None]
            shares.plot(*zip(*looks, strict=True), ".-", **look)
    losses.set_yscale("log")
    dress(losses, title="training loss, under masks", x="epoch", y="nats per pixel").legend(frameon=False, fontsize=9)
    dress(shares, title="validation (solid) and training crops under masks (dotted)", x="epoch", y="mean IoU")
    return drawing


def _rates(results: Results) -> Figure:
    """Learned rates from the picture to the classes, and over training."""
    drawing = Figure(figsize=(10, 3.8), layout="constrained")
    final, over = drawing.subplots(1, 2, sharey=True)
    first = results["learned"][0]["rates"]
    names = by_depth(first)
    for i, run in enumerate(results["learned"]):
        final.plot(range(1, len(names) + 1), [run["rates"][name][-1] for name in names], ".-", label=f"fit {i + 1}")
    for name, colour in zip(names, plots.site_colours(len(names)), strict=True):
        values = first[name]
        over.plot(range(1, len(values) + 1), values, color=colour, linewidth=1, alpha=0.8)
    final.set_ylim(0, None)
    final.locator_params(axis="x", integer=True)
    dress(
        final, title="at the end, a line for each fit", x="convolution, from picture to classes", y="drop probability p"
    )
    dress(over, title="over training (blue: near the picture)", x="epoch")
    return drawing


def _calibration(results: Results) -> Figure:
    """Confidence against accuracy of pixels for each network, with draws."""
    drawing = Figure(figsize=(3.2 * len(results), 3.4), layout="constrained")
    for ax, (variant, runs) in zip(drawing.subplots(1, len(results), squeeze=False)[0], results.items(), strict=True):
        bins = runs[0]["draws"]["calibration"]
        sure, right = (np.array(bins[key], dtype=float) for key in ("p", "right"))
        plots.reliability(sure, right, bins["pixels"], ax=ax)
        ax.set_title(variant, fontsize=10, loc="left")
    return drawing


def _class_calibration(results: Results) -> Figure:
    """Probability of each class against how often it is right, for the first network of each kind."""
    drawing = Figure(figsize=(11, 4.2), layout="constrained")
    panels = drawing.subplots(2, -(-len(CAMVID_CLASSES) // 2), sharex=True, sharey=True)
    for c, ax in enumerate(panels.flat):
        if c == len(CAMVID_CLASSES):
            ax.set_axis_off()
            ax.legend(*panels[0, 0].get_legend_handles_labels(), loc="center", frameon=False, fontsize=9)
            break
        ax.plot([0, 1], [0, 1], color=plots.INK, linewidth=0.8, linestyle=":")
        for title, (variant, how) in BY_CLASS.items():
            if variant not in results:
                continue
            bins = results[variant][0][how]["class_calibration"][c]
            sure, right = (np.array(bins[key], dtype=float) for key in ("p", "right"))
            style = "--" if (variant, how) == ("learned", "no_draws") else "-"
            ax.plot(sure, right, style, color=COLOURS[variant], linewidth=1.4, label=title)
        dress(ax, title=CAMVID_CLASSES[c])
    drawing.supxlabel("probability that the network gives", fontsize=10)
    drawing.supylabel("share of pixels of the class", fontsize=10)
    return drawing


def _maps(shown: Sequence[Mapping[str, Tensor]]) -> Figure:
    """Picture, truth, prediction, both uncertainties and errors, a row for each picture."""
    columns = ("picture", "truth", "prediction", "aleatoric", "epistemic", "errors")
    drawing = Figure(figsize=(2.2 * len(columns), 1.75 * len(shown) + 0.8), layout="constrained")
    panels = drawing.subplots(len(shown), len(columns), squeeze=False)
    most = {name: max(row[name].max().item() for row in shown) for name in ("aleatoric", "epistemic")}
    for row, axes in zip(shown, panels, strict=True):
        known = row["truth"] != VOID
        axes[0].imshow(row["picture"].permute(1, 2, 0).numpy())
        for ax, name in zip(axes[1:3], ("truth", "prediction"), strict=True):
            ax.imshow(_coloured(row[name].numpy()))
        for ax, name in zip(axes[3:5], ("aleatoric", "epistemic"), strict=True):
            ax.imshow(row[name].numpy(), cmap="magma", vmin=0, vmax=most[name])
        axes[5].imshow(((row["prediction"] != row["truth"]) & known).numpy(), cmap="gray_r", vmin=0, vmax=1)
        for ax in axes:
            ax.set_xticks([])
            ax.set_yticks([])
    for ax, name in zip(panels[0], columns, strict=True):
        ax.set_title(name if name not in most else f"{name}, to {most[name]:.2f} nats", fontsize=9)
    colours = [Patch(facecolor="#{:02x}{:02x}{:02x}".format(*colour)) for colour in (*CAMVID_COLOURS, NO_CLASS)]
    drawing.legend(
        colours, [*CAMVID_CLASSES, "no class"], loc="outside lower center", ncols=6, frameon=False, fontsize=10
    )
    return drawing


def _coloured(classes: np.ndarray) -> np.ndarray:
    return np.array([*CAMVID_COLOURS, NO_CLASS], dtype=np.uint8)[classes]
