"""Predictions beside what was observed: values with their intervals, or true against predicted classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from gumdrop.tables.results import FitResults
from gumdrop.views import plots
from gumdrop.views.report.rows import TestRows, number
from gumdrop.views.svg import svg

__all__ = ["Confusion", "Predictions", "confusion_view", "predictions_view"]


@dataclass(frozen=True)
class UsualClass:
    """The commonest class."""

    name: str
    """The class."""
    share: float
    """Its share of the test rows."""


@dataclass(frozen=True)
class LeastFound:
    """The class of which the smallest share is found."""

    name: str
    """The class."""
    found: int
    """Rows of it that are predicted as such."""
    rows: int
    """Rows of it."""


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """True classes against predicted ones."""

    svg: Markup
    """The figure."""
    right: int
    """Rows that are predicted right."""
    worst: list[str] | None
    """The commonest mistake: true and predicted class."""
    times: int
    """Rows with it."""
    usual: UsualClass
    """The commonest class."""
    least: LeastFound
    """The class of which the smallest share is found."""


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Predicted values against observed ones."""

    svg: Markup
    """The figure."""
    right: int
    """Rows whose interval holds the observed value."""
    width: float
    """Median width of the intervals."""
    drawn: int
    """Rows in the figure."""
    apart: bool
    """Whether rows of the same value stand beside each other in it."""


def confusion_view(results: FitResults, test: TestRows) -> Confusion:
    """True classes against predicted ones, and the commonest mistake."""
    pair = np.stack([test.columns["observed"], test.columns["predicted"]])
    mistakes, counts = np.unique(pair[:, test.error > 0], axis=1, return_counts=True)
    worst = mistakes[:, counts.argmax()].tolist() if counts.size else None
    names = results.target.classes
    ax = plots.confusion(pair[0].tolist(), pair[1].tolist(), names)
    place = {name: i for i, name in enumerate(dict.fromkeys([*names, *pair.flatten().tolist()]))}
    cells, sizes = np.unique(pair, axis=1, return_counts=True)
    tips = [
        (place[p] + 0.5, place[o] + 0.5, f"{size} row{'s' if size > 1 else ''} of class {o}, predicted as {p}")
        for (o, p), size in zip(cells.T.tolist(), sizes.tolist(), strict=True)
    ]
    picture = svg(ax, "predictions", "True class against predicted class", tips)
    return Confusion(
        svg=picture,
        right=test.rows - int(counts.sum()),
        worst=worst,
        times=int(counts.max(initial=0)),
        usual=_usual(pair[0]),
        least=_least_found(*pair),
    )


def _usual(observed: np.ndarray) -> UsualClass:
    names, counts = np.unique(observed, return_counts=True)
    return UsualClass(str(names[counts.argmax()]), float(counts.max() / observed.size))


def _least_found(observed: np.ndarray, predicted: np.ndarray) -> LeastFound:
    names, place, counts = np.unique(observed, return_inverse=True, return_counts=True)
    found = np.bincount(place, weights=observed == predicted)
    least = int((found / counts).argmin())
    return LeastFound(str(names[least]), int(found[least]), int(counts[least]))


def predictions_view(results: FitResults, test: TestRows) -> Predictions:
    """Predicted values against observed ones, and how many intervals held."""
    c = test.columns
    pick = plots.evenly(test.rows, 300)
    truth, mean, lower, upper = (c[name] for name in ("observed", "mean", "lower", "upper"))
    inside = (lower <= truth) & (truth <= upper)
    name = results.target.name
    ax = plots.predicted_against_observed(*(a[pick] for a in (truth, mean, lower, upper)), name=name)
    shifts = plots.set_apart(truth[pick])
    tips = [
        (
            truth[i] + shift,
            mean[i],
            f"row {c['row'][i]:.0f}: observed {number(truth[i])}, predicted {number(mean[i])}, "
            f"interval {number(lower[i])} to {number(upper[i])}",
        )
        for i, shift in zip(pick, shifts, strict=True)
    ]
    return Predictions(
        svg=svg(ax, "predictions", "Predicted against observed values, with intervals", tips, reach=4.5),
        right=int(inside.sum()),
        width=float(np.median(upper - lower)),
        drawn=pick.size,
        apart=bool(shifts.any()),
    )
