"""The figures of `pairs`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.harness.reproduce import WithPictures
from gumdrop_experiments.pages.axes import dress
from gumdrop_experiments.pairs.study import OURS

LARGEST_SHARE = 0.4
"""Where the curves end."""


def figures(found: WithPictures) -> Iterator[tuple[str, Figure]]:
    """Draw a digit of each direction with its masks, and how soon answers change."""
    yield "pairs", _pictures(found.pictures)
    yield "pairs-curves", _curves(found.results)


def _pictures(shown: dict[str, Any]) -> Figure:
    rows = list(next(iter(shown.values())))
    drawing = Figure(figsize=(1.25 * len(shown) + 1.2, 1.3 * len(rows) + 0.2), layout="constrained")
    panels = drawing.subplots(len(rows), len(shown), squeeze=False)
    for column, (name, pictures) in enumerate(shown.items()):
        for row, key in enumerate(rows):
            ax = panels[row][column]
            look = {"cmap": plots.RELEVANCE} if key.startswith("FIDO") else {"cmap": "Greys"}
            ax.imshow(np.asarray(pictures[key]), vmin=0, vmax=1, interpolation="nearest", **look)
            ax.set(xticks=[], yticks=[])
            if row == 0:
                ax.set_title(name.replace("-", " or "), fontsize=plots.SIZE)
            if column == 0:
                ax.set_ylabel(key.replace(", ", ",\n"), rotation=0, ha="right", va="center", fontsize=plots.SIZE)
    return drawing


def _curves(results: Plain) -> Figure:
    """Share of the answers that have changed against the share of pixels that is replaced, over all directions."""
    drawing = Figure(figsize=(6.8, 4.2), layout="constrained")
    ax = drawing.subplots()
    parts = results["pairs"].values()
    for i, name in enumerate(next(iter(parts))["changed"]):
        curve = np.mean([part["changed"][name] for part in parts], axis=0)
        wide = 2.2 if name == OURS else 1.2
        style = "-" if i < len(plots.PALETTE) else ":"
        ax.plot(
            results["shares"], curve, style, color=plots.PALETTE[i % len(plots.PALETTE)], linewidth=wide, label=name
        )
    dress(ax, x="share of pixels replaced, most relevant first", y="share of answers that changed")
    ax.set(xlim=(0, LARGEST_SHARE), ylim=(0, 1.02))
    ax.legend(fontsize=8, frameon=False)
    return drawing
