"""Figures of predictions: beside what was observed, also in part, by themselves, or beside those that trained."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from gumdrop.machine.picking import evenly
from gumdrop.views.plots.style import (
    BLUE,
    INK,
    ORANGE,
    PALETTE,
    PERCENT,
    POINTS,
    SIZE,
    Amounts,
    add_legend,
    axes_or_new,
    dress,
    round_ticks,
    set_apart,
    shortened_text,
    unit_square,
)


def reliability(
    confidence: ArrayLike, accuracy: ArrayLike, count: ArrayLike | None = None, *, ax: Axes | None = None
) -> Axes:
    """Accuracy against stated confidence, one disc per bin, its area growing with the rows in the bin."""
    ax = unit_square(axes_or_new(ax))
    sure, right = np.asarray(confidence, dtype=float), np.asarray(accuracy, dtype=float)
    rows = np.ones(sure.size) if count is None else np.asarray(count, dtype=float)
    keep = np.isfinite(sure) & np.isfinite(right) & (rows > 0)
    sure, right, rows = sure[keep], right[keep], rows[keep]
    ax.vlines(sure, np.minimum(sure, right), np.maximum(sure, right), color=ORANGE, alpha=0.7, linewidth=1.6)
    if rows.size:
        ax.scatter(sure, right, s=12 + 110 * rows / rows.max(), c=BLUE, alpha=0.85, linewidths=0, zorder=3)
    return dress(ax, "how sure the model said it was", "share it got right")


def confusion(
    observed: Sequence[str], predicted: Sequence[str], classes: Sequence[str], *, ax: Axes | None = None
) -> Axes:
    """Rows of each true class by predicted class: right ones on the diagonal, shaded by share of the class."""
    ax = axes_or_new(ax)
    names = list(dict.fromkeys([*classes, *observed, *predicted]))
    index = {name: i for i, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, ([index[o] for o in observed], [index[p] for p in predicted]), 1)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    row, column = np.nonzero(counts)
    shade = np.where(row == column, share[row, column], np.sqrt(share[row, column]))  # a few mistakes must show
    colours = [to_rgba(BLUE if i == j else ORANGE, 0.62 * a) for i, j, a in zip(row, column, shade, strict=True)]
    corners = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    ax.add_collection(PolyCollection(np.stack([column, row], 1)[:, None] + corners, facecolors=colours, linewidths=0))
    ax.set(xlim=(0, len(names)), ylim=(len(names), 0))
    for i, j in np.argwhere(counts > 0) if len(names) <= 10 else ():
        ax.text(j + 0.5, i + 0.5, f"{counts[i, j]:.0f}", ha="center", va="center", color=INK, size=SIZE)
    return _class_ticks(ax, names)


def _class_ticks(ax: Axes, names: Sequence[str]) -> Axes:
    shown = evenly(len(names), 30 if len(names) <= 30 else 15)
    words = [shortened_text(names[i], 14) for i in shown]
    size = SIZE if len(names) <= 12 else SIZE - 3
    dress(ax, "predicted class", "true class")
    turn = 90 if len(words) * max(map(len, words)) > 30 else 0
    ax.set_xticks(shown + 0.5, words, rotation=turn, fontsize=size, parse_math=False)
    ax.set_yticks(shown + 0.5, words, fontsize=size, parse_math=False)
    ax.grid(False)
    return ax


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
    position = truth + set_apart(truth)
    width = 1.2 if len(pick) <= 120 else 0.8
    for rows, colour, marker, gid in ((inside, BLUE, "o", "inside"), (~inside, ORANGE, "D", "outside")):
        ax.vlines(position[rows], low[rows], high[rows], color=colour, alpha=0.3, linewidth=width, zorder=2)
        points = ax.scatter(position[rows], guess[rows], s=14, c=colour, marker=marker, linewidths=0, zorder=3)
        points.set_gid(gid)
    long = np.ptp(truth) < abs(truth).max() / 100  # such as times: labels need all digits
    for axis in (ax.xaxis, ax.yaxis):
        round_ticks(axis, 2 if long else 4)
    return dress(ax, f"observed {shortened_text(name, 24)}", f"predicted {shortened_text(name, 24)}")


INTERVALS = "share of rows the interval should hold", "share of rows it did hold"


def calibration(
    expected: ArrayLike,
    observed: ArrayLike,
    *,
    rows: int | None = None,
    labels: tuple[str, str] = INTERVALS,
    ax: Axes | None = None,
) -> Axes:
    """Share of rows inside each central interval, against the share that should be, beside what chance explains."""
    ax = unit_square(axes_or_new(ax))
    if rows:
        p = np.linspace(0, 1, 101)
        chance = 2 * np.sqrt(p * (1 - p) / rows)
        low, high = np.clip(p - chance, 0, 1), np.clip(p + chance, 0, 1)
        ax.fill_between(p, low, high, color=INK, alpha=0.09, linewidth=0)
    ends = np.asarray(expected, float), np.asarray(observed, float)
    ax.plot(*ends, "o-", color=BLUE, markersize=3.5, linewidth=1.6)
    return dress(ax, *labels)


def precision_recall(
    recall: ArrayLike, precision: ArrayLike, *, chance: float, cut: tuple[float, float] | None, ax: Axes | None = None
) -> Axes:
    """Precision against recall over all thresholds, above the precision of chance; one cut of them is marked."""
    ax = unit_square(axes_or_new(ax), diagonal=False)
    ax.axhline(chance, color=INK, alpha=0.55, linewidth=1, linestyle="--")
    ax.step(recall, precision, color=BLUE, linewidth=1.6, where="post")
    if cut is not None:
        ax.plot(*cut, "D", color=ORANGE, markersize=6)
    return dress(ax, "recall: share of them that is found", "precision: share that is right")


PINK = PALETTE[3]


def distribution(values: ArrayLike, *, name: str, shares: bool = False, ax: Axes | None = None) -> Axes:
    """Histogram of numbers; shares are written in percent."""
    ax = axes_or_new(ax)
    numbers = np.asarray(values, dtype=float)
    ax.hist(numbers, bins=int(np.clip(np.sqrt(numbers.size), 4, 30)), color=PINK, rwidth=0.92)
    round_ticks(ax.xaxis, 4, PERCENT if shares else None)
    return _counted(dress(ax, shortened_text(name, 40), "rows"), ax.yaxis)


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
    round_ticks(ax.yaxis, 5)
    label = f"predicted {shortened_text(name, 24)}"
    return _counted(dress(ax, "rows, smallest prediction first", label), ax.xaxis)


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
    round_ticks(ax.yaxis, 5)
    return add_legend(_counted(dress(ax, "rows, surest first", label), ax.xaxis))


def _counted(ax: Axes, axis: Axis) -> Axes:
    """Count rows along an axis."""
    axis.set_major_locator(MaxNLocator(4, integer=True))
    axis.set_major_formatter(Amounts())
    ax.grid(visible=False, axis="x")
    return ax


def shares_by_bin(
    names: Sequence[str], before: ArrayLike, now: ArrayLike, *, column: str, ax: Axes | None = None
) -> Axes:
    """Shares of the rows in each bin of a column, in two tables."""
    position = np.arange(len(names))
    ax = axes_or_new(ax, (3.75, 1.1 + 0.27 * len(names)))
    ax.barh(position - 0.2, np.asarray(before, float), height=0.36, color=INK, alpha=0.35, label="training")
    ax.barh(position + 0.2, np.asarray(now, float), height=0.36, color=PALETTE[3], label="here")
    ax.set_yticks(position, [shortened_text(name, 24) for name in names], parse_math=False)
    ax.set_ylim(len(names) - 0.4, -1.6)  # room for the legend; the first bin is at the top
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.xaxis.set_major_formatter(PERCENT)
    dress(ax, "share of the rows", shortened_text(column, 24)).grid(visible=False, axis="y")
    return add_legend(ax, loc="upper right", ncols=2)


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
    return add_legend(ax, loc="upper left")
