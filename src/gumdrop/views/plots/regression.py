"""Predicted numbers against observed ones, and the calibration of their intervals."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from gumdrop.views.plots.style import (
    BLUE,
    INK,
    ORANGE,
    POINTS,
    Amounts,
    axes_or_new,
    dress,
    evenly,
    set_apart,
    shortened_text,
    unit_square,
)


def predicted_against_observed(
    observed: ArrayLike,
    mean: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    ax: Axes | None = None,
    name: str = "",
) -> Axes:
    """Rows as points with their intervals, at most `POINTS` of them, in two collections: `inside` and `outside`."""
    ax = axes_or_new(ax)
    pick = evenly(np.size(observed), POINTS)
    truth, guess, low, high = (np.asarray(a, dtype=float)[pick] for a in (observed, mean, lower, upper))
    inside = (low <= truth) & (truth <= high)
    ends = [min(truth.min(), guess.min()), max(truth.max(), guess.max())]
    ax.plot(ends, ends, color=INK, linewidth=1, alpha=0.55, zorder=1)
    place = truth + set_apart(truth)
    width = 1.2 if len(pick) <= 120 else 0.8
    for rows, colour, marker, gid in ((inside, BLUE, "o", "inside"), (~inside, ORANGE, "D", "outside")):
        ax.vlines(place[rows], low[rows], high[rows], color=colour, alpha=0.3, linewidth=width, zorder=2)
        points = ax.scatter(place[rows], guess[rows], s=14, c=colour, marker=marker, linewidths=0, zorder=3)
        points.set_gid(gid)
    long = np.ptp(truth) < abs(truth).max() / 100  # such as times: labels need all digits
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(2 if long else 4, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(Amounts())
    return dress(ax, f"observed {shortened_text(name, 24)}", f"predicted {shortened_text(name, 24)}")


def calibration(expected: ArrayLike, observed: ArrayLike, *, rows: int | None = None, ax: Axes | None = None) -> Axes:
    """Share of rows inside each central interval, against the share that should be, beside what chance explains."""
    ax = unit_square(axes_or_new(ax))
    if rows:
        p = np.linspace(0, 1, 101)
        chance = 2 * np.sqrt(p * (1 - p) / rows)
        low, high = np.clip(p - chance, 0, 1), np.clip(p + chance, 0, 1)
        ax.fill_between(p, low, high, color=INK, alpha=0.09, linewidth=0)
    ax.plot(
        np.asarray(expected, float),
        np.asarray(observed, float),
        "o-",
        color=BLUE,
        markersize=3.5,
        linewidth=1.6,
    )
    return dress(ax, "share of rows the interval should hold", "share of rows it did hold")
