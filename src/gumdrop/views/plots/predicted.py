"""Predictions of a new table: how they are distributed, their intervals, and the parts of their uncertainty."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from gumdrop.views.plots.style import (
    BLUE,
    INK,
    ORANGE,
    PALETTE,
    PERCENT,
    POINTS,
    Amounts,
    add_legend,
    axes_or_new,
    dress,
    evenly,
    shortened_text,
)

PINK = PALETTE[3]


def distribution(values: ArrayLike, *, name: str, shares: bool = False, ax: Axes | None = None) -> Axes:
    """Histogram of numbers; shares are written in percent."""
    ax = axes_or_new(ax)
    numbers = np.asarray(values, dtype=float)
    ax.hist(numbers, bins=int(np.clip(np.sqrt(numbers.size), 4, 30)), color=PINK, rwidth=0.92)
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(PERCENT if shares else Amounts())
    return _rows(dress(ax, shortened_text(name, 40), "rows"))


def frequencies(names: Sequence[str], counts: Sequence[int], *, most: int = 12, ax: Axes | None = None) -> Axes:
    """How often each class is predicted; of many classes the most frequent ones."""
    ax = axes_or_new(ax)
    order = np.argsort(-np.asarray(counts), kind="stable")
    shown, rest = np.split(order, [most if len(order) <= most else most - 1])
    words = [shortened_text(names[i], 14) for i in shown] + [f"{len(rest)} others"] * (len(rest) > 0)
    heights = [counts[i] for i in shown] + [sum(counts[i] for i in rest)] * (len(rest) > 0)
    ax.barh(np.arange(len(words)), heights, color=PINK, height=0.7)
    ax.set_yticks(np.arange(len(words)), words, parse_math=False)
    ax.invert_yaxis()
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.xaxis.set_major_formatter(Amounts())
    dress(ax, "rows", "predicted class").grid(visible=False, axis="y")
    return ax


def sorted_intervals(
    prediction: ArrayLike, lower: ArrayLike, upper: ArrayLike, *, name: str, ax: Axes | None = None
) -> Axes:
    """Intervals of rows from the smallest prediction to the largest, at most `POINTS` of them."""
    ax = axes_or_new(ax)
    guess, low, high = (np.asarray(each, dtype=float) for each in (prediction, lower, upper))
    order = np.argsort(guess, kind="stable")
    pick = evenly(len(order), POINTS)
    rows = order[pick]
    ax.vlines(pick + 1, low[rows], high[rows], color=PINK, alpha=0.4, linewidth=min(6.0, max(0.8, 150 / len(pick))))
    ax.plot(pick + 1, guess[rows], ".", color=INK, markersize=3)
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(Amounts())
    return _sorted(dress(ax, "rows, smallest prediction first", f"predicted {shortened_text(name, 24)}"))


def uncertainty_parts(epistemic: ArrayLike, aleatoric: ArrayLike, *, label: str, ax: Axes | None = None) -> Axes:
    """The uncertainty of rows from the surest to the least sure, split into its parts; at most `POINTS` of them."""
    ax = axes_or_new(ax)
    parts = np.asarray(epistemic, dtype=float), np.asarray(aleatoric, dtype=float)
    order = np.argsort(parts[0] + parts[1], kind="stable")
    pick = evenly(len(order), POINTS)
    lacking, noise = (part[order[pick]] for part in parts)
    ax.fill_between(pick + 1, noise, color=BLUE, label="aleatoric", step="mid", linewidth=0)
    ax.fill_between(pick + 1, noise, noise + lacking, color=ORANGE, label="epistemic", step="mid", linewidth=0)
    ax.set_ylim(0, 1.3 * float((noise + lacking).max()) or 1.0)  # room for the legend
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(Amounts())
    return add_legend(_sorted(dress(ax, "rows, surest first", label)))


def _sorted(ax: Axes) -> Axes:
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.xaxis.set_major_formatter(Amounts())
    ax.grid(visible=False, axis="x")
    return ax


def _rows(ax: Axes) -> Axes:
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.yaxis.set_major_formatter(Amounts())
    ax.grid(visible=False, axis="x")
    return ax
