"""The figures of the report as SVG that takes its colours from the page, with the numbers of a point on hovering."""

from __future__ import annotations

import html
import io
import math
import re
import warnings
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop.views.report.rows import Results, TestRows, asked_coverage, association, number, percent, wilson

__all__ = [
    "COLOURS",
    "calibration_view",
    "confusion_view",
    "doubt_view",
    "predictions_view",
    "rates_view",
    "training_view",
]

COLOURS = {plots.INK: "currentColor"} | {c: f"var(--c{i})" for i, c in enumerate(plots.PALETTE, 1)}
TIPS = 30
"""Points of a line that tell their numbers."""
SMALL, WIDE = 0.02, 0.1
"""Differences of shares: too small to act on, and so large that a test which cannot exclude them says nothing."""
FEW = 20
"""Test rows below which nothing is said of doubt."""
FAR = 6.0
"""Standard deviations that a true value is never off by, if they are right."""
Tip = tuple[float, float, str]


def confusion_view(results: Results, test: TestRows) -> dict[str, Any]:
    """True classes against predicted ones, and the commonest mistake."""
    pair = np.stack([test.columns["observed"], test.columns["predicted"]])
    mistakes, counts = np.unique(pair[:, test.error > 0], axis=1, return_counts=True)
    worst = mistakes[:, counts.argmax()].tolist() if counts.size else None
    names = list(map(str, results["target"]["classes"]))
    ax = plots.confusion(pair[0].tolist(), pair[1].tolist(), names)
    place = {name: i for i, name in enumerate(dict.fromkeys([*names, *pair.flatten().tolist()]))}
    cells, sizes = np.unique(pair, axis=1, return_counts=True)
    tips = [
        (place[p] + 0.5, place[o] + 0.5, f"{size} row{'s' if size > 1 else ''} of class {o}, predicted as {p}")
        for (o, p), size in zip(cells.T.tolist(), sizes.tolist(), strict=True)
    ]
    picture = svg(ax, "predictions", "True class against predicted class", tips)
    return {
        "svg": picture,
        "right": test.rows - int(counts.sum()),
        "worst": worst,
        "times": int(counts.max(initial=0)),
        **_class_shares(*pair),
    }


