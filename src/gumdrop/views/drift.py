"""How a table differs from what a model was trained on, for the terminal."""

from __future__ import annotations

from gumdrop.tables.drift import Drift
from gumdrop.views.terminal import Voice, columns_table

__all__ = ["show_drift"]


def show_drift(voice: Voice, found: Drift) -> None:
    """Show what differs in a terminal."""
    if not found.columns:
        voice.say(f"{found.rows:,} rows: no column is distributed otherwise than in training, as far as they can tell")
    else:
        voice.say(f"{found.rows:,} rows: {found.unlike}")
        heads = ("column", "what changed most", "training", "here", "PSI")
        rows = columns_table("Columns that differ", *heads, numbers_from=2)
        for each in found.columns:
            rows.add_row(each.name, each.what, f"{each.before:.1%}", f"{each.now:.1%}", f"{each.psi:.2f}")
        voice.show(rows)
    more = "which is more than chance makes" if found.more_uncertain else "which is no more than chance makes"
    voice.say(
        f"{found.above:.0%} of the rows have a larger epistemic uncertainty than nine tenths of the test rows of the "
        f"fit had, {more}"
    )
