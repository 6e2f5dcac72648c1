"""Make the page of a fit from its results alone: of all targets, and a shorter one where they are known in part."""

import dataclasses
import os
import re
from pathlib import Path

import numpy as np

from gumdrop.layers.site import GONE
from gumdrop.machine.files import replacing
from gumdrop.machine.picking import evenly
from gumdrop.tables.errors import MEND
from gumdrop.tables.results import LIKELIHOOD, FitResults, read_results
from gumdrop.views import plots
from gumdrop.views.html import SPACE, Tile, number, percent, template, with_unit
from gumdrop.views.report.columns import columns_view, spread_view
from gumdrop.views.report.lead import lead, within
from gumdrop.views.report.predictions import (
    SMALL,
    calibration_view,
    confusion_view,
    predictions_view,
    ranking_view,
    uncertainty_view,
)
from gumdrop.views.report.rows import TestRows, wilson
from gumdrop.views.report.scores import scores_view
from gumdrop.views.svg import COLOURS, TIPS, picture, svg

TORN = re.compile(r"(?<=\d) (?=%)|(?<=±) (?=\d)")
"""Where a line must not end: between a number and its sign."""
CURVES = "Thick: the mean of all test rows. Dotted: their Kaplan-Meier estimate, which should agree with it. "
ROWS = "Colours: some test rows, from the smallest median to the largest, with what is known of each."
AT_TIMES = (
    "Test rows in groups, from the least probable to last to the most. On the diagonal as many last as the model says."
)
QUANTILES = (
    "How many test rows lie below each quantile of their prediction; one that is not seen counts in part. In the grey "
    "band chance explains the difference."
)
FLAT = 0.02
"""Change of a rate over the training, below which its curve says no more than its end."""


def write_report(folder: str | os.PathLike[str], results: FitResults | None = None, *, name: str | None = None) -> Path:
    """Write `report.html` into a folder that `gumdrop fit` left, from its results; it appears whole or not at all."""
    path = Path(folder)
    page = render(read_results(path) if results is None else results, folder=name or path.resolve().name)
    with replacing(path / "report.html") as file:
        file.write(page)
    return path / "report.html"


def render(results: FitResults, *, folder: str = "FOLDER") -> str:
    """The page as text that needs nothing from outside, with the folder in the command that uses it again."""
    page, view = ("report", _of_rows(results)) if results.curves is None else ("known_in_part", _of_curves(results))
    shared = {
        "folder": folder,
        "coverage": results.coverage,
        "members": results.num_members,
        "rates": rates_view(results),
        "training": training_view(results),
    }
    return TORN.sub(SPACE, template(f"{page}.html.j2").render(vars(results) | shared | view))


def _of_rows(results: FitResults) -> dict[str, object]:
    """What the page names besides, of numbers and classes."""
    test = TestRows(results)
    scores = scores_view(results, test)
    right, predictions = (predictions_view if test.regression else confusion_view)(results, test)
    return {
        "within": within,
        "test": test,
        "regression": test.regression,
        "compared": results.settings.get("compare", True),
        "draws": results.num_samples,
        "unit": results.target.unit,
        "watched": " or ".join(f"{count:,}" for count in sorted(set(results.table.watched_rows))),
        "odd": [note for note in results.notes if note.endswith(MEND)],
        "lead": lead(results, test, scores),
        "scores": scores,
        "calibration": calibration_view(results, test),
        "predictions": predictions | {"right": right},
        "between": wilson(right, test.rows),
        "held_gap": right / test.rows - results.coverage,
        "small": SMALL,
        "uncertainty": uncertainty_view(test),
        "uncertain": _uncertain(results, test),
        "ranking": ranking_view(results, test),
        "columns": columns_view(results, test),
    }


def _uncertain(results: FitResults, test: TestRows) -> dict[str, object] | None:
    """The rows of the largest epistemic uncertainty, with its share; None where a row's numbers are not all known."""
    given = dataclasses.replace(results.uncertain, rows=results.uncertain.rows[:6])
    if not given.rows:
        return None
    shares = dict(zip(test.columns["row"].astype(int).tolist(), test.epistemic.tolist(), strict=True))
    of_rows = [shares.get(row.row) for row in given.rows]
    return {**vars(given), "shares": of_rows, "intervals": any(row.interval for row in given.rows)}


