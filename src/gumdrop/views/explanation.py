"""What drives predictions of a table: for the terminal, and as a page."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gumdrop.machine.numerals import readable
from gumdrop.tables.explained import ColumnShares, ExplainedRow, TableExplanation
from gumdrop.views.html import signed, with_unit, write
from gumdrop.views.terminal import Voice

DRAWN = 25
"""Columns of a row that the page tells apart, and their sum beside."""


def show_explanation(voice: Voice, explanation: TableExplanation, *, rows: int = 3, columns: int = 10) -> None:
    """Show an explanation in a terminal."""
    for row in explanation.rows[:rows]:
        _show_row(voice, explanation, row, columns)
    if len(explanation.rows) > rows:
        voice.say(f"and {len(explanation.rows) - rows} more rows on the page")
    overall = explanation.overall
    shares = [
        (explanation.columns[k], readable(overall.explained[k], 3), readable(overall.epistemic[k], 3))
        for k in _ordered(overall.explained, overall.epistemic, 2 * columns)[: 2 * columns]
    ]
    voice.show(f"Mean absolute share over {overall.rows} usual rows", ("column", *headings(explanation)), shares)


def _show_row(voice: Voice, explanation: TableExplanation, row: ExplainedRow, columns: int) -> None:
    """Show the columns that count most for a row, between the usual row and this one."""
    shares, epistemic = row.explained.shares, row.epistemic.shares
    order = _ordered(shares, epistemic, columns)
    rows: list[tuple[str, ...] | None] = [
        (explanation.columns[k], row.values[k] or "(missing)", signed(shares[k]), signed(epistemic[k]))
        for k in order[:columns]
    ]
    if rest := order[columns:]:
        sums = (signed(sum(parts[k] for k in rest)) for parts in (shares, epistemic))
        rows.append((f"{len(rest)} others", "", *sums))
    usual = ("usual row", "", readable(row.explained.usual), readable(row.epistemic.usual))
    this = ("this row", "", readable(row.explained.value), readable(row.epistemic.value))
    heads = ("column", "value", *headings(explanation))
    voice.show(headline(explanation, row), heads, [usual, None, *rows, None, this], numbers_from=2)


def headings(explanation: TableExplanation) -> tuple[str, str]:
    """What the two kinds of shares are of, with their units."""
    target = explanation.target
    if target.task == "regression":
        return with_unit(target.name, target.unit), with_unit("epistemic", target.unit or "same unit")
    return "probability", "epistemic (nats)"


def headline(explanation: TableExplanation, row: ExplainedRow) -> str:
    """What is predicted for a row, in one line."""
    target = explanation.target
    if isinstance(row.prediction, str) or row.lower is None or row.upper is None:
        return f"Row {row.row}: {target.name} {row.prediction} ({row.explained.value:.0%} sure)"
    interval = f"{explanation.coverage:.0%} interval {readable(row.lower)} to {readable(row.upper)}"
    return f"Row {row.row}: {target.name} {f'{readable(row.prediction)} {target.unit}'.strip()}, {interval}"


def _ordered(shares: Sequence[float], epistemic: Sequence[float], most: int) -> list[int]:
    """Indices of the columns: first those that count most in either list, by what they count in the first."""
    sizes = [np.abs(each) / (np.abs(each).max() or 1.0) for each in map(np.asarray, (shares, epistemic))]
    order = np.argsort(-np.maximum(*sizes), kind="stable").tolist()
    return sorted(order[:most], key=lambda k: -sizes[0][k]) + order[most:]


class Step(NamedTuple):
    """What some columns add to a running total, as a bar of a waterfall; left, width and end in percent of its range.

    The error is the standard error of the share; None of several columns, or of a single order.
    """

    total: float
    share: float
    error: float | None
    left: float
    width: float
    end: float


def waterfall(part: ColumnShares, groups: Sequence[Sequence[int]]) -> list[Step]:
    """Return the steps from the usual row to this one, one for each group of columns, after one that adds nothing.

    Example:
        >>> steps = waterfall(ColumnShares(value=7.0, usual=5.0, shares=[3.0, -1.0], errors=None), [[0], [1]])
        >>> [(step.total, round(step.left), round(step.width)) for step in steps]
        [(5.0, 0, 0), (8.0, 0, 100), (7.0, 67, 33)]
    """
    shares = [0.0, *(sum(part.shares[k] for k in group) for group in groups)]
    totals = list(itertools.accumulate(shares, initial=part.usual))[1:]
    low, span = min(totals), max(totals) - min(totals) or 1.0
    positions = [100 * (total - low) / span for total in totals]
    errors = [part.errors[group[0]] if part.errors and len(group) == 1 else None for group in groups]
    before = [positions[0], *positions[:-1]]
    return [
        Step(total, share, error, min(start, end), abs(end - start), end)
        for total, share, error, start, end in zip(totals, shares, [None, *errors], before, positions, strict=True)
    ]


def _groups(row: ExplainedRow) -> list[list[int]]:
    """The columns that count most for a row one by one, and all others as one."""
    order = _ordered(row.explained.shares, row.epistemic.shares, DRAWN)
    return [*([k] for k in order[:DRAWN]), *([order[DRAWN:]] if order[DRAWN:] else [])]


def write_page(explanation: TableExplanation, path: Path) -> None:
    """Write an explanation as a page."""
    what, epistemic = headings(explanation)
    groups = [_groups(row) for row in explanation.rows]
    both = zip(explanation.rows, groups, strict=True)
    write(
        path,
        "explain.html.j2",
        found=explanation,
        what=what,
        epistemic=epistemic,
        overall_order=_ordered(explanation.overall.explained, explanation.overall.epistemic, 40),
        groups=groups,
        falls=[(waterfall(row.explained, of_row), waterfall(row.epistemic, of_row)) for row, of_row in both],
        headlines=[headline(explanation, row) for row in explanation.rows],
    )
