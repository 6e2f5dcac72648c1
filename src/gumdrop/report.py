"""The page that a fit leaves behind: `results.json` in, one self-contained `report.html` out.

The words are in `templates/report.html.j2`; here are the numbers in them, and the verdicts that rest on them.
"""

from __future__ import annotations

import html
import io
import json
import math
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gumdrop import plots
from gumdrop.atomic import replacing
from gumdrop.pages import template

FORMAT = 1
PARTS = ("task", "table", "target", "settings", "history", "rates", "scores", "calibration", "test")
COLOURS = {plots.INK: "currentColor"} | {c: f"var(--c{i})" for i, c in enumerate(plots.PALETTE, 1)}

SHAPE_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, jinja2.UndefinedError)
ABSENT: dict[str, Any] = {"environment": {}, "score_notes": {}, "notes": [], "seconds": None, "gumdrop": ""}
ABSENT |= {"best_epochs": []}
DASH, MINUS, SPACE = "\N{EN DASH}", "\N{MINUS SIGN}", "\N{NO-BREAK SPACE}"

Results = Mapping[str, Any]


class ReportError(ValueError):
    """A folder that no report can be made of; the message says what to do."""


def write_report(folder: str | os.PathLike[str]) -> Path:
    """Write `report.html` beside the `results.json` of a folder that `gumdrop fit` left.

    Args:
        folder: The folder.

    Returns:
        The path of the page. It appears whole or not at all.

    Raises:
        ReportError: If the folder or its results are absent, damaged or of another format.
    """
    place = Path(folder)
    page = render(_load(place), folder=place.resolve().name)
    with replacing(place / "report.html") as file:
        file.write(page)
    return place / "report.html"


def render(results: Results, *, folder: str = "FOLDER") -> str:
    """The page as text.

    Args:
        results: The content of a `results.json`.
        folder: Name of the folder, for the command that uses the model again.

    Returns:
        HTML that needs nothing from outside.

    Raises:
        ReportError: If `results` lacks a part or has one of the wrong shape.
    """
    missing = [part for part in PARTS if part not in results]
    if missing:
        raise ReportError(f"`results.json` lacks {', '.join(missing)}: run `gumdrop fit` again to write it anew.")
    try:
        view = _view(results, folder)
        return template("report.html.j2", num=_number, percent=_percent).render(view)
    except SHAPE_ERRORS as error:
        raise ReportError(
            f"`results.json` has a part of an unexpected shape ({type(error).__name__}: {error}): "
            "run `gumdrop fit` again to write it anew."
        ) from error


def _load(folder: Path) -> Results:
    path = folder / "results.json"
    if not folder.is_dir():
        raise ReportError(f"There is no folder {folder}: give the folder that `gumdrop fit` wrote.")
    try:
        results = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda _: None)
    except FileNotFoundError:
        raise ReportError(f"{folder} holds no results.json: run `gumdrop fit TABLE.csv --target NAME`.") from None
    except (OSError, ValueError) as error:
        raise ReportError(f"{path} cannot be read ({error}): run `gumdrop fit` again to write it anew.") from error
    if not isinstance(results, dict) or results.get("format") != FORMAT:
        found = results.get("format") if isinstance(results, dict) else type(results).__name__
        raise ReportError(f"{path} has format {found!r}, this gumdrop reads format {FORMAT}: run `gumdrop fit` again.")
    return results


def _number(value: float | None, digits: int = 3) -> str:
    if value is None or not math.isfinite(value):
        return DASH
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits - 1}e}".replace("-", MINUS)
    places = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{places}f}".replace("-", MINUS)


def _percent(share: float | None) -> str:
    if share is None or not math.isfinite(share):
        return DASH
    value = round(100 * share, 1)
    return f"{value:.{0 if 10 <= value <= 99 or value in (0, 100) else 1}f}{SPACE}%"


