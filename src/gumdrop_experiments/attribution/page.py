"""The page of `attribution`."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from gumdrop.views import plots
from gumdrop_experiments.harness import Plain, WithPictures
from gumdrop_experiments.pages import Page, Picture, Table, dress, subplots, table_of

DIGITS = """Twenty digits; masks with a blurred infill. Dark is relevant; the box holds what the joint mask puts
above one half."""
CURVES = """Probability of the class while places are put into the infill (insertion) or taken out (deletion), the
most relevant first; mean over digits."""
PLANTED = "Noise with a square of evidence, and the joint mask under each infill."
PHOTOGRAPHS = """Photographs, to a network that tells crops of these pictures apart: what it knows each one by, which
need not be what a person would name."""
NOTES = (
    """FIDO learns two masks by gradients through relaxed Bernoulli masks: the smallest sufficient region (SSR) and
    the smallest destroying region (SDR); the joint mask is the root of their product. Its settings were chosen on
    training images; the digits here are test images from number 1000 on.""",
    """The classifier of digits has a test accuracy of {digits:.4f}; the network of the photographs tells crops apart
    with {photographs:.3f}.""",
    """The plain Gumbel mask has FIDO's objective, optimiser and numbers of steps and masks. At the same temperature
    it is the same distribution of masks and the same gradient; what differs there is speed.""",
)

TITLES = {"inputs": "input", "ssr": "SSR: kept", "sdr": "SDR: dropped", "joint": "joint", "enhanced": "enhanced"}
HEADLINE = ("FIDO ssr", "FIDO sdr", "FIDO joint", "Gumbel t=1 ssr", "integrated gradients", "occlusion 5 x 5")
CURVE_COLOURS = (plots.BLUE, plots.PALETTE[4], plots.GREEN, plots.PALETTE[5], plots.ORANGE, plots.PALETTE[3])


def page(outcome: WithPictures) -> Page:
    """Say whether the planted square is found, and how the curves of digits compare."""
    results, pictures = outcome
    accuracies = {
        "digits": results["classifier"]["test_accuracy"],
        "photographs": results["photographs"]["crop_accuracy"],
    }
    body: list[Picture | Table] = [
        Picture("attribution-digits", DIGITS, _digits(results["shown"], pictures["shown"])),
        Picture("attribution-curves", CURVES, _curves(results["digits"])),
        *(_digit_table(infill, scores) for infill, scores in results["digits"].items()),
        Picture("attribution-planted", PLANTED, _planted(pictures["planted"])),
        _planted_table(results["planted"]),
        Picture("attribution-photographs", PHOTOGRAPHS, _photographs(results["photographs"], pictures["photographs"])),
        _speed_table(results["speed"]),
    ]
    return Page("What did it look at", _lead(results), body, [note.format(**accuracies) for note in NOTES])


def _lead(results: Plain) -> str:
    least = min(regions["joint"]["iou_min"] for regions in results["planted"]["infills"].values())
    sentences = [f"The planted square is found under every infill, with an IoU of at least {least:.2f}."]
    for infill, scores in results["digits"].items():
        ours, theirs = (_best(scores, ours=own) for own in (True, False))
        sentences.append(
            f"Insertion AUC on digits under {infill}: {ours[1]:.4f} ({ours[0]}) against {theirs[1]:.4f} ({theirs[0]})."
        )
    return " ".join(sentences)


def _best(scores: Plain, *, ours: bool) -> tuple[str, float]:
    picked = {name: row["insertion"]["mean"] for name, row in scores.items() if name.startswith("FIDO") == ours}
    name = max(picked, key=lambda each: picked[each])
    return name, picked[name]


def _digit_table(infill: str, scores: Plain) -> Table:
    signs = {"insertion": 1, "deletion": -1, "kept_log_odds": 1, "dropped_log_odds": -1}
    ranks = [[sign * row[key]["mean"] for row in scores.values()] for key, sign in signs.items()]
    best = {(int(np.argmax(values)), column) for column, values in enumerate(ranks, start=1)}
    cells = {
        "insertion AUC (SE)": "{insertion[mean]:.4f} ({insertion[se]:.4f})",
        "deletion AUC (SE)": "{deletion[mean]:.4f} ({deletion[se]:.4f})",
        "log-odds, kept": "{kept_log_odds[mean]:.2f}",
        "log-odds, dropped": "{dropped_log_odds[mean]:.2f}",
        "s / image": "{seconds_per_image:.3f}",
    }
    caption = f"""Digits, infill and baseline: {infill}. Insertion and kept log-odds: more is better; deletion and
    dropped log-odds: less is better. Log-odds are of a sharp region of the most relevant 15 % of the image, kept
    alone or taken out. The three masks of a search share its time."""
    return table_of(caption, scores, cells, first="method", ours=lambda name: name.startswith("FIDO"), best=best)


def _planted_table(results: Plain) -> Table:
    ours = {f"FIDO joint, {name.replace('_', ' ')}": regions["joint"] for name, regions in results["infills"].items()}
    cells = {
        "least IoU": "{iou_min:.3f}",
        "mean IoU": "{iou_mean:.3f}",
        "mean box IoU": "{box_iou_mean:.3f}",
        "share outside": "{share_outside_mean:.3f}",
    }
    caption = """Planted square, twenty images: overlap of the relevance above one half with the square, of its box
    with the square's, and the share of relevance outside. Captum's attributions are cut at 0 and scaled to a largest
    value of 1 in each image."""
    return table_of(caption, ours | results["peers"], cells, first="method", ours=ours.__contains__)


def _speed_table(results: Plain) -> Table:
    times = {"batch": "batch", "one by one": "alone", "usual loop": "usual"}
    times |= {"network, batch": "network_batch", "network, one by one": "network_alone"}
    milliseconds = {name: {key: 1000 * row[key] for key in times.values()} for name, row in results["networks"].items()}
    records = {name: row | milliseconds[name] for name, row in results["networks"].items()}
    cells = {head: f"{{{key}:.1f}}" for head, key in times.items()}
    cells |= {"times faster than one by one": "{times_faster_than_alone:.1f}"}
    cells |= {"than the usual loop": "{times_faster_than_usual:.1f}"}
    caption = f"""Milliseconds for an image at equal steps ({results["iterations"]}), masks ({results["num_samples"]} of
    either kind) and mask size, {results["images"]} digits: all at once, the same code for one image after the other,
    and the usual loop (two calls of the model, gumbel_softmax, loss.backward). Beside them the network's own passes
    in a batch and one by one, which a search cannot do without. Processor time, median of three rounds."""
    return table_of(caption, records, cells, first="network")


def _images(rows: Any, count: int) -> NDArray[np.float64]:
    """Pictures from the rows that a part keeps, shape (count, H, W) or (count, H, W, 3)."""
    flat = np.asarray(rows, dtype=float)
    pictures = flat.reshape(count, -1, flat.shape[-1], flat.shape[-1])
    return pictures[:, 0] if pictures.shape[1] == 1 else pictures.transpose(0, 2, 3, 1)


def _show(ax: Axes, picture: NDArray[np.float64], *, grey: tuple[float, float] = (0, 1), heat: bool = False) -> None:
    if heat:
        ax.imshow(picture, cmap=plots.RELEVANCE, vmin=0, vmax=1, interpolation="nearest")
    else:
        ax.imshow(picture.clip(*grey), cmap="Greys", vmin=grey[0], vmax=grey[1], interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(color=plots.INK, alpha=0.25, linewidth=0.6)


def _box(ax: Axes, box: list[int]) -> None:
    top, left, bottom, right = box
    if any(box):
        size = (right - left, bottom - top)
        ax.add_patch(Rectangle((left - 0.5, top - 0.5), *size, fill=False, color=plots.ORANGE, linewidth=1.1))


def _rows_of_pictures(columns: int, rows: int, *, cell: float) -> tuple[Figure, NDArray[Any]]:
    engine = ConstrainedLayoutEngine(w_pad=0.015, h_pad=0.015, wspace=0.01, hspace=0.01)
    drawing = Figure(figsize=(cell * columns + 0.9, cell * rows + 0.2), layout=engine)
    return drawing, drawing.subplots(rows, columns, squeeze=False)


def _label(ax: Axes, text: str) -> None:
    ax.set_ylabel(text, rotation=0, ha="right", va="center", fontsize=plots.SIZE, color=plots.INK, labelpad=6)


def _digits(part: Plain, shown: Plain) -> Figure:
    count = len(part["target"])
    pictures = {name: _images(shown[name], count) for name in ("inputs", "ssr", "sdr", "joint")}
    drawing, axes = _rows_of_pictures(10, 4 * (count // 10), cell=0.78)
    for block in range(count // 10):
        for row, (name, stack) in enumerate(pictures.items()):
            for column in range(10):
                ax = axes[4 * block + row, column]
                _show(ax, stack[10 * block + column], heat=name != "inputs")
                if name == "joint":
                    _box(ax, part["boxes"][10 * block + column])
            _label(axes[4 * block + row, 0], TITLES[name])
    return drawing


def _photographs(part: Plain, shown: Plain) -> Figure:
    count = len(part["names"])
    titles = TITLES | {"crops": "crop"}
    drawing, axes = _rows_of_pictures(count, len(titles), cell=1.05)
    for row, (name, title) in zip(axes, titles.items(), strict=True):
        for column, (ax, picture) in enumerate(zip(row, _images(shown[name], count), strict=True)):
            _show(ax, picture, heat=name in ("ssr", "sdr", "joint"))
            if name == "joint":
                _box(ax, part["boxes"][column])
        _label(row[0], title)
    for ax, name in zip(axes[0], part["names"], strict=True):
        ax.set_title(name, fontsize=plots.SIZE, color=plots.INK)
    return drawing


def _planted(pictures: Plain) -> Figure:
    drawing, axes = _rows_of_pictures(len(pictures), 3, cell=0.95)
    for column, (name, rows) in enumerate(pictures.items()):
        for row, picture in enumerate(_images(rows, 3)):
            _show(axes[row, column], picture, grey=(-1, 1), heat=name != "inputs")
        title = "input" if name == "inputs" else name.replace("_", " ")
        axes[0, column].set_title(title, fontsize=plots.SIZE, color=plots.INK)
    return drawing


def _curves(part: Plain) -> Figure:
    drawing, axes = subplots(2, 2, sharex=True, sharey=True, size=(7.6, 5.4))
    for row, (infill, methods) in zip(axes, part.items(), strict=True):
        for ax, kind in zip(row, ("insertion", "deletion"), strict=True):
            for name, colour in zip(HEADLINE, CURVE_COLOURS, strict=True):
                values, style = methods[name][f"{kind}_curve"], "-" if name.startswith("FIDO") else "--"
                ax.plot(np.linspace(0, 100, len(values)), values, style, color=colour, linewidth=1.5, label=name)
            dress(ax, title=f"{kind}, infill {infill}", xlim=(0, 60), ylim=(0, 1.02))
        row[0].set_ylabel("probability of the class")
    for ax, what in zip(axes[-1], ("put in", "taken out"), strict=True):
        ax.set_xlabel(f"places {what}, most relevant first (%)")
    axes[0, 0].legend(fontsize=plots.SIZE - 1, frameon=False, loc="lower right")
    return drawing
