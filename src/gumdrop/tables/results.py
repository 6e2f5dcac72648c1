"""What a fit of a table leaves to read: scores of the test part beside other models, calibration, rates, odd rows."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from gumdrop.machine.numerals import cell, readable
from gumdrop.metrics.scores import (
    accuracy,
    calibration_error,
    central_coverage,
    crps,
    interval_coverage,
    reliability,
    rmse,
)
from gumdrop.networks.rates import dropout_rates
from gumdrop.prediction import ClassificationPrediction, RegressionPrediction
from gumdrop.tables.model import TableModel
from gumdrop.tables.schema.schema import TableSchema
from gumdrop.training import EpochRecord

__all__ = ["OURS", "UNSKILLED", "Prediction", "mean_record", "named_rates", "rates_in_words", "shown", "test_results"]

OURS = "learned dropout"
UNSKILLED = {"regression": "mean of the training part", "classification": "class frequencies"}
"""The model of each task that does not look at the inputs."""
BINS = 10
"""Of stated confidence, for the figure and the error alike."""
GONE = 0.005
"""A rate below this drops nothing that shows."""
Prediction = RegressionPrediction | ClassificationPrediction


def test_results(
    model: TableModel, predictions: dict[str, Prediction], target: Tensor, tested: pd.DataFrame, inputs: pd.DataFrame
) -> dict[str, Any]:
    """Everything about the test part that the report is made of.

    Args:
        model: The model.
        predictions: Its prediction of the test part under the name `OURS`, and those of other models under theirs.
        target: Observed values in units of the target, or class indices.
        tested: The test part as it is written out.
        inputs: The rows of the table in the test part.

    Returns:
        Parts of `results.json`.
    """
    ours = predictions[OURS]
    return {
        "scores": [
            {"name": name, "ours": name == OURS, "values": _scores(each, target, model.coverage)}
            | _skill(name, each, predictions.get(UNSKILLED[model.schema.target.task]), target)
            for name, each in predictions.items()
        ],
        "paired": [
            {"name": name, "gains": _gains(ours, each, target)} for name, each in predictions.items() if name != OURS
        ],
        "score_notes": _score_notes(model),
        "ranking": _ranking(ours, target, model.schema.target.classes),
        "calibration": _calibration(ours, target),
        "test": _test_rows(model, tested),
        "rates_note": rates_in_words(named_rates(model), len(model.ensemble.members)),
        "unsure": _unsure_rows(inputs, model.schema, tested),
    }


def _scores(prediction: Prediction, target: Tensor, coverage: float) -> dict[str, float]:
    if isinstance(prediction, RegressionPrediction):
        scores = {
            "RMSE": rmse(prediction.mean, target),
            "CRPS": crps(prediction, target),
            "log likelihood": prediction.log_prob(target).mean(),
            f"coverage of {coverage:.0%} interval": interval_coverage(*prediction.interval(coverage), target),
        }
    else:
        scores = {
            "accuracy": accuracy(prediction.label, target),
            "log likelihood": prediction.log_prob(target).mean(),
            "calibration error": calibration_error(prediction, target, num_bins=BINS),
        }
    return {name: value.item() for name, value in scores.items()}


def _skill(name: str, each: Prediction, unskilled: Prediction | None, target: Tensor) -> dict[str, Any]:
    """Whether a model looks at the inputs, and what it gains by that."""
    if unskilled is None:
        return {}
    looks = name not in UNSKILLED.values()
    return {"unskilled": not looks, "skill": _gains(each, unskilled, target) if looks else None}


def _gains(ours: Prediction, other: Prediction, target: Tensor) -> dict[str, dict[str, float]]:
    """How much better than another model the mean row is, in each measure, with the standard error of the mean."""
    gains = {"log likelihood": ours.log_prob(target) - other.log_prob(target)}
    if isinstance(ours, RegressionPrediction):
        assert isinstance(other, RegressionPrediction)
        gains["distance"] = ((other.mean - target).abs() - (ours.mean - target).abs()).flatten()
    else:
        assert isinstance(other, ClassificationPrediction)
        gains["right"] = (ours.label == target).double() - (other.label == target).double()
    rows = len(target)
    return {
        name: {"mean": gain.mean().item(), "se": gain.double().std().item() / math.sqrt(rows) if rows > 1 else 0.0}
        for name, gain in gains.items()
    }


def _ranking(prediction: Prediction, target: Tensor, classes: Sequence[str]) -> dict[str, Any] | None:
    """How well the probability of a class ranks the rows: of the rarer one of two, of the commonest one of more."""
    counts = torch.bincount(target.flatten(), minlength=len(classes)) if classes else torch.zeros(0)
    if (counts > 0).sum() < 2:
        return None
    assert isinstance(prediction, ClassificationPrediction)
    which = int(counts.argmin() if len(classes) == 2 else counts.argmax())
    auroc = roc_auc_score(target == which, prediction.log_probabilities[:, which])
    rows = int(counts[which])
    return {"class": classes[which], "auroc": float(auroc), "rows": rows, "other_rows": len(target) - rows}


def _score_notes(model: TableModel) -> dict[str, str]:
    if not model.is_regression:
        return {
            "accuracy": "share of test rows whose most probable class is right; higher is better",
            "log likelihood": "log of the probability given to the true class, its mean over the draws, in nats "
            "per row; higher is better",
            "calibration error": "mean gap between stated probability and share of right answers; lower is better",
        }
    unit = f"in {model.unit or f'units of {model.schema.target.name}'}"
    coverage, mixture = model.coverage, f"of this model an equal mixture of {model.num_samples} Gaussians"
    return {
        "RMSE": f"typical error of the prediction, {unit}; lower is better",
        "CRPS": f"error of the whole predicted distribution, {mixture}, {unit}; lower is better",
        "log likelihood": "log density that this mixture gives to the observed value, in nats per row (it depends on "
        "the unit); higher is better",
        f"coverage of {coverage:.0%} interval": f"share of test rows inside their interval; should be {coverage:.0%}",
    }


def _calibration(prediction: Prediction, target: Tensor) -> dict[str, list[float]]:
    if isinstance(prediction, RegressionPrediction):
        levels = torch.arange(5, 100, 5) / 100
        return {"expected": levels.tolist(), "observed": central_coverage(prediction, target, levels).tolist()}
    bins = reliability(prediction, target, num_bins=BINS)
    return {
        "expected": bins.confidence.tolist(),
        "observed": bins.accuracy.tolist(),
        "count": bins.num_rows.tolist(),
    }


def _test_rows(model: TableModel, table: pd.DataFrame) -> dict[str, Any]:
    columns = {"row": "row", "observed": "observed"}
    if model.is_regression:
        columns |= {"mean": "prediction", "lower": "lower", "upper": "upper"}
        columns |= {"epistemic_std": "epistemic_std", "aleatoric_std": "aleatoric_std"}
        return {key: table[name].tolist() for key, name in columns.items()}
    columns |= {"predicted": "prediction", "probability": "probability"}
    columns |= {"predictive_entropy": "predictive_entropy", "mutual_information": "mutual_information"}
    rows = {key: table[name].tolist() for key, name in columns.items()}
    return rows | {"observed": [str(value) for value in rows["observed"]]}


def _unsure_rows(inputs: pd.DataFrame, schema: TableSchema, table: pd.DataFrame) -> dict[str, Any]:
    """The ten test rows that the model knows least about, with their inputs."""
    regression = schema.target.task == "regression"
    measure = "epistemic_std" if regression else "mutual_information"
    order = np.argsort(-table[measure].to_numpy(), kind="stable")[:10]
    rows = []
    for place in order:
        found = table.iloc[place]
        row = {
            "row": int(found["row"]),
            "values": [shown(value) for value in inputs.iloc[place][schema.names]],
            "observed": cell(float(found["observed"])) if regression else str(found["observed"]),
            "predicted": readable(float(found["prediction"])) if regression else str(found["prediction"]),
            "epistemic": float(found[measure]),
        }
        ends = [readable(float(found[end])) for end in ("lower", "upper")] if regression else []
        row["interval"] = " to ".join(ends) or f"{found['probability']:.0%}"
        rows.append(row)
    return {"columns": schema.names, "rows": rows}


def shown(value: object) -> str:
    """A cell as a reader sees it; empty if it is missing."""
    if pd.isna(value):  # type: ignore[call-overload]
        return ""
    return cell(float(value)) if isinstance(value, numbers.Real) and not isinstance(value, bool) else str(value)


def named_rates(model: TableModel) -> list[dict[str, Any]]:
    """Learned rate of each layer.

    Args:
        model: The model.

    Returns:
        For each layer its place in the network, a label, and the rate: mean over the members, least and most.
    """
    members = [dropout_rates(member) for member in model.ensemble.members]
    rates = []
    for i, site in enumerate(members[0]):
        features = model.schema.num_features
        inputs = f"input ({features} encoded feature{'s' if features != 1 else ''})"
        label = f"hidden layer {i} ({model.hidden[i - 1]} units)" if i else inputs
        p = [float(member[site]) for member in members]
        rates.append({"site": site, "label": label, "p": float(np.mean(p)), "least": min(p), "most": max(p)})
    return rates


def rates_in_words(rates: Sequence[dict[str, Any]], num_members: int) -> str:
    """What it means that rates have gone to 0.

    Args:
        rates: As `named_rates` returns them.
        num_members: Networks of the model.

    Returns:
        A sentence or two; empty if no rate has gone to 0 in all networks.
    """
    gone = [rate["label"] for rate in rates if rate["most"] < GONE]
    if not gone:
        return ""
    if len(gone) < len(rates):
        none = "nothing is dropped there, which adds nothing to the epistemic part"
        rates_have = f"rate of {gone[0]} has" if len(gone) == 1 else f"rates of {' and '.join(gone)} have"
        return f"The {rates_have} gone to 0: {none}."
    left = (
        f"The epistemic part of the uncertainty is only how the {num_members} networks differ"
        if num_members > 1
        else "The epistemic part of the uncertainty is 0 for every row, and says nothing of what is unfamiliar"
    )
    return f"No dropout is left: every learned rate has gone to 0, so each network always gives one answer. {left}."


def mean_record(records: Sequence[EpochRecord]) -> dict[str, Any]:
    """What one epoch did, as the mean over the members.

    Args:
        records: That of each member.

    Returns:
        The fields of a record.
    """
    mean = dataclasses.asdict(records[0])
    for name in ("nll", "kl", "validation_nll"):
        values = [getattr(record, name) for record in records]
        mean[name] = None if None in values else float(np.mean(values))
    mean["rates"] = {site: float(np.mean([record.rates[site] for record in records])) for site in records[0].rates}
    return mean
