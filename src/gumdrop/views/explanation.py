"""What drives predictions of a table: for the terminal, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gumdrop.machine.files import replacing
from gumdrop.machine.numerals import readable
from gumdrop.views.html import template
from gumdrop.views.terminal import Voice, columns_table

__all__ = ["show_explanation", "write_page"]


def show_explanation(voice: Voice, found: dict[str, Any], *, rows: int = 3, columns: int = 10) -> None:
    """Show an explanation in a terminal.

    Args:
        voice: Where.
        found: What `explain_table` returned.
        rows: How many of its rows.
        columns: How many columns of each, those that count most.
    """
    what, unsure = headings(found)
    for row in found["rows"][:rows]:
        table = columns_table(headline(found, row), "column", "value", what, unsure, numbers_from=2)
        shares, doubts = row["explained"]["shares"], row["epistemic"]["shares"]
        order = _ordered(shares, doubts, columns)
        for k in order[:columns]:
            table.add_row(found["columns"][k], row["values"][k] or "(missing)", signed(shares[k]), signed(doubts[k]))
        if rest := order[columns:]:
            sums = (signed(sum(each[k] for k in rest)) for each in (shares, doubts))
            table.add_row(f"{len(rest)} others", "", *sums)
        ends = [[readable(row[part][end]) for end in ("usual", "value")] for part in ("explained", "epistemic")]
        table.add_section()
        table.add_row("usual row -> this row", "", *(f"{usual} -> {value}" for usual, value in ends))
        voice.show(table)
    if len(found["rows"]) > rows:
        voice.say(f"and {len(found['rows']) - rows} more rows on the page")
    overall = found["overall"]
    table = columns_table(f"Mean size over {overall['rows']} usual rows", "column", what, unsure)
    for k in _ordered(overall["explained"], overall["epistemic"], 2 * columns)[: 2 * columns]:
        table.add_row(found["columns"][k], *(readable(overall[part][k], 3) for part in ("explained", "epistemic")))
    voice.show(table)


def headings(found: dict[str, Any]) -> tuple[str, str]:
    """What the two kinds of shares are of, with their units."""
    target = found["target"]
    if target["task"] == "regression":
        unit = f" ({target['unit']})" if target["unit"] else ""
        return f"{target['name']}{unit}", f"unfamiliar{unit or ' (same unit)'}"
    return "probability", "unfamiliar (nats)"


def headline(found: dict[str, Any], row: dict[str, Any]) -> str:
    """What is predicted for a row, in one line."""
    if found["target"]["task"] == "regression":
        unit = f" {found['target']['unit']}" if found["target"]["unit"] else ""
        interval = f"{found['coverage']:.0%} interval {readable(row['lower'])} to {readable(row['upper'])}"
        return f"Row {row['row']}: {found['target']['name']} {readable(row['prediction'])}{unit}, {interval}"
    return f"Row {row['row']}: {found['target']['name']} {row['prediction']} ({row['explained']['value']:.0%} sure)"


def signed(share: float) -> str:
    """A share with its sign."""
    return f"{'+' if share > 0 else ''}{readable(share, 3)}" if abs(share) >= 5e-4 else "0"


def _ordered(shares: Sequence[float], doubts: Sequence[float], most: int) -> list[int]:
    """Places of the columns: first those that count most in either list, by what they count in the first."""
    sizes = [np.abs(each) / (np.abs(each).max() or 1.0) for each in map(np.asarray, (shares, doubts))]
    places = np.argsort(-np.maximum(*sizes), kind="stable").tolist()
    return sorted(places[:most], key=lambda k: -sizes[0][k]) + places[most:]


def write_page(found: dict[str, Any], place: Path) -> None:
    """Write an explanation as a page that needs nothing from outside.

    Args:
        found: What `explain_table` returned.
        place: File to write.
    """
    what, unsure = headings(found)
    view: dict[str, Any] = {"found": found, "what": what, "unsure": unsure}
    overall = found["overall"]
    view["overall_order"] = _ordered(overall["explained"], overall["epistemic"], 40)
    view["orders"] = [_ordered(row["explained"]["shares"], row["epistemic"]["shares"], 25) for row in found["rows"]]
    view["headlines"] = [headline(found, row) for row in found["rows"]]
    text = template("explain.html.j2", signed=signed, readable=readable).render(view)
    with replacing(place) as file:
        file.write(text)
