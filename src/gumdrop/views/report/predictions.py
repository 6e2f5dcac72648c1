"""Predictions beside what was observed, how well they rank rows, and whether their uncertainty can be trusted."""

import math

import numpy as np
from markupsafe import Markup
from sklearn.metrics import precision_recall_curve

from gumdrop.machine.picking import evenly
from gumdrop.tables.results import FitResults, Threshold
from gumdrop.views import plots
from gumdrop.views.html import number, percent
from gumdrop.views.report.rows import TestRows, association, auroc_interval, wilson
from gumdrop.views.svg import TIPS, svg

View = tuple[int, dict[str, object]]
"""Rows that are predicted right, or lie in their interval, and what else the page says of the predictions."""
SMALL, WIDE = 0.02, 0.1
"""Differences of shares: too small to act on, and so large that a test which cannot exclude them says nothing."""
FEW = 20
"""Test rows below which nothing is said of the order of uncertain rows."""
FAR = 6.0
"""Standard deviations that a true value is never off by, if they are right."""


def confusion_view(results: FitResults, test: TestRows) -> View:
    """True classes against predicted ones, and the commonest mistake."""
    pair = np.stack([test.columns["observed"], test.columns["predicted"]])
    mistakes, counts = np.unique(pair[:, test.error > 0], axis=1, return_counts=True)
    worst = mistakes[:, counts.argmax()].tolist() if counts.size else None
    names = results.target.classes
    ax = plots.confusion(pair[0].tolist(), pair[1].tolist(), names)
    index = {name: i for i, name in enumerate(dict.fromkeys([*names, *pair.flatten().tolist()]))}
    cells, sizes = np.unique(pair, axis=1, return_counts=True)
    tips = [
        (index[p] + 0.5, index[o] + 0.5, f"{size} row{'s' if size > 1 else ''} of class {o}, predicted as {p}")
        for (o, p), size in zip(cells.T.tolist(), sizes.tolist(), strict=True)
    ]
    picture = svg(ax, "predictions", "True class against predicted class", tips)
    view = {"svg": picture, "worst": worst, "times": int(counts.max(initial=0))}
    return test.rows - int(counts.sum()), view | {"least": _least_found(*pair)}


def _least_found(observed: np.ndarray, predicted: np.ndarray) -> dict[str, object]:
    """The class of which the smallest share is found, and how many of its rows."""
    names, index, counts = np.unique(observed, return_inverse=True, return_counts=True)
    hits = np.bincount(index, weights=observed == predicted)
    least = int((hits / counts).argmin())
    return {"name": str(names[least]), "found": int(hits[least]), "rows": int(counts[least])}


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


def ranking_view(results: FitResults, test: TestRows) -> dict[str, object] | None:
    """How well the probability of a class ranks the rows; of two classes with cuts, and their 95 % intervals."""
    given = results.ranking
    if given is None:
        return None
    low, high = auroc_interval(given.auroc, given.rows, given.other_rows)
    share = given.rows / (given.rows + given.other_rows)
    cuts = [_cut(each, given.rows) for each in given.thresholds]
    curve = _curve(test, given.name, share, given.thresholds[-1], given.rows) if cuts else None
    return {**vars(given), "low": low, "high": high, "share": share, "cuts": cuts, "svg": curve}


def _cut(given: Threshold, rows: int) -> dict[str, object]:
    """Shares of right ones among rows that are taken for the class, None where none are, and of rows of the class."""
    precision = (given.found / given.flagged, *wilson(given.found, given.flagged)) if given.flagged else None
    return {"given": given, "precision": precision, "recall": (given.found / rows, *wilson(given.found, rows))}


def _curve(test: TestRows, name: str, share: float, cut: Threshold, rows: int) -> object:
    """Precision against recall over all thresholds."""
    sure = test.columns["probability"].astype(float)
    probability = np.where(test.columns["predicted"] == name, sure, 1 - sure)
    precision, recall, thresholds = precision_recall_curve(test.columns["observed"] == name, probability)
    marked = (cut.found / rows, cut.found / cut.flagged) if cut.flagged else None
    ax = plots.precision_recall(recall, precision, chance=share, cut=marked)
    tips = [
        (r, p, f"probability {t:.2f} or more: precision {percent(p)}, recall {percent(r)}")
        for r, p, t in ((recall[i], precision[i], thresholds[i]) for i in evenly(len(thresholds), TIPS))
    ]
    return svg(ax, "ranking", f"Precision against recall of {name}", tips)


