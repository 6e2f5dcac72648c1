"""Draw the diagrams of ``docs/theory.md``: a thinned network, and LeNet with its sites.

Run with ``make docs-figures``.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import GREY, subplots

RESULTS = Path(__file__).parents[1] / "results"
WIDTHS = (3, 5, 5, 2)
KEPT = ((1, 0, 1), (1, 1, 0, 1, 0), (0, 1, 1, 0, 1), (1, 1))
"""A draw of the masks; outputs are never dropped."""
LENET = (
    ("image", 28, 1, ""),
    ("convolution 5 x 5", 28, 20, ""),
    ("max pooling", 14, 20, ""),
    ("convolution 5 x 5", 14, 50, "20 channels"),
    ("max pooling", 7, 50, ""),
    ("dense", 1, 500, "2,450 units"),
    ("dense", 1, 10, "500 units"),
)
"""Name, side and channels of what each layer of LeNet gives, and what a site in front of it drops."""


def bare(ax: Axes, title: str = "") -> Axes:
    """Take away the frame."""
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)
    ax.set_title(title, fontsize=10.5, loc="left")
    return ax


def network(ax: Axes, kept: tuple[tuple[int, ...], ...]) -> None:
    """Draw a dense network, with what its masks drop in grey."""
    places = [[(1.6 * i, j - (n - 1) / 2) for j in range(n)] for i, n in enumerate(WIDTHS)]
    for (left, right), (of_left, of_right) in zip(pairwise(places), pairwise(kept), strict=True):
        for start, keeps in zip(left, of_left, strict=True):
            for end, goes_on in zip(right, of_right, strict=True):
                there = keeps and goes_on
                look: Plain = (
                    {"color": INK, "linewidth": 0.9} if there else {"color": GREY, "linewidth": 0.4, "alpha": 0.5}
                )
                ax.plot(*zip(start, end, strict=True), zorder=1, **look)
    for layer, of_layer in zip(places, kept, strict=True):
        for place, keeps in zip(layer, of_layer, strict=True):
            inside, edge = (BLUE, BLUE) if keeps else ("white", ORANGE)
            ax.scatter(*place, s=150, linewidths=1.6, zorder=2, facecolor=inside, edgecolor=edge)
            if not keeps:
                ax.scatter(*place, marker="x", s=45, color=ORANGE, linewidths=1.6, zorder=3)


def thinned() -> Figure:
    """Draw a network beside one that a draw of its masks leaves."""
    drawing, panels = subplots(1, 2, size=(8, 3.2))
    network(bare(panels[0], "the mean network: all units"), tuple((1,) * n for n in WIDTHS))
    network(bare(panels[1], "a thinned network: one draw of the masks"), KEPT)
    return drawing


def lenet() -> Figure:
    """Draw what each layer of LeNet gives, and where sites are."""
    drawing, ax = subplots(size=(9, 3.6))
    bare(ax)
    x, ends = 0.0, []
    for name, side, channels, dropped in LENET:
        height = 0.5 + 2.5 * side / 28 if side > 1 else 0.6 + 0.55 * np.log10(channels)
        sheets = 1 + min(4, round(np.log2(channels))) if side > 1 else 1
        for sheet in reversed(range(sheets)):
            corner = x + 0.09 * sheet, -height / 2 + 0.09 * sheet
            wide = 0.28 * height if side > 1 else 0.22
            ax.add_patch(Rectangle(corner, wide, height, facecolor="#dbe9f4", edgecolor=BLUE, linewidth=0.8))
        size = f"{channels} x {side} x {side}" if side > 1 else f"{channels}"
        ax.text(x + 0.3, -2.15, f"{name}\n{size}", ha="center", va="top", fontsize=8)
        ends.append((x, x + wide + 0.09 * (sheets - 1)))
        if dropped:
            ax.text(x - 0.42, 2.0, f"drops\n{dropped}", ha="center", va="bottom", fontsize=8, color=ORANGE)
            ax.plot([x - 0.42] * 2, [-1.2, 1.9], "--", color=ORANGE, linewidth=1.4)
        x += 1.75
    for (_, right), (left, _) in pairwise(ends):
        ax.add_patch(
            FancyArrowPatch((right + 0.05, 0), (left - 0.05, 0), arrowstyle="-|>", mutation_scale=9, color=INK)
        )
    ax.set(xlim=(-0.3, x - 0.9), ylim=(-2.9, 2.7))
    return drawing


def main() -> None:
    """Draw both."""
    for name, drawing in (("thinned", thinned()), ("lenet", lenet())):
        drawing.savefig(RESULTS / f"{name}.png", dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main()
