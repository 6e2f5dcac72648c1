"""What drives predictions of a table: for the terminal, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from gumdrop.machine.files import replacing
from gumdrop.machine.numerals import readable
from gumdrop.tables.explained import ExplainedRow, TableExplanation
from gumdrop.views.html import template
from gumdrop.views.terminal import Voice, columns_table

__all__ = ["show_explanation", "write_page"]


def show_explanation(voice: Voice, found: TableExplanation, *, rows: int = 3, columns: int = 10) -> None:
    """Show an explanation in a terminal.

    Args:
        voice: Where.
        found: What `explain_table` returned.
        rows: How many of its rows.
        columns: How many columns of each, those that count most.
    """
    for row in found.rows[:rows]:
        voice.show(_row_table(found, row, columns))
    if len(found.rows) > rows:
        voice.say(f"and {len(found.rows) - rows} more rows on the page")
    overall = found.overall
    table = columns_table(f"Mean size over {overall.rows} usual rows", "column", *headings(found))
    for k in _ordered(overall.explained, overall.epistemic, 2 * columns)[: 2 * columns]:
        table.add_row(found.columns[k], readable(overall.explained[k], 3), readable(overall.epistemic[k], 3))
    voice.show(table)


def _row_table(found: TableExplanation, row: ExplainedRow, columns: int) -> Table:
    """The columns that count most for a row."""
    table = columns_table(headline(found, row), "column", "value", *headings(found), numbers_from=2)
    shares, epistemic = row.explained.shares, row.epistemic.shares
    order = _ordered(shares, epistemic, columns)
    for k in order[:columns]:
        table.add_row(found.columns[k], row.values[k] or "(missing)", signed(shares[k]), signed(epistemic[k]))
    if rest := order[columns:]:
        sums = (signed(sum(each[k] for k in rest)) for each in (shares, epistemic))
        table.add_row(f"{len(rest)} others", "", *sums)
    table.add_section()
    ends = (f"{readable(part.usual)} -> {readable(part.value)}" for part in (row.explained, row.epistemic))
    table.add_row("usual row -> this row", "", *ends)
    return table


def headings(found: TableExplanation) -> tuple[str, str]:
    """What the two kinds of shares are of, with their units."""
    target = found.target
    if target.task == "regression":
        unit = f" ({target.unit})" if target.unit else ""
        return f"{target.name}{unit}", f"epistemic{unit or ' (same unit)'}"
    return "probability", "epistemic (nats)"


def headline(found: TableExplanation, row: ExplainedRow) -> str:
    """What is predicted for a row, in one line."""
    target = found.target
    if isinstance(row.prediction, str) or row.lower is None or row.upper is None:
        return f"Row {row.row}: {target.name} {row.prediction} ({row.explained.value:.0%} sure)"
    unit = f" {target.unit}" if target.unit else ""
    interval = f"{found.coverage:.0%} interval {readable(row.lower)} to {readable(row.upper)}"
    return f"Row {row.row}: {target.name} {readable(row.prediction)}{unit}, {interval}"


def signed(share: float) -> str:
    """A share with its sign."""
    return f"{'+' if share > 0 else ''}{readable(share, 3)}" if abs(share) >= 5e-4 else "0"


def _ordered(shares: Sequence[float], epistemic: Sequence[float], most: int) -> list[int]:
    """Indices of the columns: first those that count most in either list, by what they count in the first."""
    sizes = [np.abs(each) / (np.abs(each).max() or 1.0) for each in map(np.asarray, (shares, epistemic))]
    places = np.argsort(-np.maximum(*sizes), kind="stable").tolist()
    return sorted(places[:most], key=lambda k: -sizes[0][k]) + places[most:]


def write_page(found: TableExplanation, place: Path) -> None:
    """Write an explanation as a page that needs nothing from outside.

    Args:
        found: What `explain_table` returned.
        place: File to write.
    """
    what, epistemic = headings(found)
    text = template("explain.html.j2", signed=signed, readable=readable).render(
        found=found,
        what=what,
        epistemic=epistemic,
        overall_order=_ordered(found.overall.explained, found.overall.epistemic, 40),
        orders=[_ordered(row.explained.shares, row.epistemic.shares, 25) for row in found.rows],
        headlines=[headline(found, row) for row in found.rows],
    )
    with replacing(place) as file:
        file.write(text)
