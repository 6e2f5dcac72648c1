"""Make the page of a fit from its results alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gumdrop.machine.environment import in_words
from gumdrop.machine.files import replacing
from gumdrop.tables.results import FitResults, Ranking, Threshold, UncertainRow, read_results
from gumdrop.tables.schema.oddities import MEND
from gumdrop.views.html import template
from gumdrop.views.report.columns import columns_view
from gumdrop.views.report.predictions import confusion_view, predictions_view
from gumdrop.views.report.rows import SPACE, TestRows, auroc_interval, beside, number, percent, tenths, wilson
from gumdrop.views.report.scores import scores_view
from gumdrop.views.report.training import rates_view, training_view
from gumdrop.views.report.uncertainty import SMALL, calibration_view, uncertainty_view

__all__ = ["render", "write_report"]

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
    filters: dict[str, Callable[..., str]] = {
        "num": number,
        "beside": beside,
        "percent": percent,
        "tenths": tenths,
        "count": "{:,}".format,
        "told": in_words,
    }
    page = template("report.html.j2", **filters).render(_view(results, folder))
    return TORN.sub(SPACE, page)


def _view(results: FitResults, folder: str) -> dict[str, object]:
    """Everything that the template names: the results, and what they come to."""
    test = TestRows(results)
    predictions = predictions_view(results, test) if test.regression else confusion_view(results, test)
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
        "predictions": predictions,
        "between": wilson(predictions.right, test.rows),
        "held_gap": predictions.right / test.rows - results.coverage,
        "small": SMALL,
        "uncertainty": uncertainty_view(test),
        "uncertain": _uncertain(results, test),
        "rates": rates_view(results),
        "training": training_view(results),
        "ranking": _ranking(results.ranking, len(results.target.classes)),
        "columns": columns_view(results, test),
    }


@dataclass(frozen=True)
class CutView:
    """What it comes to if rows are taken for a class from a probability on, with 95 % intervals."""

    given: Threshold
    """The cut."""
    precision: tuple[float, float, float] | None
    """Share of the class among rows that are taken for it, and the ends of its interval; None where none are."""
    recall: tuple[float, float, float]
    """Share of the class that is found."""


@dataclass(frozen=True)
class RankingView:
    """How well the probability of a class ranks the rows, with its 95 % interval."""

    name: str
    """The class."""
    auroc: float
    """Area under the ROC curve."""
    low: float
    """Lower end of its interval."""
    high: float
    """Upper end of its interval."""
    share: float
    """Share of the class among the rows."""
    rarer: bool
    """Whether it is the rarer of two; else it is the commonest of more."""
    average_precision: float | None
    """Area under the curve of precision against recall."""
    cuts: list[CutView]
    """Where its probability may be cut."""


def _ranking(given: Ranking | None, num_classes: int) -> RankingView | None:
    if given is None:
        return None
    ends = auroc_interval(given.auroc, given.rows, given.other_rows)
    share, cuts = given.rows / (given.rows + given.other_rows), [_cut(each, given.rows) for each in given.thresholds]
    return RankingView(given.name, given.auroc, *ends, share, num_classes == 2, given.average_precision, cuts)


def _cut(given: Threshold, rows: int) -> CutView:
    precision = (given.found / given.flagged, *wilson(given.found, given.flagged)) if given.flagged else None
    return CutView(given, precision, (given.found / rows, *wilson(given.found, rows)))


@dataclass(frozen=True)
class UncertainView:
    """The rows of the largest epistemic uncertainty."""

    columns: list[str]
    """Names of the inputs."""
    rows: list[UncertainRow]
    """The rows."""
    shares: list[float | None]
    """For each row the epistemic share of its uncertainty; None where its numbers are not all known."""
    intervals: bool
    """Whether a row tells its interval."""


def _uncertain(results: FitResults, test: TestRows) -> UncertainView | None:
    given = results.uncertain
    if not given.rows:
        return None
    shares = dict(zip(test.columns["row"].astype(int).tolist(), test.epistemic.tolist(), strict=True))
    of_rows = [shares.get(row.row) for row in given.rows]
    return UncertainView(given.columns, given.rows, of_rows, any(row.interval for row in given.rows))
