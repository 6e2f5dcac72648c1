"""Figures of a fitted model: plain arrays in, matplotlib axes out.

Every function draws on the axes it is given, or on a fresh figure outside pyplot when `ax` is None, and
returns the axes. Colours come from `INK` and `PALETTE`, so that a page can replace them by its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike, NDArray

from gumdrop.numerals import shortened

INK = "#23262b"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#b0609a", "#4aa3d8", "#b8860b")
BLUE, ORANGE, GREEN = PALETTE[:3]
RELEVANCE = LinearSegmentedColormap.from_list("relevance", ["#ffffff", "#9ecae1", PALETTE[0], "#06304f"])
SIZE = 9.0  # points; a phone shows the figures a fifth larger than they are drawn, so that is 11 pixels there
POINTS = 300
PERCENT = FuncFormatter(lambda share, _: f"{100 * share:.3g} %")

Summary = Literal["rms", "mean"]
Numbers = NDArray[np.float64]


class _Amounts(Formatter):
    """Ticks in plain numbers, as few digits as tell them apart."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        return [text.replace("-", "\N{MINUS SIGN}") for text in shortened(list(map(float, values)))]


def evenly(count: int, limit: int) -> NDArray[np.intp]:
    """Positions of at most `limit` of `count` items, evenly spread and the same every time.

    Args:
        count: How many items there are.
        limit: How many may be kept, at least 1.

    Returns:
        Increasing positions, all of them when `count <= limit`.
    """
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, limit)).round().astype(np.intp))


