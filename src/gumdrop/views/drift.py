"""How a table differs from what a model was trained on: for the terminal, and as a page, bin by bin."""

from collections.abc import Sequence
from pathlib import Path

from gumdrop.tables.drift import ColumnDrift, Drift
from gumdrop.views.html import Tile, percent, write
from gumdrop.views.terminal import Voice


def show_drift(voice: Voice, drift: Drift) -> None:
    """Show what differs in a terminal."""
    if not drift.columns:
        voice.say(f"{drift.rows:,} rows: no column differs in distribution from training, as far as they can tell")
    else:
        voice.say(f"{drift.rows:,} rows: {drift.unlike}")
        heads = ("column", "what changed most", "training", "here", "PSI")
        rows = [(c.name, c.what, f"{c.before:.1%}", f"{c.now:.1%}", f"{c.psi:.2f}") for c in drift.columns]
        voice.show("Columns that differ", heads, rows, numbers_from=2)
    more = "more than chance explains" if drift.more_uncertain else "no more than chance explains"
    voice.say(
        f"{drift.above:.0%} of the rows have a larger epistemic uncertainty than nine tenths of the test rows of the "
        f"fit had, {more}"
    )


def write_page(drift: Drift, path: Path, *, name: str, target: str, notes: Sequence[str]) -> None:
    """Write what differs as a page."""
    unknown = max((column.unknown for column in drift.columns), default=0.0)
    outside = max((column.outside for column in drift.columns), default=0.0)
    shown = [
        Tile(f"{len(drift.columns)} of {drift.num_columns}", "columns differ", "by more than chance, and by much"),
        Tile(percent(outside), "outside the training range", "in the column where this is most"),
        Tile(percent(unknown), "missing or never seen", "in the column where this is most"),
    ]
    pictures = [_picture(k, column) for k, column in enumerate(drift.columns[:6])]
    tiles = shown if drift.columns else shown[:1]
    write(path, "drift.html.j2", drift=drift, name=name, target=target, shown=tiles, pictures=pictures, notes=notes)


def _picture(key: int, column: ColumnDrift) -> dict[str, str]:
    """The shares of the bins of a column."""
    from gumdrop.views import plots  # matplotlib, which a terminal does not wait for
    from gumdrop.views.svg import picture

    names, before, now = zip(*((cells.what, cells.before, cells.now) for cells in column.bins), strict=True)
    ax = plots.shares_by_bin(names, before, now, column=column.name)
    see = (
        f"{column.what[0].upper()}{column.what[1:]}: {percent(column.before)} in training, {percent(column.now)} here."
    )
    return picture(ax, f"column{key}", f"Shares of {column.name} in training and here", see)
