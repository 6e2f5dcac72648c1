"""The test rows column by column: what each column is worth, residuals, and parts for which promises may fail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from scipy.stats import binomtest

from gumdrop.tables.results import LIKELIHOOD, ByColumn, Cells, FitResults, Gain, Group
from gumdrop.views import plots
from gumdrop.views.report.rows import TestRows, margin, number, wilson
from gumdrop.views.svg import Tip, svg

__all__ = ["ColumnsView", "columns_view"]

SHOWN = 15
"""Columns, and groups of rows, that the page shows."""
CHANCE = 0.05
"""Chance that any group is taken for one where the promise fails, if it holds in all (Holm 1979)."""


@dataclass(frozen=True)
class Worth:
    """What a column is worth."""

    name: str
    """The column."""
    likelihood: float
    """In nats per row."""
    likelihood_margin: float
    """Half of its 95 % interval."""
    guess: float
    """In distance from the true value, or share of right rows."""
    guess_margin: float
    """Half of its 95 % interval."""
    guess_told: bool
    """Whether the latter is told from nothing by more than chance."""
    told: bool
    """Whether either is."""


@dataclass(frozen=True)
class GroupView:
    """How the promises hold in a group of rows."""

    group: Group
    """The group."""
    share: float
    """Share of its rows where they hold."""
    low: float
    """Lower end of its 95 % interval."""
    high: float
    """Upper end."""
    fails: bool
    """Whether it is told from what it should be by more than chance makes in any of the groups."""


@dataclass(frozen=True, kw_only=True)
class ColumnsView:
    """The test rows column by column."""

    worth: list[Worth]
    """What each column is worth, from the most on."""
    more: int
    """Columns that are not shown."""
    idle: list[str]
    """Those of all columns that are not told from worthless."""
    rows: int
    """Test rows that this was found with."""
    shuffles: int
    """How often each had the cell of another row."""
    groups: list[GroupView]
    """Groups of rows, from the worst on."""
    fewer: list[GroupView]
    """Those where fewer promises hold than should, by more than chance."""
    over: list[GroupView]
    """Those where more do."""
    num_groups: int
    """All groups that were looked at."""
    residuals: list[Markup]
    """A figure for each column that is worth most."""


def columns_view(results: FitResults, test: TestRows) -> ColumnsView | None:
    """The test rows column by column; None where the results do not tell."""
    given = results.columns
    if not given.importance and not given.groups:
        return None
    worth = _all_worth(given)
    groups = _judged(given.groups)
    failing = [each for each in groups if each.fails]
    return ColumnsView(
        worth=worth[:SHOWN],
        more=max(0, len(worth) - SHOWN),
        idle=[each.name for each in worth if not each.told],
        rows=given.rows,
        shuffles=given.shuffles,
        groups=groups[:SHOWN],
        fewer=[each for each in failing if each.share < each.group.stated],
        over=[each for each in failing if each.share > each.group.stated],
        num_groups=len(groups),
        residuals=_residuals(results, test) if test.regression else [],
    )


def _all_worth(given: ByColumn) -> list[Worth]:
    """What each column is worth; a ten-thousandth of the best of them, such as rounding leaves, is nothing."""
    measures = list(given.importance[0].gains) if given.importance else []
    least = {name: max(abs(each.gains[name].mean) for each in given.importance) / 1e4 for name in measures}

    def settled(gain: Gain, least: float) -> tuple[float, float]:
        half = margin(gain.se, given.rows)
        return (0.0, 0.0) if max(abs(gain.mean), half) < least else (gain.mean, half)

    found = []
    for each in given.importance:
        likelihood, half = settled(each.gains[LIKELIHOOD], least[LIKELIHOOD])
        (name,) = (name for name in measures if name != LIKELIHOOD)
        guess, guess_half = settled(each.gains[name], least[name])
        told = guess > guess_half
        found.append(Worth(each.name, likelihood, half, guess, guess_half, told, told or likelihood > half))
    return found


def _judged(groups: list[Group]) -> list[GroupView]:
    """Groups with the share that holds, from that on which is most surely too small; Holm's step-down over them all."""
    chances = np.array([binomtest(each.held, each.rows, each.stated).pvalue for each in groups])
    fails = np.zeros(len(groups), dtype=bool)
    for k, i in enumerate(np.argsort(chances, kind="stable")):
        if chances[i] > CHANCE / (len(groups) - k):
            break
        fails[i] = True
    found = [
        GroupView(each, each.held / each.rows, *wilson(each.held, each.rows), bool(fails[i]))
        for i, each in enumerate(groups)
    ]
    return sorted(found, key=lambda each: each.high - each.group.stated)


def _residuals(results: FitResults, test: TestRows) -> list[Markup]:
    """A figure for each column whose cells are known."""
    row = test.columns["row"].astype(int).tolist()
    place = {each: i for i, each in enumerate(row)}
    at = np.array([place.get(each, -1) for each in results.columns.cell_rows], dtype=int)
    residual = (test.columns["observed"] - test.columns["mean"]) / np.maximum(test.uncertainty, 1e-300)
    figures = [_figure(k, cells, at, residual, row) for k, cells in enumerate(results.columns.cells)]
    return [figure for figure in figures if figure is not None]


def _figure(key: int, cells: Cells, at: np.ndarray, residual: np.ndarray, row: list[int]) -> Markup | None:
    label = f"Residuals against {cells.name}"
    if cells.labels is not None:
        kept = np.flatnonzero(at >= 0)
        if not kept.size:
            return None
        ax = plots.residuals_by_category([cells.labels[i] for i in kept], residual[at[kept]], name=cells.name)
        return svg(ax, f"residuals{key}", label)
    values = np.array(cells.numbers or [], dtype=float)
    kept = np.flatnonzero((at >= 0) & np.isfinite(values))
    if not kept.size:
        return None
    ax = plots.residuals_by_number(values[kept], residual[at[kept]], name=cells.name, dates=cells.dates)
    low, high = ax.get_ylim()
    place = values.copy()
    place[kept] += plots.set_apart(values[kept])
    tips: list[Tip] = [
        (
            float(place[i]),
            float(np.clip(y, low, high)),
            f"row {row[at[i]]}: {_shown(cells, values[i])}, {number(y, 2)} SD",
        )
        for i in kept
        if np.isfinite(y := residual[at[i]])
    ]
    return svg(ax, f"residuals{key}", label, tips, reach=4.0)


def _shown(cells: Cells, value: float) -> str:
    return str(np.datetime64(round(value), "D")) if cells.dates else number(value, 4)
