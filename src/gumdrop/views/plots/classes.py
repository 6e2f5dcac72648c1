"""Figures of classifiers."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from numpy.typing import ArrayLike

from gumdrop.views.plots.style import BLUE, INK, ORANGE, SIZE, axes_or_new, dress, evenly, shortened_text, unit_square


def reliability(
    confidence: ArrayLike, accuracy: ArrayLike, count: ArrayLike | None = None, *, ax: Axes | None = None
) -> Axes:
    """Accuracy against stated confidence, one disc per bin, its area growing with the rows in the bin."""
    ax = unit_square(axes_or_new(ax))
    sure, right = np.asarray(confidence, dtype=float), np.asarray(accuracy, dtype=float)
    rows = np.ones(sure.size) if count is None else np.asarray(count, dtype=float)
    keep = np.isfinite(sure) & np.isfinite(right) & (rows > 0)
    sure, right, rows = sure[keep], right[keep], rows[keep]
    ax.vlines(sure, np.minimum(sure, right), np.maximum(sure, right), color=ORANGE, alpha=0.7, linewidth=1.6)
    if rows.size:
        ax.scatter(sure, right, s=12 + 110 * rows / rows.max(), c=BLUE, alpha=0.85, linewidths=0, zorder=3)
    return dress(ax, "how sure the model said it was", "share it got right")


def confusion(
    observed: Sequence[str], predicted: Sequence[str], classes: Sequence[str], *, ax: Axes | None = None
) -> Axes:
    """Rows of each true class by predicted class: right ones on the diagonal, shaded by share of the class."""
    ax = axes_or_new(ax)
    names = list(dict.fromkeys([*classes, *observed, *predicted]))
    place = {name: i for i, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, ([place[o] for o in observed], [place[p] for p in predicted]), 1)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    row, column = np.nonzero(counts)
    shade = np.where(row == column, share[row, column], np.sqrt(share[row, column]))  # a few mistakes must show
    colours = [to_rgba(BLUE if i == j else ORANGE, 0.62 * a) for i, j, a in zip(row, column, shade, strict=True)]
    corners = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    ax.add_collection(PolyCollection(np.stack([column, row], 1)[:, None] + corners, facecolors=colours, linewidths=0))
    ax.set(xlim=(0, len(names)), ylim=(len(names), 0))
    for i, j in np.argwhere(counts > 0) if len(names) <= 10 else ():
        ax.text(j + 0.5, i + 0.5, f"{counts[i, j]:.0f}", ha="center", va="center", color=INK, size=SIZE)
    return _class_ticks(ax, names)


def _class_ticks(ax: Axes, names: Sequence[str]) -> Axes:
    shown = evenly(len(names), 30 if len(names) <= 30 else 15)
    words = [shortened_text(names[i], 14) for i in shown]
    size = SIZE if len(names) <= 12 else SIZE - 3
    dress(ax, "predicted class", "true class")
    turn = 90 if len(words) * max(map(len, words)) > 30 else 0
    ax.set_xticks(shown + 0.5, words, rotation=turn, fontsize=size, parse_math=False)
    ax.set_yticks(shown + 0.5, words, fontsize=size, parse_math=False)
    ax.grid(False)
    return ax
