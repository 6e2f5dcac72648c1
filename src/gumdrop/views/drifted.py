"""The page of `gumdrop drift`: which columns of a table are not distributed as in training, bin by bin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gumdrop.machine.files import replacing
from gumdrop.tables.drift import ColumnDrift, Drift
from gumdrop.views import plots
from gumdrop.views.html import template
from gumdrop.views.predicted import Picture, Tile
from gumdrop.views.report.rows import number, percent
from gumdrop.views.svg import svg

__all__ = ["write_page"]

DRAWN = 6
"""Columns that the page draws."""


def write_page(found: Drift, place: Path, *, name: str, target: str, notes: Sequence[str]) -> None:
    """Write what differs as a page that needs nothing from outside."""
    unknown = max((each.unknown for each in found.columns), default=0.0)
    outside = max((each.outside for each in found.columns), default=0.0)
    shown = [
        Tile(f"{len(found.columns)} of {found.num_columns}", "columns differ", "by more than chance, and by much"),
        Tile(percent(outside), "outside the training range", "in the column where this is most"),
        Tile(percent(unknown), "missing or never seen", "in the column where this is most"),
    ]
    text = template("drift.html.j2", num=number, percent=percent, count="{:,}".format).render(
        drift=found,
        name=name,
        target=target,
        shown=shown if found.columns else shown[:1],
        pictures=[_picture(k, each) for k, each in enumerate(found.columns[:DRAWN])],
        notes=notes,
    )
    with replacing(place) as file:
        file.write(text)


def _picture(key: int, column: ColumnDrift) -> Picture:
    """The shares of the bins of a column."""
    ax = plots.shares_by_bin(
        [each.what for each in column.bins],
        [each.before for each in column.bins],
        [each.now for each in column.bins],
        column=column.name,
    )
    see = (
        f"{column.what[0].upper()}{column.what[1:]}: {percent(column.before)} in training, {percent(column.now)} here."
    )
    return Picture(svg(ax, f"column{key}", f"Shares of {column.name} in training and here"), see)
