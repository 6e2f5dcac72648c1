"""Figures and page of `gumdrop reproduce camvid`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Drawing
from torch import Tensor

from gumdrop.views import plots
from gumdrop_experiments.data.camvid import CAMVID_CLASSES, CAMVID_COLOURS, VOID
from gumdrop_experiments.pages.axes import dress
from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.pages.page import Figure, Page, Table

__all__ = ["calibration", "class_calibration", "curves", "maps", "page", "rates"]

Results = Mapping[str, Sequence[Mapping[str, Any]]]
COLOURS = dict(
    zip(
        ("none", "fixed 0.2", "learned", "learned, aleatoric head"),
        (plots.INK, plots.BLUE, plots.ORANGE, plots.GREEN),
        strict=True,
    )
)


def curves(results: Results) -> Drawing:
    """Training loss of each network over epochs."""
    drawing = Drawing(figsize=(6, 3.8), layout="constrained")
    ax = drawing.subplots()
    for arm, runs in results.items():
        for i, run in enumerate(runs):
            ax.plot(range(1, len(run["nll"]) + 1), run["nll"], color=COLOURS[arm], label=None if i else arm)
    ax.set_yscale("log")
    dress(ax, title="training loss, under masks", x="epoch", y="nats per pixel").legend(frameon=False, fontsize=9)
    return drawing


def rates(results: Results) -> Drawing:
    """Learned rates from the picture to the classes, and over training."""
    drawing = Drawing(figsize=(10, 3.8), layout="constrained")
    final, over = drawing.subplots(1, 2, sharey=True)
    for i, run in enumerate(results["learned"]):
        names = list(run["rates"])
        final.plot(range(1, len(names) + 1), [run["rates"][name][-1] for name in names], ".-", label=f"fit {i + 1}")
    run = results["learned"][0]
    for values, colour in zip(run["rates"].values(), plots.site_colours(len(run["rates"])), strict=True):
        over.plot(range(1, len(values) + 1), values, color=colour, linewidth=1, alpha=0.8)
    final.set_ylim(0, None)
    final.locator_params(axis="x", integer=True)
    dress(
        final, title="at the end, a line for each fit", x="convolution, from picture to classes", y="drop probability p"
    )
    dress(over, title="over training (blue: near the picture)", x="epoch")
    return drawing


def calibration(results: Results) -> Drawing:
    """Confidence against accuracy of pixels for each network, with draws."""
    drawing = Drawing(figsize=(3.2 * len(results), 3.4), layout="constrained")
    for ax, (arm, runs) in zip(drawing.subplots(1, len(results), squeeze=False)[0], results.items(), strict=True):
        bins = runs[0]["draws"]["calibration"]
        sure, right = (np.array(bins[key], dtype=float) for key in ("p", "right"))
        plots.reliability(sure, right, bins["pixels"], ax=ax)
        ax.set_title(arm, fontsize=10, loc="left")
    return drawing


def class_calibration(results: Results) -> Drawing:
    """Probability of each class against how often it is right, for the first network of each kind."""
    drawing = Drawing(figsize=(11, 4.2), layout="constrained")
    panels = drawing.subplots(2, -(-len(CAMVID_CLASSES) // 2), sharex=True, sharey=True)
    for c, ax in enumerate(panels.flat):
        if c == len(CAMVID_CLASSES):
            ax.set_axis_off()
            ax.legend(*panels[0, 0].get_legend_handles_labels(), loc="center", frameon=False, fontsize=9)
            break
        ax.plot([0, 1], [0, 1], color=plots.INK, linewidth=0.8, linestyle=":")
        for arm, runs in results.items():
            bins = runs[0]["draws"]["class_calibration"][c]
            sure, right = (np.array(bins[key], dtype=float) for key in ("p", "right"))
            ax.plot(sure, right, color=COLOURS[arm], linewidth=1.4, label=arm)
        dress(ax, title=CAMVID_CLASSES[c])
    drawing.supxlabel("probability that the network gives", fontsize=10)
    drawing.supylabel("share of pixels of the class", fontsize=10)
    return drawing


def maps(shown: Sequence[Mapping[str, Tensor]]) -> Drawing:
    """Picture, truth, prediction, both doubts and errors, a row for each picture."""
    columns = ("picture", "truth", "prediction", "aleatoric", "epistemic", "errors")
    drawing = Drawing(figsize=(2.2 * len(columns), 1.75 * len(shown) + 0.3), layout="constrained")
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
    return drawing


def _coloured(classes: np.ndarray) -> np.ndarray:
    return np.array([*CAMVID_COLOURS, (0, 0, 0)], dtype=np.uint8)[classes]


def page(results: Results) -> Page:
    """Say what came out.

    Args:
        results: The runs of each arm.

    Returns:
        The page.
    """
    ours, fixed = (_mean(results, arm, "draws") for arm in ("learned", "fixed 0.2"))
    return Page(
        title="Street scenes (CamVid)",
        lead=(
            f"With draws, learned rates reach a mean IoU of {100 * ours['miou']:.1f} %, fixed 0.2 "
            f"{100 * fixed['miou']:.1f} %; log loss {ours['nll']:.3f} and {fixed['nll']:.3f} nats per pixel, "
            f"calibration error {100 * ours['ece']:.2f} and {100 * fixed['ece']:.2f} %. The epistemic part announces "
            f"wrong pixels with an AUROC of {_auroc(results, 'learned', 'draws', 'mutual_information')}."
        ),
        body=[
            _table(results),
            Figure(
                "camvid-maps", "Test pictures. Good is doubt where the errors are; black in the truth has no class."
            ),
            Figure(
                "camvid-calibration", "How sure the first network of each kind was of a pixel, and how often right."
            ),
            Figure("camvid-classes", "The same for each class by itself."),
            Figure("camvid-rates", "Learned rates by depth, for each fit, and over the training of the first."),
            _classes(results),
            Figure("camvid-curves", "Training loss."),
        ],
        notes=[
            "All stand at the same places: in front of every convolution but the first. 'None' has rates of 0. Crops "
            "are mirrored at random. Void pixels count nowhere. A mask drops whole channels of a picture.",
            "Published, at 360 x 480 with FC-DenseNet103: 66.9 % mean IoU with fixed .2, 67.2 % learned, 67.4 % with "
            "draws (quoted from memory); a replication report has .401, .414 and .418 by a mean IoU that is formed for "
            "each picture and then averaged, 'a picture' in the table. These are not comparable to smaller pictures.",
        ],
    )


SCORES = {
    "miou": ("mean IoU, %", 100, 1),
    "miou_per_picture": ("mean IoU, a picture", 1, 3),
    "accuracy": ("right pixels, %", 100, 1),
    "nll": ("nats per pixel", 1, 3),
    "ece": ("calibration error, %", 100, 2),
    "calibration_mse": ("calibration MSE, classes", 1, 5),
}
"""Title, factor and digits of each column."""


def _mean(results: Results, arm: str, how: str) -> dict[str, float]:
    return {name: float(np.mean([run[how][name] for run in results[arm]])) for name in SCORES}


def _auroc(results: Results, arm: str, how: str, doubt: str) -> str:
    values = [run[how]["auroc"][doubt] for run in results[arm]]
    return "–" if None in values else f"{np.mean(values):.3f}"


def _table(results: Results) -> Table:
    rows = []
    for arm in results:
        for how, words in (("no_draws", "no draws"), ("draws", "draws")):
            if arm == "none" and how == "draws":
                continue
            cells = [f"{arm}, {words}"]
            for score, (_, scale, digits) in SCORES.items():
                mean, error = mean_and_error(scale * run[how][score] for run in results[arm])
                cells.append(f"{mean:.{digits}f}" + f" ({error:.{digits}f})" * (len(results[arm]) > 1))
            cells.append(_auroc(results, arm, how, "mutual_information") if how == "draws" else "–")
            cells.append(_auroc(results, arm, how, "predictive_entropy"))
            rows.append(cells)
    columns = ["dropout", *(title for title, *_ in SCORES.values()), "AUROC of errors, epistemic", "of all doubt"]
    ours = [i for i, row in enumerate(rows) if row[0].startswith("learned")]
    return Table("Test pictures; means over networks, standard errors in brackets.", columns, rows, ours=ours)


def _classes(results: Results) -> Table:
    rows = []
    for arm, runs in results.items():
        how = "no_draws" if arm == "none" else "draws"
        values = [[run[how]["iou"][c] for run in runs] for c in range(len(CAMVID_CLASSES))]
        rows.append([arm, *("–" if None in each else f"{100 * np.mean(each):.1f}" for each in values)])
    return Table("Intersection over union of each class, %, with draws.", ["dropout", *CAMVID_CLASSES], rows)
