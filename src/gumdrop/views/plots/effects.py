"""How predictions change with a column."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from gumdrop.views.plots.errors import DAY
from gumdrop.views.plots.style import BLUE, ORANGE, PERCENT, dress, round_ticks, shortened_text


def effect_of_number(
    at: ArrayLike,
    mean: ArrayLike,
    epistemic: ArrayLike,
    *,
    name: str,
    label: str,
    shares: bool = False,
    dates: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Mean prediction against a column of numbers, or of days, in a band of two epistemic standard deviations."""
    x, y, half = np.asarray(at, dtype=float), np.asarray(mean, dtype=float), 2 * np.asarray(epistemic, dtype=float)
    ax = _frame(ax, shares)
    ax.fill_between(x, y - half, y + half, color=ORANGE, alpha=0.3, linewidth=0)
    ax.plot(x, y, "o-" if len(x) < 9 else "-", color=BLUE, markersize=3, linewidth=1.6)
    round_ticks(ax.xaxis, 3 if dates else 4, DAY if dates else None)
    return dress(ax, shortened_text(name, 26), shortened_text(label, 22))


def effect_of_category(
    labels: Sequence[str],
    mean: ArrayLike,
    epistemic: ArrayLike,
    *,
    name: str,
    label: str,
    shares: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Mean prediction for each category, with bars of two epistemic standard deviations."""
    ax = _frame(ax, shares)
    place = np.arange(len(labels))
    bars = 2 * np.asarray(epistemic, dtype=float)
    ax.errorbar(place, mean, bars, fmt="none", ecolor=ORANGE, elinewidth=5, alpha=0.4)
    ax.plot(place, mean, "o", color=BLUE, markersize=4.5)
    words = [shortened_text(each or "(missing)", 9) for each in labels]
    turn = 90 if sum(map(len, words)) > 24 else 0
    ax.set_xticks(place, words, parse_math=False, rotation=turn)
    ax.margins(x=0.15)
    return dress(ax, shortened_text(name, 26), shortened_text(label, 22))


def _frame(ax: Axes | None, shares: bool) -> Axes:
    if ax is None:
        ax = Figure(figsize=(2.65, 2.1), layout="constrained").add_subplot()
    round_ticks(ax.yaxis, 4, PERCENT if shares else None)
    return ax
