"""Colours, sizes and axes that all figures share."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from gumdrop.machine.numerals import MINUS, shortened

INK = "#23262b"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#b0609a", "#4aa3d8", "#b8860b")
BLUE, ORANGE, GREEN = PALETTE[:3]
RELEVANCE = LinearSegmentedColormap.from_list("relevance", ["#ffffff", "#9ecae1", PALETTE[0], "#06304f"])
SIZE = 9.0  # points; a phone shows the figures a fifth larger than they are drawn, so that is 11 pixels there
POINTS = 300
PERCENT = FuncFormatter(lambda share, _: f"{100 * share:.3g} %")

Summary = Literal["rms", "mean"]
Numbers = NDArray[np.float64]


class Amounts(Formatter):
    """Ticks in plain numbers, as few digits as tell them apart."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Write one tick."""
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """Write all ticks of an axis."""
        return [text.replace("-", MINUS) for text in shortened(list(map(float, values)))]


def round_ticks(axis: Axis, most: int, form: Formatter | None = None, *, integer: bool = False) -> None:
    """Put at most so many ticks at an axis, at round numbers, which are written plainly unless a form is given."""
    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10], integer=integer))
    axis.set_major_formatter(form or Amounts())


def set_apart(values: NDArray[np.float64]) -> Numbers:
    """Shifts of less than half a step that keep rows of the same value apart; 0 where values hardly repeat."""
    distinct = np.unique(values)
    if not 2 <= len(distinct) <= len(values) / 4:
        return np.zeros(len(values))
    return 0.6 * np.diff(distinct).min() * evenly_spread(len(values))


def evenly_spread(count: int) -> Numbers:
    """Numbers from -1/2 to 1/2, of which any that follow each other are spread evenly (by the golden ratio)."""
    return np.asarray((np.arange(count) * 0.6180339887498949) % 1 - 0.5)


def axes_or_new(ax: Axes | None, size: tuple[float, float] = (3.55, 2.75)) -> Axes:
    """Take the axes that are given, or new ones outside pyplot, of a size in inches."""
    return ax if ax is not None else Figure(figsize=size, layout="constrained").add_subplot()


def unit_square(ax: Axes, *, diagonal: bool = True) -> Axes:
    """Show the unit square, in percent, with its diagonal."""
    if diagonal:
        ax.plot([0, 1], [0, 1], color=INK, linewidth=1, alpha=0.55)
    ax.set(xlim=(-0.02, 1.03), ylim=(-0.02, 1.05))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PERCENT)
    return ax


def dress(ax: Axes, xlabel: str, ylabel: str) -> Axes:
    """Label the axes and take away what is not data."""
    ax.set_xlabel(xlabel, color=INK, fontsize=SIZE, parse_math=False)
    ax.set_ylabel(ylabel, color=INK, fontsize=SIZE, parse_math=False)
    ax.tick_params(colors=INK, labelsize=SIZE, length=0, pad=5)
    ax.grid(color=INK, alpha=0.1, linewidth=0.8)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set(visible=side == "bottom", color=INK, alpha=0.4)
    return ax


def add_legend(ax: Axes, **options: Any) -> Axes:
    """Add a legend if there is something to tell apart, where there is room or at a place."""
    if ax.get_legend_handles_labels()[0]:
        texts = ax.legend(frameon=False, fontsize=SIZE, labelcolor=INK, handlelength=1.8, **options).get_texts()
        for text in texts:
            text.set_parse_math(False)
    return ax


def shortened_text(text: str, limit: int) -> str:
    """Cut a text to a number of characters, without what cannot be printed."""
    clean = "".join(c if c.isprintable() else " " for c in text).strip(" _") or text.strip()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
