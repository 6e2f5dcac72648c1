"""The page of `gumdrop predict`: what is predicted of a table, and how sure of it the model is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from gumdrop.machine.files import replacing
from gumdrop.tables.model import ODD, TableModel
from gumdrop.tables.prediction import Predicted
from gumdrop.tables.scoring import shown
from gumdrop.views import plots
from gumdrop.views.html import template
from gumdrop.views.report.rows import SPACE, number, percent
from gumdrop.views.svg import svg

__all__ = ["MOST", "Picture", "Tile", "write_page"]

MOST = 20
"""Rows of the largest epistemic uncertainty that the page quotes."""
MIDDLE = (0.1, 0.5, 0.9)
KEY = "Orange: epistemic, for want of training rows like it. Blue: aleatoric, what the model takes for noise."


@dataclass(frozen=True)
class Tile:
    """A number that the page begins with."""

    value: str
    """The number."""
    what: str
    """What it is."""
    note: str
    """What else there is to say of it."""


@dataclass(frozen=True)
class Picture:
    """A figure of the page."""

    svg: Markup
    """The figure."""
    see: str
    """What a reader sees in it."""


@dataclass(frozen=True, eq=False)
class View:
    """What the page shows of N predictions."""

    tiles: list[Tile]
    """Numbers that it begins with."""
    pictures: list[Picture]
    """Figures."""
    share: np.ndarray
    """Epistemic share of the uncertainty of each row, of its variance or its entropy, shape (N,)."""


@dataclass(frozen=True)
class UncertainRow:
    """A row of a large epistemic uncertainty, as a reader sees it."""

    row: int
    """Number in the table, from 1."""
    predicted: str
    """The prediction."""
    beside: str
    """Its interval, or its probability."""
    epistemic: float
    """Epistemic part of its uncertainty: a standard deviation, or mutual information in nats."""
    share: float
    """Share of that in all of it."""
    odd: int
    """Cells that are missing, or that training did not have."""
    values: list[str]
    """Its inputs, and the target where the table holds it."""


def write_page(model: TableModel, predicted: Predicted, table: pd.DataFrame, place: Path, *, name: str) -> None:
    """Write predictions as a page that needs nothing from outside."""
    target = model.schema.target
    regression = target.task == "regression"
    view = (_numbers if regression else _classes)(model, predicted.frame)
    columns = [*model.schema.names, *([target.name] if target.name in table else [])]
    text = template("predict.html.j2", num=number, percent=percent, count="{:,}".format).render(
        view=view,
        predicted=predicted,
        target=target.name,
        unit=model.unit,
        regression=regression,
        coverage=model.coverage,
        name=name,
        columns=columns,
        rows=_uncertain(model, view, predicted.frame, table[columns]),
    )
    with replacing(place) as file:
        file.write(text)


def _numbers(model: TableModel, frame: pd.DataFrame) -> View:
    """Predicted numbers, their intervals, and their variances."""
    guess, lower, upper = (frame[name].to_numpy(dtype=float) for name in ("prediction", "lower", "upper"))
    epistemic, aleatoric = (frame[f"{name}_std"].to_numpy(dtype=float) for name in ("epistemic", "aleatoric"))
    variance, std = epistemic**2 + aleatoric**2, np.hypot(epistemic, aleatoric)
    share = epistemic**2 / np.maximum(variance, 1e-300)
    name, interval = model.schema.target.name, f"{percent(model.coverage)} interval"
    tiles = [
        _middle(guess, "median prediction", model.unit),
        _middle(upper - lower, f"median width of the {interval}", model.unit),
        _epistemic(epistemic**2, variance, "variance"),
    ]
    unit = f" ({model.unit})" if model.unit else ""
    parts = plots.uncertainty_parts(share * std, std - share * std, label=f"SD{unit}")
    pictures = [
        Picture(
            svg(plots.distribution(guess, name=f"predicted {name}{unit}"), "distribution", "Predictions"),
            "How many rows have which prediction.",
        ),
        Picture(
            svg(plots.sorted_intervals(guess, lower, upper, name=name), "intervals", "Sorted predictions"),
            f"Predictions in ascending order, with their {interval}s.",
        ),
        Picture(
            svg(parts, "parts", "Parts of the uncertainty"),
            f"The standard deviation of each row, split as its variance is. {KEY}",
        ),
    ]
    return View(tiles, pictures, share)


def _classes(model: TableModel, frame: pd.DataFrame) -> View:
    """Predicted classes, their probabilities, and their entropies."""
    names = ("probability", "predictive_entropy", "mutual_information")
    sure, entropy, information = (frame[name].to_numpy(dtype=float) for name in names)
    counts = frame["prediction"].value_counts()
    low, middle, high = (percent(share) for share in np.quantile(sure, MIDDLE))
    usual = f"{percent(counts.iloc[0] / len(frame))} of the rows"
    tiles = [
        Tile(str(counts.index[0]), "most frequent prediction", usual),
        Tile(middle, "median probability", f"{low} to {high} for the middle 80{SPACE}%"),
        _epistemic(information, entropy, "entropy"),
    ]
    chances = plots.distribution(sure, name="probability of the predicted class", shares=True)
    parts = plots.uncertainty_parts(information, entropy - information, label="predictive entropy (nats)")
    pictures = [
        Picture(
            svg(plots.frequencies([*map(str, counts.index)], counts.tolist()), "distribution", "Predicted classes"),
            "How many rows are predicted to be of which class.",
        ),
        Picture(svg(chances, "sure", "Probabilities"), "How probable the predicted class is: on the right the surest."),
        Picture(svg(parts, "parts", "Parts of the uncertainty"), f"The predictive entropy of each row. {KEY}"),
    ]
    return View(tiles, pictures, information / np.maximum(entropy, 1e-300))


def _middle(values: np.ndarray, what: str, unit: str) -> Tile:
    low, middle, high = (number(value) for value in np.quantile(values, MIDDLE))
    return Tile(f"{middle} {unit}".strip(), what, f"{low} to {high} for the middle 80{SPACE}%")


def _epistemic(part: np.ndarray, whole: np.ndarray, what: str) -> Tile:
    share = float(part.sum() / max(whole.sum(), 1e-300))
    return Tile(percent(share), "of the uncertainty is epistemic", f"as a share of the {what}; the rest is noise")


def _uncertain(model: TableModel, view: View, frame: pd.DataFrame, inputs: pd.DataFrame) -> list[UncertainRow]:
    """The rows of the largest epistemic uncertainty."""
    measure = frame[model.task.epistemic].to_numpy(dtype=float)
    odd = frame[list(ODD.values())].sum(axis=1)
    rows = []
    for i in np.argsort(-measure, kind="stable")[:MOST].tolist():
        predicted, beside = model.task.words(frame.iloc[i])
        values = [shown(value) for value in inputs.iloc[i]]
        rows.append(UncertainRow(i + 1, predicted, beside, measure[i], view.share[i], int(odd.iloc[i]), values))
    return rows
