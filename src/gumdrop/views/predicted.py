"""The pages of `gumdrop predict` and `gumdrop evaluate`: what is predicted of a table, and how near it comes."""

from numbers import Real
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from gumdrop.likelihoods import ClassificationPrediction
from gumdrop.machine.numerals import readable
from gumdrop.machine.picking import evenly
from gumdrop.metrics import reliability
from gumdrop.tables.model import ODD, TableModel
from gumdrop.tables.prediction import Predicted
from gumdrop.tables.results import FitResults
from gumdrop.tables.scoring import shown
from gumdrop.views import plots
from gumdrop.views.html import SPACE, Tile, number, percent, with_unit, write
from gumdrop.views.info import scores_beside
from gumdrop.views.svg import picture

MOST = 20
"""Rows of the largest epistemic uncertainty that the page quotes."""
MIDDLE = (0.1, 0.5, 0.9)
KEY = "Orange: epistemic, for want of training rows like it. Blue: aleatoric, what the model takes for noise."

View = tuple[np.ndarray, dict[str, object]]
"""The epistemic share of the uncertainty of each row, shape (N,), and what else the page shows of them."""


def write_predictions(model: TableModel, predicted: Predicted, table: pd.DataFrame, path: Path, *, name: str) -> None:
    """Write predictions as a page."""
    target, frame = model.schema.target, predicted.frame
    share, view = {"regression": _numbers, "classification": _classes}[target.task](model, frame)
    columns = [*model.schema.carried(table), *model.schema.names, *([target.name] if target.name in table else [])]
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
        path, "predict.html.j2", **view, predicted=predicted, target=target.name, name=name, columns=columns, rows=rows
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
    counts = plots.distribution(guess, name=f"predicted {with_unit(name, model.unit)}")
    intervals = plots.sorted_intervals(guess, lower, upper, name=name)
    parts = plots.uncertainty_parts(share * std, std - share * std, label=with_unit("SD", model.unit))
    ascending = f"Predictions in ascending order, with their {interval}s."
    split = f"The standard deviation of each row, split as its variance is. {KEY}"
    pictures = [
        picture(counts, "distribution", "Predictions", "How many rows have which prediction."),
        picture(intervals, "intervals", "Sorted predictions", ascending),
        picture(parts, "parts", "Parts of the uncertainty", split),
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
    classes = plots.frequencies([*map(str, counts.index)], counts.tolist())
    chances = plots.distribution(sure, name="probability of the predicted class", shares=True)
    parts = plots.uncertainty_parts(information, entropy - information, label="predictive entropy (nats)")
    probable = "How probable the predicted class is: on the right the surest."
    pictures = [
        picture(classes, "distribution", "Predicted classes", "How many rows are predicted to be of which class."),
        picture(chances, "sure", "Probabilities", probable),
        picture(parts, "parts", "Parts of the uncertainty", f"The predictive entropy of each row. {KEY}"),
    ]
    heads = {"gives": "a probability for each class", "beside": "probability", "scale": "in nats"}
    return information / np.maximum(entropy, 1e-300), {"shown": tiles, "pictures": pictures, **heads}


def _middle(values: np.ndarray, what: str, unit: str) -> Tile:
    low, middle, high = (number(value) for value in np.quantile(values, MIDDLE))
    return Tile(f"{middle} {unit}".strip(), what, f"{low} to {high} for the middle 80{SPACE}%")


def _epistemic(part: np.ndarray, whole: np.ndarray, what: str) -> Tile:
    share = float(part.sum() / max(whole.sum(), 1e-300))
    return Tile(percent(share), "of the uncertainty is epistemic", f"as a share of the {what}; the rest is noise")


Surprise = tuple[np.ndarray, list[str], dict[str, object]]
"""How unexpected the observed value of each row is, shape (N,), the same in words, and what else the page shows."""


def write_evaluation(
    model: TableModel,
    predicted: Predicted,
    table: pd.DataFrame,
    rows: np.ndarray,
    path: Path,
    *,
    name: str,
    fitted: FitResults | None,
) -> None:
    """Write the scores of ``rows``, numbered from 1, of a table as a page."""
    assert predicted.evaluation is not None, "the target is known"
    target, scores = model.schema.target, scores_beside(predicted.evaluation, fitted)
    make = _known_in_part if target.known else _known_numbers if target.task == "regression" else _known_classes
    surprise, words, view = make(model, predicted.frame, table)
    tiles = [
        Tile(number(value), score, "" if was is None else f"{number(was)} on the test part of the fit")
        for score, value, was in scores[:3]
    ]
    worst = np.argsort(-surprise, kind="stable")[:MOST].tolist()
    view |= {"rows": [(int(rows[i]), *_row(model, table.iloc[i], predicted.frame.iloc[i], words[i])) for i in worst]}
    columns = [*model.schema.carried(table), *model.schema.names]
    view |= {"target": target.name, "name": name, "columns": columns, "predicted": predicted}
    write(path, "evaluate.html.j2", **view, fitted=fitted, scores=scores, shown=tiles)


def _row(model: TableModel, cells: pd.Series, predicted: pd.Series, surprise: str) -> tuple[object, ...]:
    """A row of the table as the page shows it: what was observed and predicted, how far that is off, the inputs."""
    known = cells[model.schema.target.name]
    observed = readable(float(known)) if isinstance(known, Real) else shown(known)
    inputs = [shown(cells[name]) for name in (*model.schema.carried(cells.index), *model.schema.names)]
    return observed, *model.task.words(predicted), surprise, inputs


def _observed(model: TableModel, table: pd.DataFrame) -> np.ndarray:
    """Values in units of the target, or class indices, shape (N,)."""
    target = model.schema.target.name
    return model.task.observed(model.schema.encode_target(table), table[target]).numpy().reshape(-1)


def _known_numbers(model: TableModel, frame: pd.DataFrame, table: pd.DataFrame) -> Surprise:
    """Numbers: how far the observed ones are off, in standard deviations."""
    name = model.schema.target.name
    truth = _observed(model, table)
    guess, std, lower, upper = (frame[column].to_numpy(float) for column in ("prediction", "std", "lower", "upper"))
    error = np.abs(truth - guess)
    off = error / np.maximum(std, 1e-300)
    pick = evenly(len(truth), 300)
    values = plots.predicted_against_observed(*(a[pick] for a in (truth, guess, lower, upper)), name=name)
    groups = plots.error_by_uncertainty(std, error, expected=std, label="RMSE")
    inside = (lower <= truth) & (truth <= upper)
    some = f"; {len(pick):,} of {len(truth):,} are drawn" if len(pick) < len(truth) else ""
    outside = (
        f"Each point is a row{some}. Orange: {percent(1 - inside.mean())} of the values lie outside their interval, "
        f"where {percent(1 - model.coverage)} should."
    )
    expected = "Rows in equal groups, from the surest to the least sure. Orange: the error that the model expects."
    pictures = [
        picture(values, "predictions", "Predicted against observed values, with intervals", outside),
        picture(groups, "groups", "Error from the surest to the least sure rows", expected),
    ]
    heads = {"beside": f"interval ({percent(model.coverage)})", "measure": "standard deviations off"}
    return off, [number(deviations, 2) for deviations in off], {"pictures": pictures, **heads}


def _known_in_part(model: TableModel, frame: pd.DataFrame, table: pd.DataFrame) -> Surprise:
    """Numbers that are known in part: how far the median is from what is known, as a share of the interval."""
    name = model.schema.target.name
    known = model.task.observed(model.schema.encode_target(table), table[name]).numpy()
    guess, lower, upper = (frame[column].to_numpy(float) for column in ("prediction", "lower", "upper"))
    short, over = np.maximum(known[:, 0] - guess, 0), np.maximum(guess - known[:, 1], 0)
    off = short / np.maximum(upper - guess, 1e-300) + over / np.maximum(guess - lower, 1e-300)
    intervals = plots.sorted_intervals(guess, lower, upper, name=name)
    said = f"Medians with their intervals ({percent(model.coverage)}), from the smallest median on."
    pictures = [picture(intervals, "intervals", "Intervals of the rows", said)]
    heads = {"beside": f"interval ({percent(model.coverage)})", "measure": "off, as a share of half the interval"}
    return off, [number(share, 2) for share in off], {"pictures": pictures, **heads}


def _known_classes(model: TableModel, frame: pd.DataFrame, table: pd.DataFrame) -> Surprise:
    """Classes: how probable the observed ones were."""
    names = model.schema.target.classes
    observed = torch.tensor(_observed(model, table))
    p = torch.tensor(frame[[f"p({label})" for label in names]].to_numpy(float))
    chance = p.gather(1, observed.unsqueeze(1)).squeeze(1).numpy()
    truth, guess = [names[k] for k in observed.tolist()], frame["prediction"].tolist()
    right = np.array(guess) == np.array(truth)
    bins = reliability(ClassificationPrediction.from_log_probabilities(p.log()), observed, num_bins=10)
    cells = plots.confusion(truth, guess, names)
    discs = plots.reliability(*(values.numpy() for values in bins))
    blue = f"Blue: the {percent(right.mean())} of the rows that are predicted right. Orange: mistakes."
    diagonal = "Rows by the probability of their predicted class. On the diagonal it can be taken at its word."
    pictures = [
        picture(cells, "predictions", "True class against predicted class", blue),
        picture(discs, "calibration", "Stated against actual reliability", diagonal),
    ]
    heads = {"beside": "probability", "measure": "probability of the observed class"}
    return -chance, list(map(percent, chance)), {"pictures": pictures, **heads}