def calibration_view(results: FitResults, test: TestRows) -> dict[str, object]:
    """Stated against actual reliability; the verdict is good, over- or underconfident, mixed, surprised, or unclear."""
    given = results.calibration
    expected, observed = (np.asarray(each, dtype=float) for each in (given.expected, given.observed))
    count = np.full(expected.size, test.rows, dtype=float) if given.count is None else np.array(given.count, float)
    keep = np.isfinite(expected) & np.isfinite(observed) & (count > 0)
    if test.regression:
        ax = plots.calibration(expected, observed, rows=test.rows)
        words = "intervals for {0} hold {1} of the true values"
    else:
        ax = plots.reliability(expected, observed, count)
        words = "{2:.0f} rows where it was {0} sure: {1} right"
    tips = [
        (e, o, words.format(percent(e), percent(o), n))
        for e, o, n in zip(expected[keep], observed[keep], count[keep], strict=True)
    ]
    size, verdict = _gap((observed - expected)[keep], expected[keep], count[keep], test)
    far = 0
    if test.regression:
        verdict = _interval_verdict(results, test, verdict)
        far = int(np.sum(test.error > FAR * test.uncertainty))
        verdict = "surprised" if far > test.rows / 1000 and verdict != "overconfident" else verdict
    picture = svg(ax, "calibration", "Stated against actual reliability", tips)
    return {"svg": picture, "gap": size, "verdict": verdict, "far": far, "deviations": FAR}


def _gap(gap: np.ndarray, stated: np.ndarray, count: np.ndarray, test: TestRows) -> tuple[float, str]:
    """Mean size of the gaps between actual and stated reliability, and what it says beyond chance."""
    sure, weight = np.clip(stated, 0, 1), count / max(count.sum(), 1)
    parts = 1 if test.regression else max(gap.size, 1)  # bins err independently, nested intervals together
    chance = float(np.sum(weight * np.sqrt(sure * (1 - sure) / count))) * (0.8 + 1.2 / math.sqrt(parts))
    size, lean = float(np.sum(weight * np.abs(gap))), float(np.sum(weight * gap))
    if size > max(chance, SMALL):
        return size, "mixed" if abs(lean) < size / 2 else "underconfident" if lean > 0 else "overconfident"
    return size, "unclear" if chance > WIDE or test.rows < FEW else "good"


def _interval_verdict(results: FitResults, test: TestRows, verdict: str) -> str:
    """The verdict on intervals of all sizes, unless the asked ones, which users act on, say another."""
    asked, c = results.coverage, test.columns
    held = int(np.sum((c["lower"] <= c["observed"]) & (c["observed"] <= c["upper"])))
    low, high = wilson(held, test.rows)
    gap = held / test.rows - asked
    if not low <= asked <= high and abs(gap) >= SMALL:
        return "underconfident" if gap > 0 else "overconfident"
    return "unclear" if verdict == "good" and max(asked - low, high - asked) > WIDE else verdict


def uncertainty_view(test: TestRows) -> dict[str, object]:
    """Whether the rows that the model is uncertain of are those it gets wrong: yes, no, unclear, none or few."""
    strength, chance = association(test)
    sign = 0 if strength is None or abs(strength) <= chance else np.sign(strength)
    verdict = "few" if test.rows < FEW else "none" if strength is None else {1: "yes", 0: "unclear", -1: "no"}[sign]
    share, left = plots.error_after_rejection(test.uncertainty, test.error, test.summary)
    groups = plots.grouped_error(test.uncertainty, test.error, summary=test.summary)
    chances = test.by_chance(-(-test.rows // len(groups)))
    return {
        "groups_svg": _groups_figure(test, groups, chances),
        "groups": groups.tolist(),
        "all": float(left[0]),
        "after": float(np.interp(0.2, share, left)),  # without the most uncertain fifth
        "strength": strength,
        "chance": chance,
        "random": chances,
        "verdict": verdict,
        "flat": float(np.std(test.uncertainty)) < 0.1 * float(np.mean(test.uncertainty)),
    }


def _groups_figure(test: TestRows, groups: np.ndarray, chances: tuple[float, float]) -> Markup:
    foretold = plots.grouped_error(test.uncertainty, test.expected, summary=test.summary)
    told, label = (number, "RMSE") if test.regression else (percent, "share predicted wrongly")
    ax = plots.error_by_uncertainty(
        test.uncertainty, test.error, expected=test.expected, chance=chances, summary=test.summary, label=label
    )
    bars = [
        (i + 1, height / 2, f"group {i + 1} of {len(groups)}: {told(height)}, the model expected {told(hoped)}")
        for i, (height, hoped) in enumerate(zip(groups, foretold, strict=True))
    ]
    return svg(ax, "groups", f"{label} from the surest to the least sure rows", bars, reach=16)
