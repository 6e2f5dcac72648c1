"""The look of the figures of experiments: panels, axes, and a legend below them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gumdrop_experiments.harness.plain import Plain

if TYPE_CHECKING:  # each process of a run would load matplotlib, and one draws
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY = "#8a8f98"
WHOLE = 100
"""Numbers from here on are written without decimals."""


def subplots(rows: int = 1, columns: int = 1, *, size: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """Lay out panels as pyplot does, whose figures would stay in memory until they are closed."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=size, layout="constrained")
    return drawing, drawing.subplots(rows, columns, **options)


def dress(
    ax: Axes, *, title: str = "", x: str = "", y: str = "", whole: bool = False, legend: float = 0, **limits: Any
) -> Axes:
    """Give axes the look of the house: whole numbers at x, a legend of a size, limits and scales of `Axes.set`."""
    ax.set_title(title, fontsize=10.5, loc="left")
    ax.set(**{name: label for name, label in (("xlabel", x), ("ylabel", y)) if label}, **limits)
    ax.grid(alpha=0.15)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    if whole:
        ax.locator_params(axis="x", integer=True)
    if legend:
        ax.legend(frameon=False, fontsize=legend)
    return ax


def log_ticks(ax: Axes, *multiples: float, form: Any = "{x:g}") -> None:
    """Make the axis of y logarithmic, with plain numbers at multiples of the powers of ten."""
    ax.set_yscale("log")
    ax.locator_params("y", subs=multiples)
    ax.yaxis.set_major_formatter(form)
    ax.yaxis.set_minor_formatter("")


def ticks_at(ax: Axes, values: Sequence[float], form: Callable[[float], str] = "{:,}".format) -> None:
    """Write these numbers, and no others, at a logarithmic axis of x."""
    ax.set_xscale("log")
    ax.set_xticks(values, list(map(form, values)), fontsize=8.5)
    ax.minorticks_off()


def band(ax: Axes, x: Any, middle: Any, low: Any, high: Any, *, color: str, **look: Any) -> None:
    """Draw a line and a band around it."""
    ax.plot(x, middle, color=color, **look)
    ax.fill_between(x, low, high, color=color, alpha=0.13, linewidth=0)


def legend_below(drawing: Figure, ax: Axes, columns: int, size: float | None = None, **options: Any) -> None:
    """Say below all panels what the lines of one of them are."""
    handles = ax.get_legend_handles_labels()
    drawing.legend(*handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=size, **options)


def legend_of(drawing: Figure, looks: Mapping[str, Plain], columns: int) -> None:
    """Say below all panels what lines and marks are, by how they look."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=label, **look) for label, look in looks.items()]
    drawing.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)


def panels_of(
    names: Sequence[str], columns: int, *, panel: tuple[float, float], margin: float = 0.0, **options: Any
) -> tuple[Figure, dict[str, Axes]]:
    """Lay out a panel for each name, of one width and height, so many in a row beside a margin for labels."""
    columns = min(columns, len(names))
    rows = -(-len(names) // columns)
    size = margin + columns * panel[0], rows * panel[1]
    drawing, grid = subplots(rows, columns, squeeze=False, size=size, **options)
    panels = dict(zip(names, grid.flat, strict=False))
    for unused in list(grid.flat)[len(names) :]:
        unused.set_visible(False)
    for name, ax in panels.items():
        dress(ax, title=name).grid(visible=False)
    return drawing, panels


def name_rows(ax: Axes, labels: Sequence[str]) -> None:
    """Name the rows of a panel from below, and keep what stands at its foot as small."""
    ax.set_yticks(range(len(labels)), labels, fontsize=8)
    ax.set_ylim(-0.6, len(labels) - 0.4)
    ax.tick_params(axis="x", labelsize=8)


def edges_of(pairs: Sequence[Sequence[float]], *, lower_is_better: bool = False) -> tuple[float, float]:
    """Find edges for means and their errors that leave out what is far astray."""
    means, errors = np.array(pairs).T
    best = means.min() if lower_is_better else means.max()
    reach = max(3 * abs(best - np.median(means)), 6 * np.median(errors), 1e-6)
    near = np.abs(means - best) <= reach
    low, high = (means - errors)[near].min(), (means + errors)[near].max()
    margin = 0.06 * (high - low)
    return float(low - margin), float(high + margin)


def dots(
    ax: Axes,
    rows: Mapping[str, Sequence[float] | str],
    edges: tuple[float, float],
    form: str = ".2f",
    *,
    look: Callable[[str], Plain],
) -> None:
    """Draw a row for each name, the first above: a mean and its error, or words in their place."""
    for i, (name, value) in enumerate(list(rows.items())[::-1]):
        if isinstance(value, str):
            ax.annotate(f"  {value}", (edges[0], i), fontsize=8, va="center", color=GREY)
        else:
            dot(ax, value[0], i, value[1], edges, form, **look(name))
    name_rows(ax, list(rows)[::-1])
    ax.set_xlim(edges)
    ax.locator_params("x", nbins=5, steps=[1, 2, 5, 10])


def dot(
    ax: Axes, mean: float, row: float, error: float, edges: tuple[float, float], form: str = ".2f", **look: Any
) -> None:
    """Draw a number and its error; one beyond the edges stands there in figures, and does not squeeze the others."""
    low, high = edges
    if low <= mean <= high:
        ax.errorbar(mean, row, xerr=error, **{"marker": "o", "linestyle": "none", "capsize": 2 if error else 0, **look})
        return
    options: Plain = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": look.get("color")}
    options["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # lines end before the figures
    number = f"{mean:,.0f}" if abs(mean) >= WHOLE else f"{mean:{form}}"
    if mean < low:
        ax.annotate(f"← {number}", (low, row), (3, 0), ha="left", **options)
    else:
        ax.annotate(f"{number} →", (high, row), (-3, 0), ha="right", **options)