def _of_curves(results: FitResults) -> dict[str, object]:
    """The same of targets that are known in part."""
    ours = next(score for score in results.scores if score.ours)
    null = next((score for score in results.scores if score.null_model), None)
    tiles = [
        Tile(number(value), name, "" if null is None else f"{number(null.values.get(name))} for {null.name}")
        for name, value in ours.values.items()
    ]
    worth = [(column.name, column.gains[LIKELIHOOD]) for column in results.columns.importance[:15]]
    spreads = {spread.name: spread_view(spread) for spread in results.columns.spreads}
    return {"tiles": tiles, "ours": ours, "worth": worth, "spreads": spreads, "pictures": _pictures(results)}


def _pictures(results: FitResults) -> list[dict[str, str]]:
    curves, given = results.curves, results.calibration
    assert curves is not None, "a target that is known in part has curves"
    rows = {f"row {row.row}: {row.known}": row.above for row in curves.rows}
    ax = plots.survival_curves(
        curves.values, rows, curves.mean, curves.whole, name=with_unit(results.target.name, results.target.unit)
    )
    seen = (CURVES if curves.whole is not None else "Thick: the mean of all test rows. ") + ROWS
    pictures = [picture(ax, "curves", "Survival curves of some test rows and of all", seen)]
    if curves.at:
        at = [(number(time.time), time.expected, time.observed) for time in curves.at]
        told = f"{AT_TIMES} Each colour is a time: {', '.join(label for label, *_ in at)}."
        pictures.append(picture(plots.survival_calibration(at), "at", "Calibration at three times", told))
    expected, observed = ([value or 0.0 for value in values] for values in (given.expected, given.observed))
    labels = "share of rows that should be below", "share of rows that are below"
    ax = plots.calibration(expected, observed, rows=len(results.test.row), labels=labels)
    return [*pictures, picture(ax, "calibration", "Share of rows below each quantile", QUANTILES)]


def rates_view(results: FitResults) -> dict[str, object]:
    """The learned rate of each layer, whether any is left, and how they got there, unless to 0 or along a line."""
    history = results.history
    colours = plots.site_colours(len(results.rates))
    sites = [vars(rate) | {"colour": COLOURS.get(c, c)} for rate, c in zip(results.rates, colours, strict=True)]
    left = any((rate.p if rate.most is None else rate.most) >= GONE for rate in results.rates)
    traces = {rate.site: np.array([e.rates.get(rate.site) for e in history], dtype=float) for rate in results.rates}
    flat = not history or all(np.nanmax(trace) - np.nanmin(trace) < FLAT for trace in traces.values())
    if flat or not left:
        return {"sites": sites, "left": left, "svg": None}
    epochs = [epoch.epoch for epoch in history]
    ax = plots.rates_over_training(epochs, traces, legend=False)
    tips = [
        (epochs[i], float(trace[i]), f"{rate.label}, epoch {epochs[i]}: {percent(float(trace[i]))}")
        for rate, trace in zip(results.rates[:8], traces.values(), strict=False)
        for i in evenly(len(epochs), TIPS)
        if np.isfinite(trace[i])
    ]
    return {"sites": sites, "left": left, "svg": svg(ax, "rates", "Learned dropout rate of each layer", tips)}


def training_view(results: FitResults) -> dict[str, object] | None:
    """The loss over training, and when it was least."""
    history = results.history
    if not history:
        return None
    epochs, nll, kl, held = (
        np.array([getattr(step, name) for step in history], dtype=float)
        for name in ("epoch", "nll", "kl", "validation_nll")
    )
    ax = plots.training_curve(epochs, nll, kl=kl, validation_nll=held)
    low, high = ax.get_ylim()
    tips = [
        (epochs[i], values[i], f"epoch {epochs[i]:.0f}, {name}: {number(values[i])} nats per row")
        for name, values in (("training rows", nll), ("held-out rows", held), ("penalty", kl))
        for i in evenly(len(epochs), TIPS)
        if low <= values[i] <= high
    ]
    view = {"svg": svg(ax, "training", "Loss over training", tips), "epochs": len(history)}
    known = np.flatnonzero(np.isfinite(held))
    if not known.size:
        return view | {"best": None}
    window = 1 + known.size // 20  # one lucky epoch is not the best one
    smooth = np.convolve(held[known], np.full(window, 1 / window), "valid")
    best = known[smooth.argmin() + window // 2]
    losses = {"best": int(epochs[best]), "least": float(smooth.min()), "last": float(smooth[-1])}
    return view | losses | {"unlearned": bool(nll[-1] > nll[best] + 0.05)}
