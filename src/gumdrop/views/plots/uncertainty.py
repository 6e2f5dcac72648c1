"""Whether uncertainty announces errors."""

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from gumdrop.views.plots.style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PERCENT,
    Amounts,
    Numbers,
    Summary,
    add_legend,
    axes_or_new,
    dress,
    evenly,
)


def grouped_error(uncertainty: ArrayLike, error: ArrayLike, *, summary: Summary = "rms") -> Numbers:
    """Error in five equal groups of rows, from the most to the least certain; in fewer when rows are few."""
    power = 2 if summary == "rms" else 1
    costs = _sorted_costs(uncertainty, error, power)
    wanted = min(5, max(2, costs.size // 4), costs.size)
    return np.array([np.mean(part) ** (1 / power) for part in np.array_split(costs, wanted)])


def error_by_uncertainty(
    uncertainty: ArrayLike,
    error: ArrayLike,
    *,
    expected: ArrayLike | None = None,
    chance: tuple[float, float] | None = None,
    summary: Summary = "rms",
    label: str = "error",
    ax: Axes | None = None,
) -> Axes:
    """Error in groups of rows, from the most to the least certain; what the model expects is a dash on each bar."""
    ax = axes_or_new(ax)
    height = grouped_error(uncertainty, error, summary=summary)
    place = np.arange(1, height.size + 1)
    if chance is not None:
        ax.axhspan(*chance, color=INK, alpha=0.12, linewidth=0)
    ax.bar(place, height, 0.68, color=BLUE)
    if expected is not None:
        own = grouped_error(uncertainty, expected, summary=summary)
        ax.hlines(own, place - 0.42, place + 0.42, color=ORANGE, linewidth=2.4)
    ends = {1: "surest", place.size: "least sure"}
    ax.set_xticks(place, [ends.get(int(i), "") for i in place])
    ax.yaxis.set_major_formatter(PERCENT if summary == "mean" else Amounts())
    dress(ax, "test rows in equal groups", label).grid(visible=False, axis="x")
    return ax


def error_after_rejection(order_by: ArrayLike, error: ArrayLike, summary: Summary) -> tuple[Numbers, Numbers]:
    """Shares set aside, least certain first, and the error of the rest; at least a tenth of the rows stays."""
    power = 2 if summary == "rms" else 1
    costs = _sorted_costs(order_by, error, power)
    kept = np.arange(1, costs.size + 1)
    running = (np.cumsum(costs) / kept) ** (1 / power)
    start = min(max(costs.size // 10, 3), costs.size) - 1
    return (1 - kept / costs.size)[start:][::-1], running[start:][::-1]


def error_rejection_curve(
    uncertainty: ArrayLike,
    error: ArrayLike,
    *,
    summary: Summary = "rms",
    label: str = "error of the rest",
    ax: Axes | None = None,
) -> Axes:
    """Error-rejection curve: how the error falls when the least certain rows are set aside, beside a perfect order."""
    ax = axes_or_new(ax)
    lines = {"by true error": (error, GREEN, ":"), "by the model's uncertainty": (uncertainty, BLUE, "-")}
    for name, (order, colour, style) in lines.items():
        share, left = error_after_rejection(order, error, summary)
        pick = evenly(share.size, 200)
        ax.plot(share[pick], left[pick], color=colour, linestyle=style, linewidth=1.8, label=name)
    ax.axhline(left[0], color=INK, alpha=0.55, linewidth=1, linestyle="--", label="in any order")
    ax.set_ylim(0, 1.45 * ax.get_ylim()[1])  # room for the legend, which the dashed line would cross
    ax.xaxis.set_major_formatter(PERCENT)
    ax.yaxis.set_major_formatter(PERCENT if summary == "mean" else Amounts())
    return add_legend(dress(ax, "share of rows set aside, least sure first", label))


def _sorted_costs(order_by: ArrayLike, error: ArrayLike, power: int) -> Numbers:
    """Powers of the error in the order of another array; rows that tie have their mean, as the file's order is none."""
    _, group, counts = np.unique(np.asarray(order_by, dtype=float), return_inverse=True, return_counts=True)
    costs = np.bincount(group, weights=np.asarray(error, dtype=float) ** power) / counts
    return np.repeat(costs, counts)
