"""Make the page of a fit from its results alone."""

import os
import re
from pathlib import Path

from gumdrop.machine.files import replacing
from gumdrop.tables.errors import MEND
from gumdrop.tables.results import FitResults, Ranking, Threshold, read_results
from gumdrop.views.html import SPACE, template
from gumdrop.views.report.columns import columns_view
from gumdrop.views.report.known_in_part import known_in_part_page
from gumdrop.views.report.predictions import confusion_view, predictions_view
from gumdrop.views.report.rows import TestRows, auroc_interval, wilson
from gumdrop.views.report.scores import scores_view
from gumdrop.views.report.training import rates_view, training_view
from gumdrop.views.report.uncertainty import SMALL, calibration_view, uncertainty_view

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
    right, predictions = (predictions_view if test.regression else confusion_view)(results, test)
    return {
        **vars(results),
        "folder": folder,
        "test": test,
        "regression": test.regression,
        "coverage": results.coverage,
        "compared": results.settings.get("compare", True),
        "members": results.num_members,
        "draws": results.num_samples,
        "unit": results.target.unit,
        "watched": " or ".join(f"{count:,}" for count in sorted(set(results.table.watched_rows))),
        "odd": [note for note in results.notes if note.endswith(MEND)],
        "scores": scores_view(results, test),
        "calibration": calibration_view(results, test),
        "predictions": predictions | {"right": right},
        "between": wilson(right, test.rows),
        "held_gap": right / test.rows - results.coverage,
        "small": SMALL,
        "uncertainty": uncertainty_view(test),
        "uncertain": _uncertain(results, test),
        "rates": rates_view(results),
        "training": training_view(results),
        "ranking": _ranking(results.ranking, len(results.target.classes)),
        "columns": columns_view(results, test),
    }


def _ranking(given: Ranking | None, num_classes: int) -> dict[str, object] | None:
    """How well the probability of a class ranks the rows, and what cuts of it come to, with 95 % intervals."""
    if given is None:
        return None
    low, high = auroc_interval(given.auroc, given.rows, given.other_rows)
    return {
        **vars(given),
        "low": low,
        "high": high,
        "share": given.rows / (given.rows + given.other_rows),
        "rarer": num_classes == 2,  # else it is the commonest of more
        "cuts": [_cut(each, given.rows) for each in given.thresholds],
    }


def _cut(given: Threshold, rows: int) -> dict[str, object]:
    """Shares of right ones among rows that are taken for the class, None where none are, and of rows of the class."""
    precision = (given.found / given.flagged, *wilson(given.found, given.flagged)) if given.flagged else None
    return {"given": given, "precision": precision, "recall": (given.found / rows, *wilson(given.found, rows))}


def _uncertain(results: FitResults, test: TestRows) -> dict[str, object] | None:
    """The rows of the largest epistemic uncertainty, with its share; None where a row's numbers are not all known."""
    given = results.uncertain
    if not given.rows:
        return None
    shares = dict(zip(test.columns["row"].astype(int).tolist(), test.epistemic.tolist(), strict=True))
    of_rows = [shares.get(row.row) for row in given.rows]
    return {**vars(given), "shares": of_rows, "intervals": any(row.interval for row in given.rows)}
