"""Scores of a model on a table that holds the target."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from gumdrop.machine.numerals import readable
from gumdrop.machine.threads import limited_threads
from gumdrop.tables.errors import TableError, check_present
from gumdrop.tables.model import TableModel
from gumdrop.tables.plain import SPARSE
from gumdrop.tables.results import Ranking
from gumdrop.tables.task import Prediction


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
    target = model.schema.target.name
    check_present(frame.columns, [target])
    known = np.flatnonzero(frame[target].notna())
    if not len(known):
        raise TableError(f"no row has a '{target}': scores need a table that holds it")
    model.schema.encode_target(frame.iloc[known])
    return known


def evaluate(model: TableModel, frame: pd.DataFrame, prediction: Prediction) -> Evaluation:
    """Score a prediction."""
    task, schema = model.task, model.schema
    observed = task.observed(schema.encode_target(frame), frame[schema.target.name])
    meanings = task.meanings(model.coverage, model.unit, model.num_samples)
    with limited_threads(1):
        scores = task.scores(prediction, observed, model.coverage)
        ranking = task.ranking(prediction, observed, model.cut)
    return Evaluation(len(frame), scores, {name: each.note for name, each in meanings.items()}, ranking)
