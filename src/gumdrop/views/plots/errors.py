"""Figures of errors: whether uncertainty announces them; and of residuals and predictions against a column."""

import contextlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from gumdrop.machine.picking import evenly
from gumdrop.views.plots.style import (
    BLUE,
    INK,
    ORANGE,
    PERCENT,
    SIZE,
    Amounts,
    Numbers,
    Summary,
    axes_or_new,
    dress,
    evenly_spread,
    round_ticks,
    set_apart,
    shortened_text,
)

SMALL = (2.65, 2.1)
BINS = 6
MOST = 6.0
"""Standard deviations at which a residual is drawn at the edge."""
DAY = FuncFormatter(lambda days, _: str(np.datetime64(round(days), "D"))[:7])


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
    position = np.arange(1, height.size + 1)
    if chance is not None:
        ax.axhspan(*chance, color=INK, alpha=0.12, linewidth=0)
    ax.bar(position, height, 0.68, color=BLUE)
    if expected is not None:
        own = grouped_error(uncertainty, expected, summary=summary)
        ax.hlines(own, position - 0.42, position + 0.42, color=ORANGE, linewidth=2.4)
    ends = {1: "surest", position.size: "least sure"}
    ax.set_xticks(position, [ends.get(int(i), "") for i in position])
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


def _sorted_costs(order_by: ArrayLike, error: ArrayLike, power: int) -> Numbers:
    """Powers of the error in the order of another array; rows that tie have their mean, as the file's order is none."""
    _, group, counts = np.unique(np.asarray(order_by, dtype=float), return_inverse=True, return_counts=True)
    costs = np.bincount(group, weights=np.asarray(error, dtype=float) ** power) / counts
    return np.repeat(costs, counts)


def residuals_by_number(
    values: ArrayLike, residuals: ArrayLike, *, name: str, dates: bool = False, ax: Axes | None = None
) -> Axes:
    """Standardised residuals against a column of numbers, or of days, with their mean in parts of equal size."""
    x, y = np.asarray(values, dtype=float), np.asarray(residuals, dtype=float)
    ax = _frame(ax, x + set_apart(x), y)
    edges = np.unique(np.quantile(x, np.arange(1, BINS) / BINS, method="inverted_cdf"))
    part = np.searchsorted(edges, x)
    for k in np.unique(part):
        _mean(ax, float(np.median(x[part == k])), y[part == k])
    round_ticks(ax.xaxis, 3 if dates else 4, DAY if dates else None, integer=bool((x == x.round()).all()))
    return dress(ax, shortened_text(name, 32), "residual (SD)")


def residuals_by_category(
    labels: Sequence[str], residuals: ArrayLike, *, name: str, most: int = 6, ax: Axes | None = None
) -> Axes:
    """Standardised residuals in each category, with their mean; of many categories those with most rows."""
    y, counts = np.asarray(residuals, dtype=float), Counter(sorted(labels))
    shown = sorted(name for name, _ in counts.most_common(most if len(counts) <= most else most - 1))
    with contextlib.suppress(ValueError):  # 9 before 10, where all are numbers
        shown.sort(key=float)
    x = np.array([shown.index(label) if label in shown else len(shown) for label in labels])
    ax = _frame(ax, x + 0.3 * evenly_spread(len(x)), y)
    for k in np.unique(x):
        _mean(ax, float(k), y[x == k])
    _name_categories(ax, [*shown, *([f"{len(counts) - len(shown)} others"] if len(shown) < len(counts) else [])])
    return dress(ax, shortened_text(name, 32), "residual (SD)")


def _name_categories(ax: Axes, labels: Sequence[str]) -> None:
    """Write categories below their places, upright where they would run into each other."""
    words = [shortened_text(category or "(missing)", 9) for category in labels]
    ax.set_xticks(range(len(words)), words, parse_math=False, rotation=90 if sum(map(len, words)) > 24 else 0)


def _frame(ax: Axes | None, x: np.ndarray, y: np.ndarray) -> Axes:
    """Points of rows around 0, in front of the band of one standard deviation."""
    ax = axes_or_new(ax, SMALL)
    ax.axhspan(-1, 1, color=INK, alpha=0.07, linewidth=0)
    ax.axhline(0, color=INK, linewidth=1, alpha=0.55)
    pick = evenly(len(x), 200)
    ax.scatter(x[pick], np.clip(y[pick], -MOST, MOST), s=9, c=BLUE, alpha=0.55, linewidths=0)
    reach = min(MOST, max(3.0, float(np.abs(y).max()))) + 0.3
    ax.set_ylim(-reach, reach)
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.yaxis.set_major_formatter(Amounts())
    ax.tick_params(labelsize=SIZE)
    return ax


def _mean(ax: Axes, position: float, residuals: np.ndarray) -> None:
    """The mean of some rows, with its 95 % interval."""
    half = 1.96 * residuals.std(ddof=1) / np.sqrt(len(residuals)) if len(residuals) > 1 else 0.0
    ax.errorbar(position, residuals.mean(), half, color=ORANGE, marker="D", markersize=4.5, linewidth=1.8, zorder=4)


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
    ax = axes_or_new(ax, SMALL)
    round_ticks(ax.yaxis, 4, PERCENT if shares else None)
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
    ax = axes_or_new(ax, SMALL)
    round_ticks(ax.yaxis, 4, PERCENT if shares else None)
    position = np.arange(len(labels))
    bars = 2 * np.asarray(epistemic, dtype=float)
    ax.errorbar(position, mean, bars, fmt="none", ecolor=ORANGE, elinewidth=5, alpha=0.4)
    ax.plot(position, mean, "o", color=BLUE, markersize=4.5)
    _name_categories(ax, labels)
    ax.margins(x=0.15)
    return dress(ax, shortened_text(name, 26), shortened_text(label, 22))