def _class_shares(observed: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """The commonest class with its share of the rows, and the one that is found least with how often that is."""
    names, place, counts = np.unique(observed, return_inverse=True, return_counts=True)
    found = np.bincount(place, weights=observed == predicted)
    usual, least = int(counts.argmax()), int((found / counts).argmin())
    return {
        "usual": {"name": str(names[usual]), "share": float(counts[usual] / observed.size)},
        "least": {"name": str(names[least]), "found": int(found[least]), "rows": int(counts[least])},
    }


def predictions_view(results: Results, test: TestRows) -> dict[str, Any]:
    """Predicted values against observed ones, and how many intervals held."""
    c = test.columns
    pick = plots.evenly(test.rows, 300)
    truth, mean, lower, upper = (c[name] for name in ("observed", "mean", "lower", "upper"))
    inside = (lower <= truth) & (truth <= upper)
    name = results["target"]["name"]
    ax = plots.predicted_against_observed(*(a[pick] for a in (truth, mean, lower, upper)), name=name)
    tips = [
        (
            truth[i],
            mean[i],
            f"row {c['row'][i]:.0f}: observed {number(truth[i])}, predicted {number(mean[i])}, "
            f"interval {number(lower[i])} to {number(upper[i])}",
        )
        for i in pick
    ]
    return {
        "svg": svg(ax, "predictions", "Predicted against observed values, with intervals", tips, reach=4.5),
        "right": int(inside.sum()),
        "width": float(np.median(upper - lower)),
        "drawn": pick.size,
    }


def calibration_view(results: Results, test: TestRows) -> dict[str, Any]:
    """Stated against actual reliability, and what that comes to."""
    given = {name: np.asarray(values, dtype=float) for name, values in results["calibration"].items()}
    expected, observed = given["expected"], given["observed"]
    count = given.get("count", np.full(expected.size, float(test.rows)))
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
    gap, sure = (observed - expected)[keep], np.clip(expected[keep], 0, 1)
    weight = count[keep] / max(count[keep].sum(), 1)
    parts = 1 if test.regression else max(gap.size, 1)  # bins err independently, nested intervals together
    chance = float(np.sum(weight * np.sqrt(sure * (1 - sure) / count[keep]))) * (0.8 + 1.2 / math.sqrt(parts))
    size, lean = float(np.sum(weight * np.abs(gap))), float(np.sum(weight * gap))
    if size > max(chance, SMALL):
        verdict = "mixed" if abs(lean) < size / 2 else "timid" if lean > 0 else "bold"
    else:
        verdict = "unclear" if chance > WIDE or test.rows < FEW else "good"
    far = 0
    if test.regression:
        verdict = _interval_verdict(results, test, verdict)
        far = int(np.sum(test.error > FAR * test.uncertainty))
        verdict = "surprised" if far > test.rows / 1000 and verdict != "bold" else verdict
    picture = svg(ax, "calibration", "Stated against actual reliability", tips)
    return {"svg": picture, "gap": size, "verdict": verdict, "far": far, "deviations": FAR}


def _interval_verdict(results: Results, test: TestRows, verdict: str) -> str:
    """The verdict on intervals of all sizes, unless the asked ones, which users act on, say another."""
    asked, c = asked_coverage(results), test.columns
    held = int(np.sum((c["lower"] <= c["observed"]) & (c["observed"] <= c["upper"])))
    low, high = wilson(held, test.rows)
    gap = held / test.rows - asked
    if not low <= asked <= high and abs(gap) >= SMALL:
        return "timid" if gap > 0 else "bold"
    return "unclear" if verdict == "good" and max(asked - low, high - asked) > WIDE else verdict


def doubt_view(test: TestRows) -> dict[str, Any]:
    """Whether the rows that the model is unsure of are those it gets wrong."""
    arrays = (test.uncertainty, test.error)
    share, left = plots.error_after_rejection(*arrays, test.summary)
    strength, chance = association(test)
    sign = 0 if strength is None or abs(strength) <= chance else np.sign(strength)
    verdict = "few" if test.rows < FEW else "none" if strength is None else {1: "yes", 0: "unclear", -1: "no"}[sign]
    label = "typical error (RMSE)" if test.regression else "share predicted wrongly"
    told = number if test.regression else percent
    groups = plots.grouped_error(*arrays, summary=test.summary)
    foretold = plots.grouped_error(test.uncertainty, test.expected, summary=test.summary)
    chances = test.by_chance(-(-test.rows // len(groups)))
    by_group = plots.error_by_uncertainty(
        *arrays, expected=test.expected, chance=chances, summary=test.summary, label=label
    )
    aside = plots.error_rejection_curve(*arrays, summary=test.summary, label=label)
    bars = [
        (i + 1, height / 2, f"group {i + 1} of {len(groups)}: {told(height)}, the model expected {told(hoped)}")
        for i, (height, hoped) in enumerate(zip(groups, foretold, strict=True))
    ]
    points = [
        (share[i], left[i], f"{percent(share[i])} set aside: {told(left[i])} for the rest")
        for i in plots.evenly(share.size, TIPS)
    ]
    return {
        "groups_svg": svg(by_group, "groups", f"{label} from the surest to the least sure rows", bars, reach=16),
        "aside_svg": svg(aside, "aside", f"{label} after setting aside the least sure rows", points),
        "groups": groups.tolist(),
        "all": float(left[0]),
        "after": float(np.interp(0.2, share, left)),
        "strength": strength,
        "chance": chance,
        "random": chances,
        "verdict": verdict,
        "flat": float(np.std(test.uncertainty)) < 0.1 * float(np.mean(test.uncertainty)),
    }


def rates_view(results: Results) -> dict[str, Any]:
    """The learned rate of each layer, and how it got there."""
    sites, history = results["rates"], results["history"]
    rows = [
        {**s, "label": str(s["label"]), "p": float(s["p"]), "colour": COLOURS.get(c, c)}
        for s, c in zip(sites, plots.site_colours(len(sites)), strict=True)
    ]
    if not rows or not history:
        return {"sites": rows, "svg": None}
    traces = {str(s["site"]): [epoch["rates"].get(s["site"]) for epoch in history] for s in sites}
    epochs = [epoch["epoch"] for epoch in history]
    ax = plots.rates_over_training(epochs, traces, legend=False)
    tips = [
        (epochs[i], trace[i], f"{row['label']}, epoch {epochs[i]}: {percent(trace[i])}")
        for row, trace in zip(rows[:8], traces.values(), strict=False)
        for i in plots.evenly(len(epochs), TIPS)
        if trace[i] is not None
    ]
    late = np.array(list(traces.values()), dtype=float)[:, -max(2, len(history) // 10) :]
    return {
        "sites": rows,
        "svg": svg(ax, "rates", "Learned dropout rate of each layer over training", tips),
        "kept_other": any(abs(row["p"] - p) > 0.005 for row, p in zip(rows, late[:, -1], strict=True)),
        "moved": float(np.nan_to_num(np.ptp(late, axis=1)).max()),
    }


def training_view(results: Results) -> dict[str, Any] | None:
    """The loss over training, and when it was least."""
    history = results["history"]
    if not history:
        return None
    epochs, nll, kl, held = (
        np.array([step.get(name) for step in history], dtype=float) for name in ("epoch", "nll", "kl", "validation_nll")
    )
    ax = plots.training_curve(epochs, nll, kl=kl, validation_nll=held)
    low, high = ax.get_ylim()
    tips = [
        (epochs[i], values[i], f"epoch {epochs[i]:.0f}, {name}: {number(values[i])} nats per row")
        for name, values in (("training rows", nll), ("held-out rows", held), ("penalty", kl))
        for i in plots.evenly(len(epochs), TIPS)
        if low <= values[i] <= high
    ]
    view: dict[str, Any] = {"svg": svg(ax, "training", "Loss over training", tips), "epochs": len(history)}
    view["best"] = None
    known = np.flatnonzero(np.isfinite(held))
    if not known.size:
        return view
    window = 1 + known.size // 20  # one lucky epoch is not the best one
    smooth = np.convolve(held[known], np.full(window, 1 / window), "valid")
    best = known[smooth.argmin() + window // 2]
    view |= {"best": int(epochs[best]), "least": float(smooth.min()), "last": float(smooth[-1])}
    return view | {"unlearned": bool(nll[-1] > nll[best] + 0.05)}


def svg(ax: Axes, key: str, label: str, tips: Sequence[Tip] = (), *, reach: float = 6.0) -> Markup:
    """A figure as SVG, sized and coloured by the page; the same text every time.

    Args:
        ax: Its axes.
        key: Prefix of the ids, another one for each figure of a page.
        label: What it shows, for those who cannot see it.
        tips: Points in units of the axes, and what to say on hovering over them.
        reach: How near to a point that is, in points of print.

    Returns:
        The element.
    """
    figure, buffer = ax.get_figure(), io.StringIO()
    assert isinstance(figure, Figure)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": key}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+")  # the browser brings its own fonts
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", buffer.getvalue(), flags=re.DOTALL)
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda m: f' id="{key}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'((?:href="|url\()#)', rf"\g<1>{key}-", text)
    text = re.sub("|".join(COLOURS), lambda m: COLOURS[m[0]], text)
    box = re.findall(r'viewBox="[^"]*"', text)[0]
    inner = re.sub(r"\n\s*", "\n", text[text.index(">", text.index("<svg")) + 1 :])
    inner = inner.replace("</svg>", f"{_spots(ax, tips, reach)}</svg>")
    return Markup(f'<svg {box} role="img" aria-label="{html.escape(label)}">{inner}')


def _spots(ax: Axes, tips: Sequence[Tip], reach: float) -> str:
    """Invisible discs over points, which tell their numbers on hovering, without a script."""
    if not tips:
        return ""
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    pixels = ax.transData.transform([(x, y) for x, y, _ in tips]) * 72 / figure.dpi
    height = figure.get_figheight() * 72
    discs = [
        f'<circle cx="{x:.1f}" cy="{height - y:.1f}" r="{reach:g}"><title>{html.escape(text)}</title></circle>'
        for (x, y), (_, _, text) in zip(pixels, tips, strict=True)
    ]
    return f'<g fill="none" pointer-events="all">{"".join(discs)}</g>'