def _view(results: Results, folder: str) -> dict[str, Any]:
    test = _Test(results)
    page = {"folder": folder, "test": test, "regression": test.regression, "coverage": _goal(results)}
    page |= {"members": int(results["settings"].get("num_members") or 1), "watched": _watched(results)}
    parts = {
        "scores": _scores(results, test),
        "calibration": _calibration(results, test),
        "predictions": _predictions(results, test) if test.regression else _confusion(results, test),
        "doubt": _doubt(test),
        "rates": _rates(results),
        "training": _training(results),
        "unsure": _unsure(results, test),
    }
    return {**ABSENT, **results, **page, **parts}


def _goal(results: Results) -> float:
    return float(results["settings"].get("coverage") or 0.9)


def _watched(results: Results) -> str:
    counts = results["table"].get("watched_rows") or []
    return " or ".join(f"{count:,}" for count in sorted(set(counts)))


class _Test:
    """The test rows as arrays: how wrong each was, how unsure the model was, how wrong it expected to be."""

    def __init__(self, results: Results) -> None:
        self.regression = results["task"] == "regression"
        columns = {name: np.asarray(values) for name, values in results["test"].items()}
        if self.regression:
            numbers = {name: values.astype(float) for name, values in columns.items()}
            keep = np.all([np.isfinite(values) for values in numbers.values()], axis=0)
            columns = {name: values[keep] for name, values in numbers.items()}
            self.uncertainty = np.hypot(columns["epistemic_std"], columns["aleatoric_std"])
            self.error = np.abs(columns["observed"] - columns["mean"])
            self.expected = self.uncertainty
            self.unfamiliar = (columns["epistemic_std"] / np.maximum(self.uncertainty, 1e-300)) ** 2
        else:
            columns |= {name: columns[name].astype(str) for name in ("observed", "predicted")}
            self.uncertainty = columns["predictive_entropy"].astype(float)
            self.error = (columns["observed"] != columns["predicted"]).astype(float)
            self.expected = 1 - columns["probability"].astype(float)
            self.unfamiliar = columns["mutual_information"].astype(float) / np.maximum(self.uncertainty, 1e-300)
        if not self.error.size:
            raise ValueError("no test rows")
        self.columns, self.rows = columns, int(self.error.size)
        self.summary: plots.Summary = "rms" if self.regression else "mean"
        weight = self.uncertainty**2 if self.regression else self.uncertainty
        self.unfamiliar_share = float(np.clip(np.sum(self.unfamiliar * weight) / max(weight.sum(), 1e-300), 0, 1))

    def wobble(self) -> float:
        # two standard errors of the error
        cost = self.error**2 if self.regression else self.error
        spread = 2 * float(np.std(cost)) / math.sqrt(self.rows)
        return spread / (2 * max(float(np.sqrt(cost.mean())), 1e-300)) if self.regression else spread


def _scores(results: Results, test: _Test) -> dict[str, Any]:
    rows, notes = results["scores"], results.get("score_notes") or {}
    goal = _goal(results)
    target = (goal, 2 * math.sqrt(goal * (1 - goal) / test.rows))
    names = dict.fromkeys(name for row in rows for name in row["values"])
    columns = [_column(name, [row["values"].get(name) for row in rows], notes.get(name, ""), target) for name in names]
    ours = next(i for i, row in enumerate(rows) if row["ours"])
    beaten = [column["name"] for column in columns if column["best"] and ours not in column["best"]]
    main = next((c for c in columns if c["name"] in ("RMSE", "accuracy")), columns[0])
    rivals = [i for i, value in enumerate(main["values"]) if i != ours and value is not None]
    sign = -1 if main["aim"] == "lower" else 1
    rival = max(rivals, key=lambda i: sign * main["values"][i], default=None)
    view = {"rows": rows, "columns": columns, "beaten": beaten, "wobble": test.wobble(), "verdict": None}
    if rival is None or main["values"][ours] is None:
        return view
    gain = sign * (main["values"][ours] - main["values"][rival])
    verdict = "equal" if abs(gain) <= test.wobble() else "better" if gain > 0 else "worse"
    return view | {"verdict": verdict, "rival": rows[rival]["name"], "rival_text": main["texts"][rival]}


