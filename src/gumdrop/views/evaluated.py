"""The page of `gumdrop evaluate`: scores of a table that holds the target, and where its rows surprise the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from gumdrop.likelihoods import ClassificationPrediction
from gumdrop.machine.files import replacing
from gumdrop.machine.numerals import readable
from gumdrop.metrics import reliability
from gumdrop.tables.model import TableModel
from gumdrop.tables.prediction import Predicted
from gumdrop.tables.results import FitResults
from gumdrop.tables.scoring import shown
from gumdrop.views import plots
from gumdrop.views.html import template
from gumdrop.views.info import fitted_scores, ranked
from gumdrop.views.predicted import MOST, Picture, Tile
from gumdrop.views.report.rows import number, percent
from gumdrop.views.svg import svg

__all__ = ["write_page"]

TILES = 3
"""Scores that the page begins with."""
BINS = 10
DRAWN = 300
"""Rows in a figure of single rows, at most."""


@dataclass(frozen=True, eq=False)
class View:
    """What the page shows of N rows."""

    pictures: list[Picture]
    """Figures."""
    surprise: np.ndarray
    """How unexpected the observed value of each row is, shape (N,)."""
    words: list[str]
    """The same as a reader sees it."""


@dataclass(frozen=True)
class SurprisingRow:
    """A row whose target the model did not expect, as a reader sees it."""

    row: int
    """Number in the table, from 1."""
    observed: str
    """What the table holds."""
    predicted: str
    """The prediction."""
    beside: str
    """Its interval, or its probability."""
    surprise: str
    """How unexpected the observed value is."""
    values: list[str]
    """Its inputs."""


def write_page(
    model: TableModel,
    predicted: Predicted,
    table: pd.DataFrame,
    rows: np.ndarray,
    place: Path,
    *,
    name: str,
    fitted: FitResults | None,
    notes: Sequence[str],
) -> None:
    """Write the scores of ``rows``, numbered from 1, of a table as a page that needs nothing from outside."""
    evaluation, schema = predicted.evaluation, model.schema
    assert evaluation is not None, "the target is known"
    regression = schema.target.task == "regression"
    before = fitted_scores(fitted)
    view = (_numbers if regression else _classes)(model, predicted.frame, table)
    scores = evaluation.scores | ranked(evaluation.ranking)
    text = template("evaluate.html.j2", num=number, percent=percent).render(
        target=schema.target.name,
        name=name,
        count=f"{evaluation.rows:,}",
        fitted_rows=f"{fitted.table.test_rows:,}" if fitted else "",
        scores=[(score, value, before.get(score)) for score, value in scores.items()],
        meanings=evaluation.meanings,
        shown=[_tile(score, value, before.get(score)) for score, value in list(scores.items())[:TILES]],
        drift=predicted.drift,
        pictures=view.pictures,
        beside=f"interval ({percent(model.coverage)})" if regression else "probability",
        measure="standard deviations off" if regression else "probability of the observed class",
        columns=schema.names,
        rows=_surprising(model, predicted.frame, table, rows, view),
        notes=notes,
    )
    with replacing(place) as file:
        file.write(text)


def _tile(score: str, value: float | None, before: float | None) -> Tile:
    return Tile(number(value, 4), score, "" if before is None else f"{number(before, 4)} on the test part of the fit")


def _observed(model: TableModel, table: pd.DataFrame) -> np.ndarray:
    """Values in units of the target, or class indices, shape (N,)."""
    target = model.schema.target.name
    return model.task.observed(model.schema.encode_target(table), table[target]).numpy().reshape(-1)


def _numbers(model: TableModel, frame: pd.DataFrame, table: pd.DataFrame) -> View:
    """Numbers: how far the observed ones are off, in standard deviations."""
    name = model.schema.target.name
    truth = _observed(model, table)
    guess, std, lower, upper = (frame[each].to_numpy(float) for each in ("prediction", "std", "lower", "upper"))
    error = np.abs(truth - guess)
    off = error / np.maximum(std, 1e-300)
    pick = plots.evenly(len(truth), DRAWN)
    values = plots.predicted_against_observed(*(each[pick] for each in (truth, guess, lower, upper)), name=name)
    errors = plots.error_by_uncertainty(std, error, expected=std, label="typical error (RMSE)")
    inside = (lower <= truth) & (truth <= upper)
    some = f"; {len(pick):,} of {len(truth):,} are drawn" if len(pick) < len(truth) else ""
    pictures = [
        Picture(
            svg(values, "predictions", "Predicted against observed values, with intervals"),
            f"Each point is a row{some}. Orange: {percent(1 - inside.mean())} of the values lie outside their "
            f"interval, where {percent(1 - model.coverage)} should.",
        ),
        Picture(
            svg(errors, "groups", "Error from the surest to the least sure rows"),
            "Rows in equal groups, from the surest to the least sure. Orange: the error that the model expects.",
        ),
    ]
    return View(pictures, off, [number(each, 2) for each in off])


def _classes(model: TableModel, frame: pd.DataFrame, table: pd.DataFrame) -> View:
    """Classes: how probable the observed ones were."""
    names = model.schema.target.classes
    observed = torch.tensor(_observed(model, table))
    p = torch.tensor(frame[[f"p({label})" for label in names]].to_numpy(float))
    chance = p.gather(1, observed.unsqueeze(1)).squeeze(1).numpy()
    truth, guess = [names[k] for k in observed.tolist()], frame["prediction"].tolist()
    right = np.array(guess) == np.array(truth)
    bins = reliability(ClassificationPrediction.from_log_probabilities(p.log()), observed, num_bins=BINS)
    pictures = [
        Picture(
            svg(plots.confusion(truth, guess, names), "predictions", "True class against predicted class"),
            f"Blue: the {percent(right.mean())} of the rows that are predicted right. Orange: mistakes.",
        ),
        Picture(
            svg(
                plots.reliability(*(each.numpy() for each in bins)), "calibration", "Stated against actual reliability"
            ),
            "Rows by the probability of their predicted class. On the diagonal it can be taken at its word.",
        ),
    ]
    return View(pictures, -chance, [percent(each) for each in chance])


def _surprising(
    model: TableModel, frame: pd.DataFrame, table: pd.DataFrame, rows: np.ndarray, view: View
) -> list[SurprisingRow]:
    """The rows that surprise most."""
    found = []
    for i in np.argsort(-view.surprise, kind="stable")[:MOST].tolist():
        predicted, beside = model.task.words(frame.iloc[i])
        observed = table[model.schema.target.name].iloc[i]
        text = shown(observed) if isinstance(observed, str) else readable(float(observed))
        values = [shown(value) for value in table[model.schema.names].iloc[i]]
        found.append(SurprisingRow(int(rows[i]), text, predicted, beside, view.words[i], values))
    return found
