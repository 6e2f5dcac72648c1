"""Scores: of the test part of a fit beside other models, with its calibration, and of a table that holds the target."""

import dataclasses
import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from gumdrop.machine.numerals import cell, readable
from gumdrop.machine.threads import limited_threads
from gumdrop.tables.errors import TableError, check_present
from gumdrop.tables.model import TableModel
from gumdrop.tables.plain import SPARSE
from gumdrop.tables.results import (
    LIKELIHOOD,
    Better,
    Calibration,
    ClassificationRows,
    Comparison,
    Curves,
    Gain,
    Ranking,
    RegressionRows,
    Score,
    UncertainRow,
    UncertainRows,
)
from gumdrop.tables.schema.cells import known_words
from gumdrop.tables.task import Prediction, TableTask
from gumdrop.training import EpochRecord

OURS = "learned dropout"


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
    curves: Curves | None


def test_part(
    model: TableModel, predictions: dict[str, Prediction], observed: Tensor, tested: pd.DataFrame, inputs: pd.DataFrame
) -> TestPart:
    """Score the test part and gather its rows, from predictions by name, what was observed, and both of its tables."""
    ours, task = predictions[OURS], model.task
    null_model = predictions[task.null_model]
    return TestPart(
        scores=[
            Score(
                name=name,
                ours=name == OURS,
                values=_scores(model, each, observed),
                null_model=each is null_model,
                skill=None if each is null_model else _gains(task, each, null_model, observed),
            )
            for name, each in predictions.items()
        ],
        paired=[
            Comparison(name, _gains(task, ours, each, observed)) for name, each in predictions.items() if name != OURS
        ],
        score_notes={name: measure.note for name, measure in model.measures.items()},
        score_directions={name: measure.better for name, measure in model.measures.items()},
        ranking=task.ranking(ours, observed, model.cut),
        calibration=task.calibration(ours, observed),
        test=dataclasses.replace(task.rows(tested), log_likelihood=_finite(ours.log_prob(observed).flatten())),
        uncertain=_uncertain_rows(model, tested, inputs),
        curves=task.curves(ours, observed, tested["row"].to_numpy()),
    )


def _gains(task: TableTask[Any], ours: Prediction, other: Prediction, observed: Tensor) -> dict[str, Gain]:
    """How much better than another model the mean row is, in each measure, with the standard error of the mean."""
    gains, rows = row_gains(task, ours, other, observed), len(observed)
    return {
        name: Gain(gain.mean().item(), gain.double().std().item() / math.sqrt(rows) if rows > 1 else 0.0)
        for name, gain in gains.items()
    }


def row_gains(task: TableTask[Any], ours: Prediction, other: Prediction, observed: Tensor) -> dict[str, Tensor]:
    """How much better than another prediction each row is, in log likelihood and by its guess; shape (N,)."""
    name, guess = task.guess_gains(ours, other, observed)
    return {LIKELIHOOD: ours.log_prob(observed) - other.log_prob(observed), name: guess}


def _finite(values: Tensor) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _uncertain_rows(model: TableModel, tested: pd.DataFrame, inputs: pd.DataFrame) -> UncertainRows:
    """The test rows of the largest epistemic uncertainty, with their inputs."""
    names = [*model.schema.carried(inputs.columns), *model.schema.names]
    measure = tested[model.task.epistemic].to_numpy()
    rows = []
    for i in np.argsort(-measure, kind="stable")[:10]:
        predicted, interval = model.task.words(tested.iloc[i])
        row = UncertainRow(
            row=int(tested["row"].iloc[i]),
            values=[shown(value) for value in inputs.iloc[i][names]],
            observed=shown(inputs[model.schema.target.name].iloc[i]),
            predicted=predicted,
            epistemic=float(measure[i]),
            interval=interval,
        )
        rows.append(row)
    return UncertainRows(names, rows)


def shown(value: object) -> str:
    """A cell as a reader sees it; empty if it is missing."""
    if isinstance(value, pd.Interval):
        return known_words(value.left, value.right)
    if pd.isna(value):  # type: ignore[call-overload]
        return ""
    return cell(float(value)) if isinstance(value, numbers.Real) and not isinstance(value, bool) else str(value)


def mean_record(records: Sequence[EpochRecord]) -> EpochRecord:
    """What one epoch did, as the mean over the members."""
    held_out = [record.validation_nll for record in records if record.validation_nll is not None]
    rates = {site: float(np.mean([record.rates[site] for record in records])) for site in records[0].rates}
    return dataclasses.replace(
        records[0],
        nll=float(np.mean([record.nll for record in records])),
        kl=float(np.mean([record.kl for record in records])),
        validation_nll=float(np.mean(held_out)) if len(held_out) == len(records) else None,
        rates=rates,
    )


@dataclass(frozen=True)
class Evaluation:
    """How well a model predicts the rows of a table whose target is known."""

    rows: int
    """How many."""
    scores: dict[str, float | None]
    """Its scores, under the names that they have in the results of a fit."""
    meanings: dict[str, str]
    """What each measures, in words."""
    ranking: Ranking | None = field(default=None, metadata=SPARSE)
    """For classes: how well a probability ranks the rows; None where they are of one class."""

    @property
    def words(self) -> str:
        """The scores in a line."""
        named = [f"{name} {'–' if value is None else readable(value)}" for name, value in self.scores.items()]
        if self.ranking is not None:
            named.append(f"AUROC of '{self.ranking.name}' {readable(self.ranking.auroc)}")
        return ", ".join(named)


def known_target(model: TableModel, frame: pd.DataFrame) -> np.ndarray:
    """Find the rows of a table that can be scored."""
    target, frame = model.schema.target.name, model.schema.with_ends(frame)
    check_present(frame.columns, [target])
    known = np.flatnonzero(frame[target].notna())
    if not len(known):
        raise TableError(f"no row has a '{target}': scores need a table that holds it")
    model.schema.encode_target(frame.iloc[known])
    return known


def evaluate(model: TableModel, frame: pd.DataFrame, prediction: Prediction) -> Evaluation:
    """Score a prediction."""
    frame = model.schema.with_ends(frame)
    observed = model.task.observed(model.schema.encode_target(frame), frame[model.schema.target.name])
    with limited_threads(1):
        scores = _scores(model, prediction, observed)
        ranking = model.task.ranking(prediction, observed, model.cut)
    return Evaluation(len(frame), scores, {name: measure.note for name, measure in model.measures.items()}, ranking)


def _scores(model: TableModel, prediction: Prediction, observed: Tensor) -> dict[str, float | None]:
    return {name: measure.of(prediction, observed).item() for name, measure in model.measures.items()}
