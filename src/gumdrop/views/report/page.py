"""Make the page of a fit from its results alone."""

import dataclasses
import os
import re
from pathlib import Path

from gumdrop.machine.files import replacing
from gumdrop.tables.errors import MEND
from gumdrop.tables.results import FitResults, read_results
from gumdrop.views.html import SPACE, template
from gumdrop.views.report.columns import columns_view
from gumdrop.views.report.known_in_part import known_in_part_page
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
from gumdrop.views.report.training import rates_view, training_view

TORN = re.compile(r"(?<=\d) (?=%)|(?<=±) (?=\d)")
"""Where a line must not end: between a number and its sign."""


def write_report(folder: str | os.PathLike[str], results: FitResults | None = None, *, name: str | None = None) -> Path:
    """Write `report.html` into a folder that `gumdrop fit` left, from its results; it appears whole or not at all."""
    place = Path(folder)
    page = render(read_results(place) if results is None else results, folder=name or place.resolve().name)
    with replacing(place / "report.html") as file:
        file.write(page)
    return place / "report.html"


def render(results: FitResults, *, folder: str = "FOLDER") -> str:
    """The page as text that needs nothing from outside, with the folder in the command that uses it again."""
    if results.curves is not None:
        return TORN.sub(SPACE, known_in_part_page(results, folder))
    return TORN.sub(SPACE, template("report.html.j2").render(_view(results, folder)))


def _view(results: FitResults, folder: str) -> dict[str, object]:
    """Everything that the template names: the results, and what they come to."""
    test = TestRows(results)
    scores = scores_view(results, test)
    right, predictions = (predictions_view if test.regression else confusion_view)(results, test)
    return {
        **vars(results),
        "folder": folder,
        "within": within,
        "test": test,
        "regression": test.regression,
        "coverage": results.coverage,
        "compared": results.settings.get("compare", True),
        "members": results.num_members,
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
        "rates": rates_view(results),
        "training": training_view(results),
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
