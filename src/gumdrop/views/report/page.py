"""Make the page of a fit from its `results.json` alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2

from gumdrop.machine.environment import in_words
from gumdrop.machine.files import replacing
from gumdrop.tables.schema.oddities import MEND
from gumdrop.views.html import template
from gumdrop.views.report.figures import (
    SMALL,
    calibration_view,
    confusion_view,
    doubt_view,
    predictions_view,
    rates_view,
    training_view,
)
from gumdrop.views.report.rows import (
    Results,
    TestRows,
    asked_coverage,
    auroc_interval,
    beside,
    number,
    percent,
    tenths,
    wilson,
)
from gumdrop.views.report.scores import scores_view

__all__ = ["ReportError", "render", "write_report"]

FORMAT = 1
PARTS = ("task", "table", "target", "settings", "history", "rates", "scores", "calibration", "test")
SHAPE_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, jinja2.UndefinedError)
ABSENT: dict[str, Any] = {"environment": {}, "score_notes": {}, "notes": [], "seconds": None, "gumdrop": ""}
ABSENT |= {"best_epochs": [], "stopped": None, "rates_note": ""}


class ReportError(ValueError):
    """A folder that no report can be made of; the message says what to do."""


def write_report(folder: str | os.PathLike[str], *, name: str | None = None) -> Path:
    """Write `report.html` beside the `results.json` of a folder that `gumdrop fit` left.

    Args:
        folder: The folder.
        name: What the page calls it; its own name if None.

    Returns:
        The path of the page. It appears whole or not at all.

    Raises:
        ReportError: If the folder or its results are absent, damaged or of another format.
    """
    place = Path(folder)
    page = render(_load(place), folder=name or place.resolve().name)
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
        filters: dict[str, Callable[..., str]]
        filters = {
            "num": number,
            "beside": beside,
            "percent": percent,
            "tenths": tenths,
            "count": "{:,}".format,
            "told": in_words,
        }
        return template("report.html.j2", **filters).render(view)
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
        way_out = "update gumdrop, or " if isinstance(found, int) and found > FORMAT else ""
        raise ReportError(
            f"{path} has format {found!r}, this gumdrop reads format {FORMAT}: {way_out}run `gumdrop fit` again."
        )
    return results


def _view(results: Results, folder: str) -> dict[str, Any]:
    test = TestRows(results)
    page = {"folder": folder, "test": test, "regression": test.regression, "coverage": asked_coverage(results)}
    page |= {"members": int(results["settings"].get("num_members") or 1), "watched": _watched(results)}
    predictions = predictions_view(results, test) if test.regression else confusion_view(results, test)
    parts = {
        "scores": scores_view(results, test),
        "calibration": calibration_view(results, test),
        "predictions": predictions,
        "doubt": doubt_view(test),
        "rates": rates_view(results),
        "training": training_view(results),
        "unsure": _unsure(results, test),
        "ranking": _ranking(results),
    }
    page |= {"unit": results["target"].get("unit") or "", "between": wilson(predictions["right"], test.rows)}
    page |= {"odd": [note for note in results.get("notes") or [] if note.endswith(MEND)]}
    page |= {"held_gap": predictions["right"] / test.rows - page["coverage"], "small": SMALL}
    return {**ABSENT, **results, **page, **parts}


def _ranking(results: Results) -> dict[str, Any] | None:
    given = results.get("ranking")
    if not given:
        return None
    low, high = auroc_interval(given["auroc"], given["rows"], given["other_rows"])
    return {"name": given["class"], "auroc": given["auroc"], "low": low, "high": high}


def _watched(results: Results) -> str:
    counts = results["table"].get("watched_rows") or []
    return " or ".join(f"{count:,}" for count in sorted(set(counts)))


def _unsure(results: Results, test: TestRows) -> dict[str, Any] | None:
    given = results.get("unsure") or {}
    if not given.get("rows"):
        return None
    shares = dict(zip(test.columns["row"].astype(int).tolist(), test.unfamiliar.tolist(), strict=True))
    rows = [{"interval": None, **row, "share": shares.get(row["row"])} for row in given["rows"]]
    return {"columns": given["columns"], "rows": rows, "intervals": any(row["interval"] for row in rows)}
