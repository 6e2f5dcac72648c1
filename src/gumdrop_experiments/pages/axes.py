"""The look of the figures of experiments: panels, axes, and a legend below them."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gumdrop_experiments.harness import Plain

GREY = "#8a8f98"


def subplots(rows: int = 1, columns: int = 1, *, size: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """Lay out panels as pyplot does, whose figures would stay in memory until they are closed."""
    drawing = Figure(figsize=size, layout="constrained")
    return drawing, drawing.subplots(rows, columns, **options)


def dress(ax: Axes, *, title: str = "", x: str = "", y: str = "") -> Axes:
    """Give axes the look of the house."""
    ax.set_title(title, fontsize=10.5, loc="left")
    ax.set(**{name: label for name, label in (("xlabel", x), ("ylabel", y)) if label})
    ax.grid(alpha=0.15)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def legend_below(drawing: Figure, ax: Axes, columns: int, size: float | None = None, **options: Any) -> None:
    """Say below all panels what the lines of one of them are."""
    handles = ax.get_legend_handles_labels()
    drawing.legend(*handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=size, **options)


def legend_of(drawing: Figure, looks: Mapping[str, Plain], columns: int) -> None:
    """Say below all panels what lines and marks are, by how they look."""
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
        ax.set_title(name, fontsize=10, loc="left")
        ax.spines[["top", "right"]].set_visible(False)
    return drawing, panels


def name_rows(ax: Axes, labels: Sequence[str]) -> None:
    """Name the rows of a panel from below, and keep what stands at its foot as small."""
    ax.set_yticks(range(len(labels)), labels, fontsize=8)
    ax.set_ylim(-0.6, len(labels) - 0.4)
    ax.tick_params(axis="x", labelsize=8)


def dot(
    ax: Axes, mean: float, row: float, error: float, edges: tuple[float, float], form: str = ".2f", **look: Any
) -> None:
    """Draw a number and its error; one beyond the edges stands there in figures, and does not squeeze the others."""
    low, high = edges
    if low <= mean <= high:
        ax.errorbar(mean, row, xerr=error, **{"marker": "o", "linestyle": "none", "capsize": 2, **look})
        return
    place: Plain = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": look.get("color")}
    if mean < low:
        ax.annotate(f"← {mean:{form}}", (low, row), (3, 0), ha="left", **place)
    else:
        ax.annotate(f"{mean:{form}} →", (high, row), (-3, 0), ha="right", **place)
