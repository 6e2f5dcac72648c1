"""Predictions beside what was observed: values with their intervals, or true against predicted classes."""

import numpy as np

from gumdrop.machine.picking import evenly
from gumdrop.tables.results import FitResults
from gumdrop.views import plots
from gumdrop.views.html import number
from gumdrop.views.report.rows import TestRows
from gumdrop.views.svg import svg

View = tuple[int, dict[str, object]]
"""Rows that are predicted right, or lie in their interval, and what else the page says of the predictions."""


def confusion_view(results: FitResults, test: TestRows) -> View:
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
    view = {"svg": picture, "worst": worst, "times": int(counts.max(initial=0))}
    return test.rows - int(counts.sum()), view | {"least": _least_found(*pair)}


def _least_found(observed: np.ndarray, predicted: np.ndarray) -> dict[str, object]:
    """The class of which the smallest share is found, and how many of its rows."""
    names, place, counts = np.unique(observed, return_inverse=True, return_counts=True)
    found = np.bincount(place, weights=observed == predicted)
    least = int((found / counts).argmin())
    return {"name": str(names[least]), "found": int(found[least]), "rows": int(counts[least])}


def predictions_view(results: FitResults, test: TestRows) -> View:
    """Predicted values against observed ones, and how many intervals held."""
    c = test.columns
    pick = evenly(test.rows, 300)
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
    picture = svg(ax, "predictions", "Predicted against observed values, with intervals", tips, reach=4.5)
    width, apart = float(np.median(upper - lower)), bool(shifts.any())
    return int(inside.sum()), {"svg": picture, "width": width, "drawn": pick.size, "apart": apart}
