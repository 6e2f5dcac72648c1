"""Losses and rates over training."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from gumdrop.views.plots.style import (
    BLUE,
    GREEN,
    ORANGE,
    PALETTE,
    PERCENT,
    add_legend,
    axes_or_new,
    dress,
    shortened_text,
)


def site_colours(count: int) -> list[str]:
    """One colour per dropout site: distinct ones for a few, a scale from first to last for many."""
    scale = LinearSegmentedColormap.from_list("sites", ["#3b8fd0", "#9a7fb5", "#e0763a"])
    return list(PALETTE[:count]) if count <= len(PALETTE) else [to_hex(scale(i / (count - 1))) for i in range(count)]


def rates_over_training(
    epochs: ArrayLike, rates: Mapping[str, ArrayLike], *, legend: bool = True, ax: Axes | None = None
) -> Axes:
    """The learned dropout rate of every site, epoch by epoch; a legend names at most eight."""
    ax = axes_or_new(ax)
    for (name, values), colour in zip(rates.items(), site_colours(len(rates)), strict=True):
        _line(ax, epochs, values, colour, shortened_text(name, 28))
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter(PERCENT)
    dress(ax, "epoch", "share of units left out")
    return add_legend(ax) if legend and len(rates) <= 8 else ax


def training_curve(
    epochs: ArrayLike,
    nll: ArrayLike,
    *,
    kl: ArrayLike | None = None,
    validation_nll: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The loss over training; a steep start may leave the frame so that the rest can be read."""
    ax = axes_or_new(ax)
    series = {"training rows": (nll, BLUE), "held-out rows": (validation_nll, ORANGE), "penalty": (kl, GREEN)}
    drawn = []
    for name, (values, colour) in series.items():
        if values is not None and np.isfinite(np.asarray(values, dtype=float)).any():
            _line(ax, epochs, values, colour, name, "--" if name == "penalty" else "-")
            drawn.append(np.asarray(values, dtype=float))
    if drawn:
        late = np.concatenate([values[len(values) // 20 :] for values in drawn])
        margin = 0.08 * (np.nanmax(late) - np.nanmin(late)) or 0.5
        ax.set_ylim(np.nanmin(late) - margin, np.nanmax(late) + margin)
    return add_legend(dress(ax, "epoch", "loss (nats per row)"))


def _line(ax: Axes, epochs: ArrayLike, values: ArrayLike, colour: str, label: str, style: str = "-") -> None:
    marker = "o" if np.size(epochs) == 1 else ""  # one epoch is a point, which a line would not show
    x, y = np.asarray(epochs), np.asarray(values, dtype=float)
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]  # held-out rows may be evaluated every few epochs
    ax.plot(x, y, color=colour, label=label, linestyle=style, marker=marker, linewidth=1.6)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