def _column(name: str, values: Sequence[float | None], note: str, target: tuple[float, float]) -> dict[str, Any]:
    aim = _aim(f"{name} {note}".lower(), name.lower())
    largest = max((abs(v) for v in values if v is not None), default=0) or 1
    places = int(np.clip(2 - math.floor(math.log10(largest)), 0, 6))
    share = name.lower().startswith(("coverage", "accuracy"))
    shown = [DASH if v is None else f"{100 * v:.1f}{SPACE}%" if share else f"{v:,.{places}f}" for v in values]
    texts = [text.replace("-", MINUS) for text in shown]
    known = {i: _cost(v, aim, target) for i, v in enumerate(values) if v is not None and aim}
    top = min(known, key=lambda i: known[i], default=0)
    best = [i for i in known if len(known) > 1 and (known[i] == known[top] or texts[i] == texts[top])]
    return {"name": name, "values": values, "texts": texts, "aim": aim, "best": best}


def _cost(value: float, aim: str | None, target: tuple[float, float]) -> float:
    if aim == "target":  # as near as chance lets any model come is as good as exact
        return max(abs(value - target[0]) - target[1], 0.0)
    return -value if aim == "higher" else value


def _aim(described: str, name: str) -> str | None:
    for aim in ("lower", "higher"):
        if f"{aim} is better" in described:
            return aim
    if "coverage" in name:
        return "target"
    if any(word in name for word in ("accuracy", "log likelihood", "r2", "r²", "auc", "f1")) and "negative" not in name:
        return "higher"
    return "lower" if any(word in name for word in ("rmse", "mae", "crps", "error", "nll", "brier", "loss")) else None


def _confusion(results: Results, test: _Test) -> dict[str, Any]:
    pair = np.stack([test.columns["observed"], test.columns["predicted"]])
    mistakes, counts = np.unique(pair[:, test.error > 0], axis=1, return_counts=True)
    worst = mistakes[:, counts.argmax()].tolist() if counts.size else None
    ax = plots.confusion(pair[0].tolist(), pair[1].tolist(), list(map(str, results["target"]["classes"])))
    svg = _svg(ax, "predictions", "True class against predicted class")
    return {"svg": svg, "right": test.rows - int(counts.sum()), "worst": worst, "times": int(counts.max(initial=0))}


def _predictions(results: Results, test: _Test) -> dict[str, Any]:
    c = test.columns
    pick = plots.evenly(test.rows, 300)
    truth, mean, lower, upper = (c[name] for name in ("observed", "mean", "lower", "upper"))
    inside = (lower <= truth) & (truth <= upper)
    ax = plots.predicted_against_observed(
        *(a[pick] for a in (truth, mean, lower, upper)), name=results["target"]["name"]
    )
    tips: dict[str, list[str]] = {"inside": [], "outside": []}
    for i in pick:
        text = f"row {c['row'][i]:.0f}: observed {_number(truth[i])}, predicted {_number(mean[i])}"
        tips["inside" if inside[i] else "outside"].append(
            f"{text}, interval {_number(lower[i])} to {_number(upper[i])}"
        )
    svg = _svg(ax, "predictions", "Predicted against observed values, with intervals", tips)
    return {
        "svg": svg,
        "right": int(inside.sum()),
        "width": float(np.median(upper - lower)),
        "drawn": pick.size,
    }


