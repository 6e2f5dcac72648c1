"""The page of `camvid`."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray
from torch import Tensor

from gumdrop.views import plots
from gumdrop_experiments.camvid import ALL_VARIANTS, BY_CLASS
from gumdrop_experiments.camvid.study import TRAIN, VALIDATION
from gumdrop_experiments.data.camvid import CAMVID_CLASSES, CAMVID_COLOURS, VOID
from gumdrop_experiments.harness import Plain, WithPictures
from gumdrop_experiments.pages import Page, Picture, Table, dress, mean_and_error, subplots, with_error

Results = Mapping[str, Sequence[Plain]]
SCORES = {
    "miou": ("mean IoU, %", 100, 1),
    "miou_per_picture": ("mean IoU, a picture", 1, 3),
    "accuracy": ("right pixels, %", 100, 1),
    "nll": ("nats per pixel", 1, 3),
    "ece": ("calibration error, %", 100, 2),
    "overconfidence": ("confidence − accuracy, %", 100, 2),
    "calibration_mse": ("calibration MSE, classes", 1, 5),
}
"""Title, factor and digits of each column."""
MAPS = "Test pictures. Good is uncertainty where the errors are; black in the truth has no class."
RATES = "Learned rates by depth, for each fit, and over the training of the first."
CURVES = "Training loss, and mean IoU after each epoch of the validation pictures and of the crops trained on."
AVERAGES = """The first networks scored as the report does, too: it averages logarithms of probabilities, over all
pixels, of which those without a class are never right."""
ERRORS = ("ece", "overconfidence")
BY_DRAWS = """Mean IoU, %, by the statistics that normalise maps, by what of the draws is averaged, and by their
number; means over networks, standard errors in brackets."""
CLASS_CALIBRATION = "Calibration error of each class by itself, %, over all pixels."
IOU = "Intersection over union of each class, %, with draws."
CALIBRATION = """How sure the first network of each kind was of a pixel, and how often right; bins of less than one
pixel in 10,000 are left out."""
LEAST_SHARE = 1e-4
NOTES = (
    """All stand at the same places: in front of every convolution but the first. 'None' has rates of 0. Crops are
    mirrored at random. Void pixels count nowhere. A mask drops whole channels of a picture.""",
    """Published, at 360 x 480 with FC-DenseNet103: 66.9 % mean IoU with fixed .2, 67.2 % learned, 67.4 % with draws
    (quoted from memory); a replication report has .401, .414 and .418 by a mean IoU that is formed for each picture
    and then averaged, 'a picture' in the table. These are not comparable to smaller pictures.""",
)

COLOURS_OF_CLASSES = [*CAMVID_COLOURS.values(), (0, 0, 0)]
COLOURS = dict(zip(ALL_VARIANTS, (plots.INK, *plots.PALETTE), strict=False))
SIDES = {"down_blocks": 0, "down": 0, "middle": 1, "up": 2, "up_blocks": 2, "join": 2, "head": 3}
"""Parts of the networks, in the order in which data pass them: on the way down, between, on the way up, at the end."""


def page(outcome: WithPictures) -> Page:
    """Hold learned rates against fixed ones."""
    results, shown = outcome
    by_class = {title: which for title, which in BY_CLASS.items() if which[0] in results}
    with_draws = {variant: (variant, "no_draws" if variant == "none" else "draws") for variant in results}
    body: list[Picture | Table] = [
        _table(results),
        *([Picture("camvid-maps", MAPS, _maps(shown))] if shown else []),
        Picture("camvid-calibration", CALIBRATION, draw_calibration(results)),
        Picture("camvid-classes", "The same for each class by itself.", _draw_class_calibration(results)),
        _by_class(CLASS_CALIBRATION, by_class, results, "class_ece", ".2f"),
        _averages(results),
        *_by_draws(results),
        *([Picture("camvid-rates", RATES, draw_rates(results))] if "learned" in results else []),
        _by_class(IOU, with_draws, results, "iou", ".1f"),
        Picture("camvid-curves", CURVES, _curves(results)),
    ]
    return Page("Street scenes (CamVid)", _lead(results), body, NOTES)


def _lead(results: Results) -> str:
    if not {"learned", "fixed 0.2"} <= results.keys():
        return f"Networks with these ways to set the rates: {'; '.join(results)}."
    ours, fixed = (
        {score: np.mean([run["draws"][score] for run in results[variant]]) for score in SCORES}
        for variant in ("learned", "fixed 0.2")
    )
    return f"""With draws, learned rates reach a mean IoU of {100 * ours["miou"]:.1f} %, fixed 0.2
    {100 * fixed["miou"]:.1f} %; log loss {ours["nll"]:.3f} and {fixed["nll"]:.3f} nats per pixel, calibration error
    {100 * ours["ece"]:.2f} and {100 * fixed["ece"]:.2f} %. The epistemic part announces wrong pixels with an AUROC
    of {_auroc(results["learned"], "draws", "mutual_information")}."""


def _auroc(runs: Sequence[Plain], how: str, uncertainty: str) -> str:
    values = [run[how]["auroc"][uncertainty] for run in runs]
    return "–" if None in values else f"{np.mean(values):.3f}"


def _table(results: Results) -> Table:
    rows = []
    for variant, runs in results.items():
        for how in ("no_draws",) if variant == "none" else ("no_draws", "draws"):
            cells = [f"{variant}, {how.replace('_', ' ')}"]
            for score, (_, scale, digits) in SCORES.items():
                mean, error = mean_and_error(scale * run[how][score] for run in runs)
                cells.append(f"{mean:.{digits}f}" + f" ({error:.{digits}f})" * (len(runs) > 1))
            cells.append(_auroc(runs, how, "mutual_information") if how == "draws" else "–")
            rows.append([*cells, _auroc(runs, how, "predictive_entropy")])
    columns = ["dropout", *(title for title, *_ in SCORES.values()), "AUROC of errors, epistemic", "of the total"]
    ours = [i for i, row in enumerate(rows) if row[0].startswith("learned")]
    return Table("Test pictures; means over networks, standard errors in brackets.", columns, rows, ours=ours)


def _by_class(caption: str, shown: Mapping[str, tuple[str, str]], results: Results, score: str, form: str) -> Table:
    rows = []
    for title, (variant, how) in shown.items():
        values = [[run[how][score][c] for run in results[variant]] for c in range(len(CAMVID_CLASSES))]
        rows.append([title, *("–" if None in each else f"{100 * np.mean(each):{form}}" for each in values)])
    return Table(caption, ["dropout", *CAMVID_CLASSES], rows)


def _averages(results: Results) -> Table:
    rows = [
        [f"{variant}, {how.replace('_', ' ')}", *name.split(", "), *(f"{100 * scores[key]:.2f}" for key in ERRORS)]
        for variant, runs in results.items()
        for how, found in runs[0].get("averages", {}).items()
        for name, scores in found.items()
    ]
    columns = ["dropout", "mean of", "pixels", "calibration error, %", "confidence − accuracy, %"]
    return Table(AVERAGES, columns, rows)


def _by_draws(results: Results) -> list[Table]:
    rows = []
    for variant, runs in results.items():
        by_draws = [run["by_draws"] for run in runs if "by_draws" in run]
        for statistics, first in by_draws[0].items() if by_draws else ():
            series = [one[statistics] for one in by_draws]
            heads = ["no draws", *(f"{how} of {n}" for how in ("probabilities", "logits") for n in first["draws"])]
            ious = zip(*([one["no draws"], *one["probabilities"], *one["logits"]] for one in series), strict=True)
            means = (mean_and_error(100 * iou for iou in of_networks) for of_networks in ious)
            rows.append([variant, statistics, *(with_error(pair, ".1f") for pair in means)])
    return [Table(BY_DRAWS, ["dropout", "statistics of", *heads], rows)] if rows else []


def by_depth(names: Iterable[str]) -> list[str]:
    """Sort sites from the picture to the classes; a network lists blocks apart from what lies between them."""

    def depth(name: str) -> tuple[int, int, int]:
        kind, stage = [*name.split("."), "0"][:2]
        return SIDES[kind], int(stage), list(SIDES).index(kind)

    return sorted(names, key=depth)


def _curves(results: Results) -> Figure:
    drawing, (losses, shares) = subplots(1, 2, size=(10, 3.8))
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


def draw_rates(results: Results) -> Figure:
    """Draw the learned rates of each fit by depth, and those of the first over training."""
    drawing, (final, over) = subplots(1, 2, sharey=True, size=(10, 3.8))
    first = results["learned"][0]["rates"]
    names = by_depth(first)
    depth, colours = range(1, len(names) + 1), plots.site_colours(len(names))
    for run in results["learned"]:
        last = [run["rates"][name][-1] for name in names]
        final.plot(depth, last, color=plots.INK, linewidth=0.6, alpha=0.5)
        final.scatter(depth, last, s=16, color=colours, zorder=3)
    for name, colour in zip(names, colours, strict=True):
        over.plot(range(1, len(first[name]) + 1), first[name], color=colour, linewidth=1, alpha=0.8)
    title, x = "at the end, a line for each fit", "convolution, from picture to classes"
    dress(final, title=title, x=x, y="drop probability p", ylim=(0, None), whole=True)
    dress(over, title="over training of the first fit, in the colours of the dots", x="epoch")
    return drawing


def draw_calibration(results: Results) -> Figure:
    """Draw how often the first network of each kind was right, by how sure it was."""
    drawing, panels = subplots(1, len(results), squeeze=False, size=(3.2 * len(results), 3.4))
    for ax, (variant, runs) in zip(panels[0], results.items(), strict=True):
        bins = runs[0]["draws"]["calibration"]
        sure, right = _shares(bins)
        right[np.array(bins["pixels"]) < LEAST_SHARE * np.sum(bins["pixels"])] = np.nan
        plots.reliability(sure, right, bins["pixels"], ax=ax)
        ax.set_title(variant, fontsize=10, loc="left")
    return drawing


def _shares(bins: Plain) -> list[NDArray[np.float64]]:
    """How sure a network was in each bin, and how often right; NaN in empty ones."""
    return [np.array(bins[key], dtype=float) for key in ("p", "right")]


def _draw_class_calibration(results: Results) -> Figure:
    drawing, panels = subplots(2, -(-len(CAMVID_CLASSES) // 2), sharex=True, sharey=True, size=(11, 4.2))
    for c, ax in zip(range(len(CAMVID_CLASSES)), panels.flat, strict=False):
        ax.plot([0, 1], [0, 1], color=plots.INK, linewidth=0.8, linestyle=":")
        for title, (variant, how) in BY_CLASS.items():
            if variant in results:
                shares = _shares(results[variant][0][how]["class_calibration"][c])
                style = "--" if (variant, how) == ("learned", "no_draws") else "-"
                ax.plot(*shares, style, color=COLOURS[variant], linewidth=1.4, label=title)
        dress(ax, title=CAMVID_CLASSES[c])
    panels.flat[-1].set_axis_off()
    panels.flat[-1].legend(*panels[0, 0].get_legend_handles_labels(), loc="center", frameon=False, fontsize=9)
    drawing.supxlabel("probability that the network gives", fontsize=10)
    drawing.supylabel("share of pixels of the class", fontsize=10)
    return drawing


def _maps(shown: Sequence[Mapping[str, Tensor]]) -> Figure:
    columns = ("picture", "truth", "prediction", "aleatoric", "epistemic", "errors")
    size = 2.2 * len(columns), 1.75 * len(shown) + 0.8
    drawing, panels = subplots(len(shown), len(columns), squeeze=False, size=size)
    most = {name: max(row[name].max().item() for row in shown) for name in ("aleatoric", "epistemic")}
    for row, axes in zip(shown, panels, strict=True):
        axes[0].imshow(row["picture"].permute(1, 2, 0).numpy())
        for ax, name in zip(axes[1:3], ("truth", "prediction"), strict=True):
            ax.imshow(np.array(COLOURS_OF_CLASSES, dtype=np.uint8)[row[name].numpy()])
        for ax, name in zip(axes[3:5], ("aleatoric", "epistemic"), strict=True):
            ax.imshow(row[name].numpy(), cmap="magma", vmin=0, vmax=most[name])
        wrong = (row["prediction"] != row["truth"]) & (row["truth"] != VOID)
        axes[5].imshow(wrong.numpy(), cmap="gray_r", vmin=0, vmax=1)
        for ax in axes:
            ax.set(xticks=[], yticks=[])
    for ax, name in zip(panels[0], columns, strict=True):
        ax.set_title(name if name not in most else f"{name}, to {most[name]:.2f} nats", fontsize=9)
    colours = [Patch(facecolor="#{:02x}{:02x}{:02x}".format(*colour)) for colour in COLOURS_OF_CLASSES]
    names = [*CAMVID_CLASSES, "no class"]
    drawing.legend(colours, names, loc="outside lower center", ncols=6, frameon=False, fontsize=10)
    return drawing
