"""Figures of targets that are known in part: survival curves, and survival at some times against what it was."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from gumdrop.views.plots.style import (
    INK,
    PALETTE,
    PERCENT,
    SIZE,
    add_legend,
    axes_or_new,
    dress,
    round_ticks,
    shortened_text,
    unit_square,
)


def survival_curves(
    values: ArrayLike,
    rows: Mapping[str, ArrayLike],
    mean: ArrayLike,
    whole: ArrayLike | None = None,
    *,
    name: str,
    ax: Axes | None = None,
) -> Axes:
    """The probability of more than each value: of some rows, the mean of all, and the Kaplan-Meier estimate."""
    ax = axes_or_new(ax)
    for (label, above), colour in zip(rows.items(), PALETTE, strict=False):
        ax.plot(values, above, color=colour, linewidth=1.2, alpha=0.8, label=label)
    ax.plot(values, mean, color=INK, linewidth=2.2, label="mean of all")
    if whole is not None:
        ax.step(values, whole, where="post", color=INK, linewidth=1.4, linestyle=":", label="Kaplan-Meier")
    ax.set_ylim(-0.02, 1.03)
    ax.yaxis.set_major_formatter(PERCENT)
    round_ticks(ax.xaxis, 4)
    dress(ax, shortened_text(name, 40), "probability of more")
    return add_legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)  # above: curves are everywhere below


def survival_calibration(at: Sequence[tuple[str, Sequence[float], Sequence[float]]], *, ax: Axes | None = None) -> Axes:
    """Predicted against actual survival of groups of rows, a line for each time."""
    ax = unit_square(axes_or_new(ax))
    for (label, expected, observed), colour in zip(at, PALETTE, strict=False):
        ax.plot(expected, observed, "o-", color=colour, markersize=4, linewidth=1.4, label=label)
    dress(ax, "predicted to last longer", "did last longer (Kaplan-Meier)")
    ax.legend(frameon=False, fontsize=SIZE, labelcolor=INK, loc="upper left")
    return ax