def _calibration(results: Results, test: _Test) -> dict[str, Any]:
    given = {name: np.asarray(values, dtype=float) for name, values in results["calibration"].items()}
    expected, observed = given["expected"], given["observed"]
    count = given.get("count", np.full(expected.size, float(test.rows)))
    if test.regression:
        ax = plots.calibration(expected, observed, rows=test.rows)
    else:
        ax = plots.reliability(expected, observed, count)
    keep = np.isfinite(expected) & np.isfinite(observed) & (count > 0)
    gap, sure = (observed - expected)[keep], np.clip(expected[keep], 0, 1)
    weight = count[keep] / max(count[keep].sum(), 1)
    parts = 1 if test.regression else max(gap.size, 1)  # bins err independently, nested intervals together
    chance = float(np.sum(weight * np.sqrt(sure * (1 - sure) / count[keep]))) * (0.8 + 1.2 / math.sqrt(parts))
    size, lean = float(np.sum(weight * np.abs(gap))), float(np.sum(weight * gap))
    verdict = "mixed" if abs(lean) < size / 2 else "timid" if lean > 0 else "bold"
    verdict = verdict if size > chance else "good" if size < 0.1 else "unclear"
    if test.regression and (tail := _interval_gap(results)):
        verdict = "timid" if tail > 0 else "bold"
    return {"svg": _svg(ax, "calibration", "Stated against actual reliability"), "gap": size, "verdict": verdict}


def _interval_gap(results: Results) -> float:
    """Coverage beyond that of the asked intervals, or 0 where chance explains it: the interval is what users act on."""
    rows, asked = results["test"], _goal(results)
    lower, upper, observed = (np.asarray(rows[name], dtype=float) for name in ("lower", "upper", "observed"))
    known = np.isfinite(lower + upper + observed)
    gap = float(np.mean(((lower <= observed) & (observed <= upper))[known])) - asked if known.any() else 0.0
    return gap if abs(gap) > 2 * math.sqrt(asked * (1 - asked) / max(known.sum(), 1)) else 0.0


def _doubt(test: _Test) -> dict[str, Any]:
    arrays = (test.uncertainty, test.error)
    share, left = plots.remaining_error(*arrays, test.summary)
    strength, chance = _association(test)
    sign = 0 if strength is None or abs(strength) <= chance else np.sign(strength)
    verdict = "few" if test.rows < 20 else "none" if strength is None else {1: "yes", 0: "unclear", -1: "no"}[sign]
    label = "typical error (RMSE)" if test.regression else "share predicted wrongly"
    by_group = plots.error_by_uncertainty(*arrays, expected=test.expected, summary=test.summary, label=label)
    aside = plots.error_after_setting_aside(*arrays, summary=test.summary, label=label)
    return {
        "groups_svg": _svg(by_group, "groups", f"{label} from the surest to the least sure rows"),
        "aside_svg": _svg(aside, "aside", f"{label} after setting aside the least sure rows"),
        "groups": plots.grouped_error(*arrays, summary=test.summary).tolist(),
        "all": float(left[0]),
        "after": float(np.interp(0.2, share, left)),
        "strength": strength,
        "chance": chance,
        "verdict": verdict,
        "flat": float(np.std(test.uncertainty)) < 0.1 * float(np.mean(test.uncertainty)),
    }


def _association(test: _Test) -> tuple[float | None, float]:
    # rank correlation of doubt and error, or 2 AUROC - 1 of doubt for wrong rows; and what chance alone reaches
    doubt, error = _ranks(test.uncertainty), _ranks(test.error)
    if test.rows < 3 or np.ptp(doubt) == 0 or np.ptp(error) == 0:
        return None, 0.0
    if test.regression:
        return float(np.corrcoef(doubt, error)[0, 1]), 2 / math.sqrt(test.rows - 1)
    wrong = int(test.error.sum())
    right = test.rows - wrong
    auroc = (doubt[test.error > 0].sum() - wrong * (wrong + 1) / 2) / (wrong * right)
    return 2 * float(auroc) - 1, 4 * math.sqrt((test.rows + 1) / (12 * wrong * right))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last: np.ndarray = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]


