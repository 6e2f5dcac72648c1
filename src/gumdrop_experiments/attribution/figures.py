"""The figures of `attribution`."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from gumdrop.views import plots
from gumdrop_experiments.harness.reproduce import WithPictures

TITLES = {"inputs": "input", "ssr": "SSR: kept", "sdr": "SDR: dropped", "joint": "joint", "enhanced": "enhanced"}
INFILLS = {"zeros": "zeros", "blur": "blur"}
HEADLINE = ("FIDO ssr", "FIDO sdr", "FIDO joint", "Gumbel t=1 ssr", "integrated gradients", "occlusion 5 x 5")
CURVE_COLOURS = (plots.BLUE, plots.PALETTE[4], plots.GREEN, plots.PALETTE[5], plots.ORANGE, plots.PALETTE[3])


def figures(found: WithPictures) -> Iterator[tuple[str, Figure]]:
    """Draw masks of digits, squares and photographs, and the curves of the main methods."""
    results, pictures = found
    yield "attribution-digits", _digits(results["shown"], pictures["shown"])
    yield "attribution-curves", _curves(results["digits"])
    yield "attribution-planted", _planted(pictures["planted"])
    yield "attribution-photographs", _photographs(results["photographs"], pictures["photographs"])


def _images(rows: Any, count: int) -> NDArray[np.float64]:
    """Pictures from the rows that a part keeps, shape (count, H, W) or (count, H, W, 3)."""
    flat = np.asarray(rows, dtype=float)
    side = flat.shape[-1]
    pictures = flat.reshape(count, -1, side, side)
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


def _digits(part: Mapping[str, Any], shown: Mapping[str, Any]) -> Figure:
    """Twenty digits with their three masks, ten in a row."""
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


def _photographs(part: Mapping[str, Any], shown: Mapping[str, Any]) -> Figure:
    """Each photograph with its masks, what is left of it when enhanced, and the crop."""
    count = len(part["names"])
    names = ("inputs", "ssr", "sdr", "joint", "enhanced", "crops")
    titles = {**TITLES, "crops": "crop"}
    drawing, axes = _rows_of_pictures(count, len(names), cell=1.05)
    for row, name in enumerate(names):
        for column, picture in enumerate(_images(shown[name], count)):
            ax = axes[row, column]
            _show(ax, picture, heat=name in ("ssr", "sdr", "joint"))
            if name == "joint":
                _box(ax, part["boxes"][column])
            if row == 0:
                ax.set_title(part["names"][column], fontsize=plots.SIZE, color=plots.INK)
        _label(axes[row, 0], titles[name])
    return drawing


def _planted(pictures: Mapping[str, Any]) -> Figure:
    """Noise with a planted square, and the joint mask under each infill."""
    drawing, axes = _rows_of_pictures(len(pictures), 3, cell=0.95)
    for column, (name, rows) in enumerate(pictures.items()):
        for row, picture in enumerate(_images(rows, 3)):
            _show(axes[row, column], picture, grey=(-1, 1), heat=name != "inputs")
        title = "input" if name == "inputs" else name.replace("_", " ")
        axes[0, column].set_title(title, fontsize=plots.SIZE, color=plots.INK)
    return drawing


def _curves(part: Mapping[str, Any]) -> Figure:
    """Mean curves of insertion and deletion of the main methods, under both infills."""
    drawing = Figure(figsize=(7.6, 5.4), layout="constrained")
    axes = drawing.subplots(2, 2, sharex=True, sharey=True)
    for row, (infill, title) in enumerate(INFILLS.items()):
        for column, kind in enumerate(("insertion", "deletion")):
            ax = axes[row, column]
            for name, colour in zip(HEADLINE, CURVE_COLOURS, strict=True):
                values = part[infill][name][f"{kind}_curve"]
                style = "-" if name.startswith("FIDO") else "--"
                share = np.linspace(0, 100, len(values))
                ax.plot(share, values, style, color=colour, linewidth=1.5, label=name)
            ax.set_xlabel(
                f"places {'put in' if kind == 'insertion' else 'taken out'}, most relevant first (%)" if row else "",
                fontsize=plots.SIZE,
            )
            ax.set_ylabel("" if column else "probability of the class", fontsize=plots.SIZE)
            ax.set_title(f"{kind}, infill {title}", fontsize=plots.SIZE + 0.5, color=plots.INK)
            ax.set(xlim=(0, 60), ylim=(0, 1.02))
            ax.tick_params(labelsize=plots.SIZE - 0.5, length=0)
            ax.grid(color=plots.INK, alpha=0.1)
            for side in ("top", "right", "left"):
                ax.spines[side].set_visible(False)
    axes[0, 0].legend(fontsize=plots.SIZE - 1, frameon=False, loc="lower right")
    return drawing
