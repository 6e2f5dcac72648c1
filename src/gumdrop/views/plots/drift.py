"""A table beside the one that a model learned from."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from gumdrop.views.plots.style import INK, PALETTE, PERCENT, SIZE, dress, shortened_text


def shares_by_bin(
    names: Sequence[str], before: ArrayLike, now: ArrayLike, *, column: str, ax: Axes | None = None
) -> Axes:
    """Shares of the rows in each bin of a column, in two tables."""
    place = np.arange(len(names))
    if ax is None:
        ax = Figure(figsize=(3.75, 1.1 + 0.27 * len(names)), layout="constrained").add_subplot()
    ax.barh(place - 0.2, np.asarray(before, float), height=0.36, color=INK, alpha=0.35, label="training")
    ax.barh(place + 0.2, np.asarray(now, float), height=0.36, color=PALETTE[3], label="here")
    ax.set_yticks(place, [shortened_text(name, 24) for name in names], parse_math=False)
    ax.set_ylim(len(names) - 0.4, -1.6)  # room for the legend; the first bin is at the top
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.xaxis.set_major_formatter(PERCENT)
    dress(ax, "share of the rows", shortened_text(column, 24)).grid(visible=False, axis="y")
    ax.legend(frameon=False, fontsize=SIZE, labelcolor=INK, loc="upper right", ncols=2)
    return ax