def _rates(results: Results) -> dict[str, Any]:
    sites, history = results["rates"], results["history"]
    rows = [
        {**s, "label": str(s["label"]), "p": float(s["p"]), "colour": COLOURS.get(c, c)}
        for s, c in zip(sites, plots.site_colours(len(sites)), strict=True)
    ]
    if not rows or not history:
        return {"sites": rows, "svg": None}
    traces = {str(s["site"]): [epoch["rates"].get(s["site"]) for epoch in history] for s in sites}
    ax = plots.rates_over_training([epoch["epoch"] for epoch in history], traces, legend=False)
    late = np.array(list(traces.values()), dtype=float)[:, -max(2, len(history) // 10) :]
    return {
        "sites": rows,
        "svg": _svg(ax, "rates", "Learned dropout rate of each layer over training"),
        "kept_other": any(abs(row["p"] - p) > 0.005 for row, p in zip(rows, late[:, -1], strict=True)),
        "moved": float(np.nan_to_num(np.ptp(late, axis=1)).max()),
    }


def _training(results: Results) -> dict[str, Any] | None:
    history = results["history"]
    if not history:
        return None
    epochs, nll, kl, held = (
        np.array([step.get(name) for step in history], dtype=float) for name in ("epoch", "nll", "kl", "validation_nll")
    )
    ax = plots.training_curve(epochs, nll, kl=kl, validation_nll=held)
    view: dict[str, Any] = {"svg": _svg(ax, "training", "Loss over training"), "epochs": len(history), "best": None}
    known = np.flatnonzero(np.isfinite(held))
    if not known.size:
        return view
    window = 1 + known.size // 20  # one lucky epoch is not the best one
    smooth = np.convolve(held[known], np.full(window, 1 / window), "valid")
    best = known[smooth.argmin() + window // 2]
    view |= {"best": int(epochs[best]), "least": float(smooth.min()), "last": float(smooth[-1])}
    return view | {"unlearned": bool(nll[-1] > nll[best] + 0.05)}


def _unsure(results: Results, test: _Test) -> dict[str, Any] | None:
    given = results.get("unsure") or {}
    if not given.get("rows"):
        return None
    shares = dict(zip(test.columns["row"].astype(int).tolist(), test.unfamiliar.tolist(), strict=True))
    rows = [{"interval": None, **row, "share": shares.get(row["row"])} for row in given["rows"]]
    return {"columns": given["columns"], "rows": rows, "intervals": any(row["interval"] for row in rows)}


def _svg(ax: Axes, key: str, label: str, tips: Mapping[str, Sequence[str]] | None = None) -> Markup:
    # sized and coloured by the page, the ids prefixed by `key`, the same text every time
    figure, buffer = ax.get_figure(), io.StringIO()
    assert isinstance(figure, Figure)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": key}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+")  # the browser brings its own fonts
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", buffer.getvalue(), flags=re.DOTALL)
    for gid, texts in (tips or {}).items():
        svg = _add_tips(svg, gid, texts)
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda m: f' id="{key}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r'((?:href="|url\()#)', rf"\g<1>{key}-", svg)
    svg = re.sub("|".join(COLOURS), lambda m: COLOURS[m[0]], svg)
    box = re.findall(r'viewBox="[^"]*"', svg)[0]
    inner = re.sub(r"\n\s*", "\n", svg[svg.index(">", svg.index("<svg")) + 1 :])
    return Markup(f'<svg {box} role="img" aria-label="{html.escape(label)}">{inner}')


def _add_tips(svg: str, gid: str, texts: Sequence[str]) -> str:
    head, found, rest = svg.partition(f'<g id="{gid}">')
    body, following, tail = rest.partition('<g id="')
    pieces = re.split(r"(<use [^>]*?)/>", body)
    if not found or len(pieces) != 2 * len(texts) + 1:
        return svg
    for i, text in enumerate(texts):
        pieces[2 * i + 1] += f"><title>{html.escape(text)}</title></use>"
    return head + found + "".join(pieces) + following + tail
