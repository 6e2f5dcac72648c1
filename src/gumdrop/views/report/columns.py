"""The test rows column by column: what each column is worth, residuals, and parts for which promises may fail."""

from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from scipy.stats import binomtest

from gumdrop.tables.drift import holm
from gumdrop.tables.results import LIKELIHOOD, ByColumn, Cells, Effect, FitResults, Group, Spread
from gumdrop.views import plots
from gumdrop.views.html import number, percent, with_unit
from gumdrop.views.report.rows import TestRows
from gumdrop.views.svg import Tip, svg

SHOWN = 12
"""Columns, and groups of rows, that the page shows."""
FOLDED = 100
"""Columns that the page holds, from `SHOWN` on folded."""
THIN = 1 / 30
"""Least width of a bar of a histogram, as a share of its range: many rows may have one value."""
CHANCE = 0.05
"""Chance that any group is taken for one where the promise fails, if it holds in all (Holm 1979)."""


class Loss(NamedTuple):
    """What the mean row loses, with half of the 95 % interval."""

    mean: float
    margin: float


class Worth(NamedTuple):
    """What a column is worth: in nats per row, and in distance from the true value or share of right rows."""

    name: str
    likelihood: Loss
    guess: Loss


class GroupView(NamedTuple):
    """The share of a group's rows where promises hold, and whether they fail beyond chance."""

    group: Group
    share: float
    fails: bool


class SpreadView(NamedTuple):
    """What the cells of a column are in training: a histogram whose areas are shares of the rows, and words."""

    bars: str
    words: str
    missing: str


def columns_view(results: FitResults, test: TestRows) -> dict[str, object] | None:
    """The test rows column by column; None where the results do not tell."""
    given = results.columns
    if not given.importance and not given.groups:
        return None
    worth = _all_worth(given)
    groups = _judged(given.groups)
    failing = [each for each in groups if each.fails]
    return {
        "worth": worth[:SHOWN],
        "folded": worth[SHOWN:FOLDED],
        "more": max(0, len(worth) - FOLDED),
        "spreads": {each.name: spread_view(each) for each in given.spreads},
        "idle": [w.name for w in worth if all(loss.mean <= loss.margin for loss in (w.likelihood, w.guess))],
        "rows": given.rows,
        "shuffles": given.shuffles,
        "fewer": [view for view in failing if view.share < view.group.stated],
        "over": [view for view in failing if view.share > view.group.stated],
        "num_groups": len(groups),
        "shown": SHOWN,
        "effects": [_effect(k, each, results) for k, each in enumerate(given.effects)],
        "residuals": _residuals(results, test) if test.regression else [],
    }


def spread_view(spread: Spread) -> SpreadView:
    """What the page says of a column's training cells."""
    *bins, missing = spread.counts
    words = f"{spread.kind}, {' to '.join(dict.fromkeys(spread.labels))}"
    if spread.kind == "category":
        shown = [(label, n) for label, n in zip(spread.labels, bins, strict=True) if label]
        missing, bins = sum(spread.counts) - sum(n for _, n in shown), [n for _, n in shown]
        words = f"{len(bins)} categor{'y' if len(bins) == 1 else 'ies'}: {', '.join(label for label, _ in shown)}"
    elif spread.edges:
        bins = bins[1:-1]
    count, start = np.array(bins, dtype=float), np.arange(len(bins)) / max(1, len(bins))
    width = np.full(len(bins), 1 / max(1, len(bins)))
    if spread.edges and len(bins) > 2:  # two bars, such as those of 0 and 1, lie beside each other like categories
        edges = np.interp(spread.edges, (spread.edges[0], spread.edges[-1]), (0, 1))
        width = np.maximum(np.diff(edges), THIN)
        start = np.minimum(edges[:-1], 1 - width)
    height = count / width / max([*(count / width), 1e-9])
    bars = (f"M{100 * x:.1f} 20v{-20 * h:.1f}h{95 * w:.1f}V20z" for x, w, h in zip(start, width, height, strict=True))
    absent = f"{percent(missing / sum(spread.counts))} missing" if missing else ""
    return SpreadView("".join(bars), words, absent)


def _effect(key: int, effect: Effect, results: FitResults) -> Markup:
    of, target = results.columns.effects_of, results.target
    label = f"P({of})" if of is not None else with_unit(target.name, target.unit)
    drawn: Any = {"name": effect.name, "label": label, "shares": of is not None}
    if effect.labels is not None:
        ax = plots.effect_of_category(effect.labels, effect.mean, effect.epistemic, **drawn)
        cells = [(float(i), each or "(missing)") for i, each in enumerate(effect.labels)]
    else:
        at = [float(value or 0) for value in effect.numbers or []]
        ax = plots.effect_of_number(at, effect.mean, effect.epistemic, dates=effect.dates, **drawn)
        cells = [(x, _shown(effect, x)) for x in at]
    told = percent if of is not None else number
    tips: list[Tip] = [
        (x, y, f"{words}: {told(y)} on average, ± {told(2 * half)}")
        for (x, words), y, half in zip(cells, effect.mean, effect.epistemic, strict=True)
    ]
    return svg(ax, f"effect{key}", f"Predictions against {effect.name}", tips)


def _all_worth(given: ByColumn) -> list[Worth]:
    """What each column is worth; a ten-thousandth of the best of them, such as rounding leaves, is nothing."""

    def losses(measure: str) -> list[Loss]:
        all_losses = [Loss(gains[measure].mean, gains[measure].margin(given.rows)) for gains in of_columns]
        least = max(abs(loss.mean) for loss in all_losses) / 1e4
        return [Loss(0.0, 0.0) if max(abs(loss.mean), loss.margin) < least else loss for loss in all_losses]

    if not given.importance:
        return []
    of_columns = [column.gains for column in given.importance]
    (guess,) = of_columns[0].keys() - {LIKELIHOOD}
    names = [column.name for column in given.importance]
    return [Worth(*worth) for worth in zip(names, losses(LIKELIHOOD), losses(guess), strict=True)]


def _judged(groups: list[Group]) -> list[GroupView]:
    """Groups with the share that holds, from the largest gap on; Holm's step-down over them all."""
    chances = holm([binomtest(group.held, group.rows, group.stated).pvalue for group in groups])
    views = [GroupView(group, group.held / group.rows, p <= CHANCE) for group, p in zip(groups, chances, strict=True)]
    return sorted(views, key=lambda view: -abs(view.share - view.group.stated))


def _residuals(results: FitResults, test: TestRows) -> list[Markup]:
    """A figure for each column whose cells are known."""
    row = test.columns["row"].astype(int).tolist()
    index = {each: i for i, each in enumerate(row)}
    at = np.array([index.get(each, -1) for each in results.columns.cell_rows], dtype=int)
    residual = (test.columns["observed"] - test.columns["mean"]) / np.maximum(test.uncertainty, 1e-300)
    figures = [_figure(k, cells, at, residual, row) for k, cells in enumerate(results.columns.cells[:4])]
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
    x = values.copy()
    x[kept] += plots.set_apart(values[kept])
    tips: list[Tip] = [
        (
            float(x[i]),
            float(np.clip(y, low, high)),
            f"row {row[at[i]]}: {_shown(cells, values[i])}, {number(y, 2)} SD",
        )
        for i in kept
        if np.isfinite(y := residual[at[i]])
    ]
    return svg(ax, f"residuals{key}", label, tips, reach=4.0)


def _shown(cells: Cells, value: float) -> str:
    return str(np.datetime64(round(value), "D")) if cells.dates else number(value, 4)
