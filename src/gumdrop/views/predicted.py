"""The page of `gumdrop predict`: what is predicted of a table, and how sure of it the model is."""

from pathlib import Path

import numpy as np
import pandas as pd

from gumdrop.tables.model import ODD, TableModel
from gumdrop.tables.prediction import Predicted
from gumdrop.tables.scoring import shown
from gumdrop.views import plots
from gumdrop.views.html import SPACE, Picture, Tile, number, percent, write
from gumdrop.views.svg import svg

MOST = 20
"""Rows of the largest epistemic uncertainty that the page quotes."""
MIDDLE = (0.1, 0.5, 0.9)
KEY = "Orange: epistemic, for want of training rows like it. Blue: aleatoric, what the model takes for noise."

View = tuple[np.ndarray, dict[str, object]]
"""The epistemic share of the uncertainty of each row, shape (N,), and what else the page shows of them."""


def write_page(model: TableModel, predicted: Predicted, table: pd.DataFrame, place: Path, *, name: str) -> None:
    """Write predictions as a page."""
    target, frame = model.schema.target, predicted.frame
    share, view = {"regression": _numbers, "classification": _classes}[target.task](model, frame)
    columns = [*model.schema.names, *([target.name] if target.name in table else [])]
    measure = frame[model.task.epistemic].to_numpy(dtype=float)
    odd = frame[list(ODD.values())].sum(axis=1)
    rows = [
        (
            i + 1,
            *model.task.words(frame.iloc[i]),
            measure[i],
            share[i],
            int(odd.iloc[i]),
            [shown(value) for value in table[columns].iloc[i]],
        )
        for i in np.argsort(-measure, kind="stable")[:MOST].tolist()
    ]
    write(
        place, "predict.html.j2", **view, predicted=predicted, target=target.name, name=name, columns=columns, rows=rows
    )


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
    heads = {"beside": f"interval ({percent(model.coverage)})", "scale": f"± in {model.unit or 'units of the target'}"}
    return share, {"shown": tiles, "pictures": pictures, "gives": f"a {interval}", **heads}


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
    heads = {"gives": "a probability for each class", "beside": "probability", "scale": "in nats"}
    return information / np.maximum(entropy, 1e-300), {"shown": tiles, "pictures": pictures, **heads}


def _middle(values: np.ndarray, what: str, unit: str) -> Tile:
    low, middle, high = (number(value) for value in np.quantile(values, MIDDLE))
    return Tile(f"{middle} {unit}".strip(), what, f"{low} to {high} for the middle 80{SPACE}%")


def _epistemic(part: np.ndarray, whole: np.ndarray, what: str) -> Tile:
    share = float(part.sum() / max(whole.sum(), 1e-300))
    return Tile(percent(share), "of the uncertainty is epistemic", f"as a share of the {what}; the rest is noise")