def predicted_against_observed(
    observed: ArrayLike,
    mean: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    ax: Axes | None = None,
    name: str = "",
) -> Axes:
    """Rows as points with their intervals, at most `POINTS` of them; the diagonal is a perfect prediction.

    Args:
        observed: True values, `(N,)`.
        mean: Predicted means, `(N,)`.
        lower: Lower ends of the intervals, `(N,)`.
        upper: Upper ends of the intervals, `(N,)`.
        ax: Axes to draw on; a new figure when None.
        name: What is predicted, for the axis labels.

    Returns:
        The axes. The points are two collections with the gids `inside` and `outside`.
    """
    ax = _axes(ax)
    pick = evenly(np.size(observed), POINTS)
    truth, guess, low, high = (np.asarray(a, dtype=float)[pick] for a in (observed, mean, lower, upper))
    inside = (low <= truth) & (truth <= high)
    ends = [min(truth.min(), guess.min()), max(truth.max(), guess.max())]
    ax.plot(ends, ends, color=INK, linewidth=1, alpha=0.55, zorder=1)
    width = 1.2 if len(pick) <= 120 else 0.8
    for rows, colour, marker, gid in ((inside, BLUE, "o", "inside"), (~inside, ORANGE, "D", "outside")):
        ax.vlines(truth[rows], low[rows], high[rows], color=colour, alpha=0.3, linewidth=width, zorder=2)
        points = ax.scatter(truth[rows], guess[rows], s=14, c=colour, marker=marker, linewidths=0, zorder=3)
        points.set_gid(gid)
    long = np.ptp(truth) < abs(truth).max() / 100  # such as times: labels need all digits
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(2 if long else 4, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(_Amounts())
    return _dress(ax, f"observed {_short(name, 24)}", f"predicted {_short(name, 24)}")


def calibration(expected: ArrayLike, observed: ArrayLike, *, rows: int | None = None, ax: Axes | None = None) -> Axes:
    """Share of rows inside each central interval, against the share that should be.

    Args:
        expected: Nominal shares in 0..1, `(K,)`.
        observed: Shares of the rows that did fall inside, `(K,)`.
        rows: How many rows were counted; draws the band that chance alone explains, `2 sqrt(p (1-p) / rows)`.
        ax: Axes to draw on; a new figure when None.

    Returns:
        The axes.
    """
    ax = _unit_square(_axes(ax))
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
    return _dress(ax, "share of rows the interval should hold", "share of rows it did hold")


def reliability(
    confidence: ArrayLike, accuracy: ArrayLike, count: ArrayLike | None = None, *, ax: Axes | None = None
) -> Axes:
    """Accuracy against stated confidence, one disc per bin, its area growing with the rows in the bin.

    Args:
        confidence: Mean probability of the predicted class in each bin, `(B,)`; empty bins may be NaN.
        accuracy: Share of correct rows in each bin, `(B,)`.
        count: Rows in each bin, `(B,)`.
        ax: Axes to draw on; a new figure when None.

    Returns:
        The axes.
    """
    ax = _unit_square(_axes(ax))
    sure, right = np.asarray(confidence, dtype=float), np.asarray(accuracy, dtype=float)
    rows = np.ones(sure.size) if count is None else np.asarray(count, dtype=float)
    keep = np.isfinite(sure) & np.isfinite(right) & (rows > 0)
    sure, right, rows = sure[keep], right[keep], rows[keep]
    ax.vlines(sure, np.minimum(sure, right), np.maximum(sure, right), color=ORANGE, alpha=0.7, linewidth=1.6)
    if rows.size:
        ax.scatter(sure, right, s=12 + 110 * rows / rows.max(), c=BLUE, alpha=0.85, linewidths=0, zorder=3)
    return _dress(ax, "how sure the model said it was", "share it got right")


def grouped_error(uncertainty: ArrayLike, error: ArrayLike, *, summary: Summary = "rms") -> Numbers:
    """Error in five equal groups of rows, from the surest to the least sure; in fewer when rows are few.

    Args:
        uncertainty: What sorts the rows, `(N,)`, N at least 1; rows that tie count as their mean.
        error: Error of each row, `(N,)`.
        summary: `rms` for distances, `mean` for a share of wrong rows.

    Returns:
        The error of each group.
    """
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
    """Error in groups of rows, from the surest to the least sure.

    Args:
        uncertainty: What sorts the rows, `(N,)`.
        error: Error of each row, `(N,)`: a distance, or 0 and 1.
        expected: Error that the model itself foretold, `(N,)`; drawn as a dash on each bar.
        chance: Between which errors groups drawn at random mostly lie; drawn as a band.
        summary: `rms` for distances, `mean` for a share of wrong rows.
        label: Label of the error axis.
        ax: Axes to draw on; a new figure when None.

    Returns:
        The axes.
    """
    ax = _axes(ax)
    height = grouped_error(uncertainty, error, summary=summary)
    place = np.arange(1, height.size + 1)
    if chance is not None:
        ax.axhspan(*chance, color=INK, alpha=0.12, linewidth=0)
    ax.bar(place, height, 0.68, color=BLUE)
    if expected is not None:
        foretold = grouped_error(uncertainty, expected, summary=summary)
        ax.hlines(foretold, place - 0.42, place + 0.42, color=ORANGE, linewidth=2.4)
    ends = {1: "surest", place.size: "least sure"}
    ax.set_xticks(place, [ends.get(int(i), "") for i in place])
    ax.yaxis.set_major_formatter(PERCENT if summary == "mean" else _Amounts())
    _dress(ax, "test rows in equal groups", label).grid(visible=False, axis="x")
    return ax


def remaining_error(order_by: ArrayLike, error: ArrayLike, summary: Summary) -> tuple[Numbers, Numbers]:
    """Error of the rows that are left when the rows with the largest `order_by` are set aside.

    Args:
        order_by: What sorts the rows, `(N,)`, N at least 1.
        error: Error of each row, `(N,)`.
        summary: `rms` or `mean`.

    Returns:
        Shares set aside, increasing from 0, and the error of the rest; at least a tenth of the rows stays.
    """
    power = 2 if summary == "rms" else 1
    costs = _sorted_costs(order_by, error, power)
    kept = np.arange(1, costs.size + 1)
    running = (np.cumsum(costs) / kept) ** (1 / power)
    start = min(max(costs.size // 10, 3), costs.size) - 1
    return (1 - kept / costs.size)[start:][::-1], running[start:][::-1]


def error_after_setting_aside(
    uncertainty: ArrayLike,
    error: ArrayLike,
    *,
    summary: Summary = "rms",
    label: str = "error of the rest",
    ax: Axes | None = None,
) -> Axes:
    """How the error falls when the least sure rows are set aside, between chance and a perfect order.

    Args:
        uncertainty: What sorts the rows, `(N,)`.
        error: Error of each row, `(N,)`.
        summary: `rms` for distances, `mean` for a share of wrong rows.
        label: Label of the error axis.
        ax: Axes to draw on; a new figure when None.

    Returns:
        The axes.
    """
    ax = _axes(ax)
    lines = {"by true error": (error, GREEN, ":"), "by the model's doubt": (uncertainty, BLUE, "-")}
    for name, (order, colour, style) in lines.items():
        share, left = remaining_error(order, error, summary)
        pick = evenly(share.size, 200)
        ax.plot(share[pick], left[pick], color=colour, linestyle=style, linewidth=1.8, label=name)
    ax.axhline(left[0], color=INK, alpha=0.55, linewidth=1, linestyle="--", label="in any order")
    ax.set_ylim(0, 1.45 * ax.get_ylim()[1])  # room for the legend, which the dashed line would cross
    ax.xaxis.set_major_formatter(PERCENT)
    ax.yaxis.set_major_formatter(PERCENT if summary == "mean" else _Amounts())
    return _legend(_dress(ax, "share of rows set aside, least sure first", label))


def site_colours(count: int) -> list[str]:
    """One colour per dropout site: distinct ones for a few, a scale from first to last for many.

    Args:
        count: How many sites.

    Returns:
        Hex colours.
    """
    scale = LinearSegmentedColormap.from_list("sites", ["#3b8fd0", "#9a7fb5", "#e0763a"])
    return list(PALETTE[:count]) if count <= len(PALETTE) else [to_hex(scale(i / (count - 1))) for i in range(count)]


def rates_over_training(
    epochs: ArrayLike, rates: Mapping[str, ArrayLike], *, legend: bool = True, ax: Axes | None = None
) -> Axes:
    """The learned dropout rate of every site, epoch by epoch.

    Args:
        epochs: Epoch numbers, `(E,)`.
        rates: Rates in 0..1 of each site, `(E,)`, by label, from input to output.
        legend: Whether to name the lines (never for more than eight).
        ax: Axes to draw on; a new figure when None.

    Returns:
        The axes.
    """
    ax = _axes(ax)
    for (name, values), colour in zip(rates.items(), site_colours(len(rates)), strict=True):
        _line(ax, epochs, values, colour, _short(name, 28))
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter(PERCENT)
    _dress(ax, "epoch", "share of units left out")
    return _legend(ax) if legend and len(rates) <= 8 else ax


def training_curve(
    epochs: ArrayLike,
    nll: ArrayLike,
    *,
    kl: ArrayLike | None = None,
    validation_nll: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The loss over training; a steep start may leave the frame so that the rest can be read.

    Args:
        epochs: Epoch numbers, `(E,)`.
        nll: Negative log likelihood of the training rows, nats per row, `(E,)`.
        kl: Penalty for straying from the prior, nats per row, `(E,)`.
        validation_nll: The loss of rows held out of training, `(E,)`; NaN where it was not computed.
        ax: Axes to draw on; a new figure when None.

    Returns:
        The axes.
    """
    ax = _axes(ax)
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
    return _legend(_dress(ax, "epoch", "loss (nats per row)"))


def confusion(
    observed: Sequence[str], predicted: Sequence[str], classes: Sequence[str], *, ax: Axes | None = None
) -> Axes:
    """Rows of each true class by predicted class: right ones on the diagonal, shaded by share of the class.

    Args:
        observed: True class of each row.
        predicted: Predicted class of each row.
        classes: The classes, in order; a class that is only in the rows is added at the end.
        ax: Axes to draw on; a new figure when None.

    Returns:
        The axes.
    """
    ax = _axes(ax)
    names = list(dict.fromkeys([*classes, *observed, *predicted]))
    place = {name: i for i, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, ([place[o] for o in observed], [place[p] for p in predicted]), 1)
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


def _sorted_costs(order_by: ArrayLike, error: ArrayLike, power: int) -> Numbers:
    """Powers of the error in the order of another array; rows that tie have their mean, as the file's order is none."""
    _, group, counts = np.unique(np.asarray(order_by, dtype=float), return_inverse=True, return_counts=True)
    costs = np.bincount(group, weights=np.asarray(error, dtype=float) ** power) / counts
    return np.repeat(costs, counts)


def _axes(ax: Axes | None) -> Axes:
    return ax if ax is not None else Figure(figsize=(3.75, 2.9), layout="constrained").add_subplot()


def _unit_square(ax: Axes) -> Axes:
    ax.plot([0, 1], [0, 1], color=INK, linewidth=1, alpha=0.55)
    ax.set(xlim=(-0.02, 1.03), ylim=(-0.02, 1.05))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PERCENT)
    return ax


def _line(ax: Axes, epochs: ArrayLike, values: ArrayLike, colour: str, label: str, style: str = "-") -> None:
    marker = "o" if np.size(epochs) == 1 else ""  # one epoch is a point, which a line would not show
    y = np.asarray(values, dtype=float)
    ax.plot(np.asarray(epochs), y, color=colour, label=label, linestyle=style, marker=marker, linewidth=1.6)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def _dress(ax: Axes, xlabel: str, ylabel: str) -> Axes:
    ax.set_xlabel(xlabel, color=INK, fontsize=SIZE, parse_math=False)
    ax.set_ylabel(ylabel, color=INK, fontsize=SIZE, parse_math=False)
    ax.tick_params(colors=INK, labelsize=SIZE, length=0, pad=5)
    ax.grid(color=INK, alpha=0.1, linewidth=0.8)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set(visible=side == "bottom", color=INK, alpha=0.4)
    return ax


def _legend(ax: Axes) -> Axes:
    if ax.get_legend_handles_labels()[0]:
        texts = ax.legend(frameon=False, fontsize=SIZE, labelcolor=INK, handlelength=1.8).get_texts()
        for text in texts:
            text.set_parse_math(False)
    return ax


def _class_ticks(ax: Axes, names: Sequence[str]) -> Axes:
    shown = evenly(len(names), 30 if len(names) <= 30 else 15)
    words = [_short(names[i], 14) for i in shown]
    size = SIZE if len(names) <= 12 else SIZE - 3
    _dress(ax, "predicted class", "true class")
    turn = 90 if len(words) * max(map(len, words)) > 30 else 0
    ax.set_xticks(shown + 0.5, words, rotation=turn, fontsize=size, parse_math=False)
    ax.set_yticks(shown + 0.5, words, fontsize=size, parse_math=False)
    ax.grid(False)
    return ax


def _short(text: str, limit: int) -> str:
    clean = "".join(c if c.isprintable() else " " for c in text).strip(" _") or text.strip()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
