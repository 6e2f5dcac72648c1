"""Whether stated uncertainty can be trusted: calibration, and whether uncertain rows are the wrong ones."""

import math

import numpy as np
from markupsafe import Markup

from gumdrop.tables.results import FitResults
from gumdrop.views import plots
from gumdrop.views.html import number, percent
from gumdrop.views.report.rows import TestRows, association, wilson
from gumdrop.views.svg import svg

SMALL, WIDE = 0.02, 0.1
"""Differences of shares: too small to act on, and so large that a test which cannot exclude them says nothing."""
FEW = 20
"""Test rows below which nothing is said of the order of uncertain rows."""
FAR = 6.0
"""Standard deviations that a true value is never off by, if they are right."""


def calibration_view(results: FitResults, test: TestRows) -> dict[str, object]:
    """Stated against actual reliability; the verdict is good, bold, timid, mixed, surprised, or unclear."""
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
        verdict = "surprised" if far > test.rows / 1000 and verdict != "bold" else verdict
    picture = svg(ax, "calibration", "Stated against actual reliability", tips)
    return {"svg": picture, "gap": size, "verdict": verdict, "far": far, "deviations": FAR}


def _gap(gap: np.ndarray, stated: np.ndarray, count: np.ndarray, test: TestRows) -> tuple[float, str]:
    """Mean size of the gaps between actual and stated reliability, and what it says beyond chance."""
    sure, weight = np.clip(stated, 0, 1), count / max(count.sum(), 1)
    parts = 1 if test.regression else max(gap.size, 1)  # bins err independently, nested intervals together
    chance = float(np.sum(weight * np.sqrt(sure * (1 - sure) / count))) * (0.8 + 1.2 / math.sqrt(parts))
    size, lean = float(np.sum(weight * np.abs(gap))), float(np.sum(weight * gap))
    if size > max(chance, SMALL):
        return size, "mixed" if abs(lean) < size / 2 else "timid" if lean > 0 else "bold"
    return size, "unclear" if chance > WIDE or test.rows < FEW else "good"


def _interval_verdict(results: FitResults, test: TestRows, verdict: str) -> str:
    """The verdict on intervals of all sizes, unless the asked ones, which users act on, say another."""
    asked, c = results.coverage, test.columns
    held = int(np.sum((c["lower"] <= c["observed"]) & (c["observed"] <= c["upper"])))
    low, high = wilson(held, test.rows)
    gap = held / test.rows - asked
    if not low <= asked <= high and abs(gap) >= SMALL:
        return "timid" if gap > 0 else "bold"
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
