"""The test part of a fit: scores beside other models, calibration, and the rows of the largest uncertainty."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
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
from gumdrop.prediction import ClassificationPrediction, RegressionPrediction
from gumdrop.tables.model import TableModel
from gumdrop.tables.results import (
    Better,
    Calibration,
    ClassificationRows,
    Comparison,
    Gain,
    Ranking,
    RegressionRows,
    Score,
    UncertainRow,
    UncertainRows,
)
from gumdrop.tables.schema.schema import TableSchema
from gumdrop.training import EpochRecord

__all__ = ["OURS", "UNSKILLED", "Prediction", "TestPart", "mean_record", "shown", "test_part"]

OURS = "learned dropout"
UNSKILLED = {"regression": "mean of the training part", "classification": "class frequencies"}
"""The model of each task that does not look at the inputs."""
BINS = 10
"""Of stated confidence, for the figure and the error alike."""
Prediction = RegressionPrediction | ClassificationPrediction


@dataclass(frozen=True, kw_only=True)
class TestPart:
    """What `FitResults` holds of the test part, under the same names."""

    scores: list[Score]
    paired: list[Comparison]
    score_notes: dict[str, str]
    score_directions: dict[str, Better]
    ranking: Ranking | None
    calibration: Calibration
    test: RegressionRows | ClassificationRows
    uncertain: UncertainRows


def test_part(
    model: TableModel, predictions: dict[str, Prediction], target: Tensor, tested: pd.DataFrame, inputs: pd.DataFrame
) -> TestPart:
    """Score the test part, and gather its rows.

    Args:
        model: The model.
        predictions: Its prediction of the test part under the name `OURS`, and those of other models under theirs.
        target: Observed values in units of the target, or class indices.
        tested: The test part as it is written out.
        inputs: The rows of the table in the test part.

    Returns:
        What the results hold of it.
    """
    ours = predictions[OURS]
    unskilled = UNSKILLED[model.schema.target.task]
    return TestPart(
        scores=[
            Score(
                name=name,
                ours=name == OURS,
                values=_scores(each, target, model.coverage),
                unskilled=name == unskilled,
                skill=None if name == unskilled else _gains(each, predictions[unskilled], target),
            )
            for name, each in predictions.items()
        ],
        paired=[Comparison(name, _gains(ours, each, target)) for name, each in predictions.items() if name != OURS],
        score_notes=_score_notes(model),
        score_directions=_score_directions(model),
        ranking=_ranking(ours, target, model.schema.target.classes),
        calibration=_calibration(ours, target),
        test=_test_rows(model, tested),
        uncertain=_uncertain_rows(inputs, model.schema, tested),
    )


def _scores(prediction: Prediction, target: Tensor, coverage: float) -> dict[str, float | None]:
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


def _gains(ours: Prediction, other: Prediction, target: Tensor) -> dict[str, Gain]:
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
        name: Gain(gain.mean().item(), gain.double().std().item() / math.sqrt(rows) if rows > 1 else 0.0)
        for name, gain in gains.items()
    }


def _ranking(prediction: Prediction, target: Tensor, classes: Sequence[str]) -> Ranking | None:
    """How well the probability of a class ranks the rows: of the rarer one of two, of the commonest one of more."""
    counts = torch.bincount(target.flatten(), minlength=len(classes)) if classes else torch.zeros(0)
    if (counts > 0).sum() < 2:
        return None
    assert isinstance(prediction, ClassificationPrediction)
    which = int(counts.argmin() if len(classes) == 2 else counts.argmax())
    auroc = roc_auc_score(target == which, prediction.log_probabilities[:, which])
    rows = int(counts[which])
    return Ranking(classes[which], float(auroc), rows, len(target) - rows)


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


def _score_directions(model: TableModel) -> dict[str, Better]:
    if not model.is_regression:
        return {"accuracy": "higher", "log likelihood": "higher", "calibration error": "lower"}
    coverage = f"coverage of {model.coverage:.0%} interval"
    return {"RMSE": "lower", "CRPS": "lower", "log likelihood": "higher", coverage: "target"}


def _calibration(prediction: Prediction, target: Tensor) -> Calibration:
    if isinstance(prediction, RegressionPrediction):
        levels = torch.arange(5, 100, 5) / 100
        return Calibration(levels.tolist(), central_coverage(prediction, target, levels).tolist())
    bins = reliability(prediction, target, num_bins=BINS)
    return Calibration(bins.confidence.tolist(), bins.accuracy.tolist(), bins.num_rows.tolist())


def _test_rows(model: TableModel, tested: pd.DataFrame) -> RegressionRows | ClassificationRows:
    columns = {name: tested[name].tolist() for name in tested.columns}
    if model.is_regression:
        names = ("row", "observed", "lower", "upper", "epistemic_std", "aleatoric_std")
        return RegressionRows(mean=columns["prediction"], **{name: columns[name] for name in names})
    return ClassificationRows(
        row=columns["row"],
        observed=[str(value) for value in columns["observed"]],
        predicted=columns["prediction"],
        **{name: columns[name] for name in ("probability", "predictive_entropy", "mutual_information")},
    )


def _uncertain_rows(inputs: pd.DataFrame, schema: TableSchema, tested: pd.DataFrame) -> UncertainRows:
    """The ten test rows that the model knows least about, with their inputs."""
    regression = schema.target.task == "regression"
    measure = "epistemic_std" if regression else "mutual_information"
    order = np.argsort(-tested[measure].to_numpy(), kind="stable")[:10]
    rows = []
    for place in order:
        found = tested.iloc[place]
        ends = [readable(float(found[end])) for end in ("lower", "upper")] if regression else []
        row = UncertainRow(
            row=int(found["row"]),
            values=[shown(value) for value in inputs.iloc[place][schema.names]],
            observed=cell(float(found["observed"])) if regression else str(found["observed"]),
            predicted=readable(float(found["prediction"])) if regression else str(found["prediction"]),
            epistemic=float(found[measure]),
            interval=" to ".join(ends) or f"{found['probability']:.0%}",
        )
        rows.append(row)
    return UncertainRows(schema.names, rows)


def shown(value: object) -> str:
    """A cell as a reader sees it; empty if it is missing."""
    if pd.isna(value):  # type: ignore[call-overload]
        return ""
    return cell(float(value)) if isinstance(value, numbers.Real) and not isinstance(value, bool) else str(value)


def mean_record(records: Sequence[EpochRecord]) -> EpochRecord:
    """What one epoch did, as the mean over the members.

    Args:
        records: That of each member.

    Returns:
        Their mean.
    """

    def mean(name: str) -> float | None:
        values = [getattr(record, name) for record in records]
        return None if None in values else float(np.mean(values))

    rates = {site: float(np.mean([record.rates[site] for record in records])) for site in records[0].rates}
    means: dict[str, Any] = {name: mean(name) for name in ("nll", "kl", "validation_nll")}
    return dataclasses.replace(records[0], **means, rates=rates)
