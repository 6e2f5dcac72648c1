"""A table model: an ensemble of networks with learned dropout, and the schema that feeds it, in one folder."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pandas as pd
import torch
from torch import Tensor, nn

from gumdrop.ensembles import RegressionEnsemble
from gumdrop.ensembles.models import DrawnFunctions, Ensemble
from gumdrop.layers import PiecewiseLinear
from gumdrop.machine.threads import ROWS_FOR_THREADS, limited_threads
from gumdrop.networks.perceptron import ACTIVATIONS, Activation
from gumdrop.tables.cells import imputations, mark_unknown
from gumdrop.tables.conformal import Conformal
from gumdrop.tables.fitting.settings import PredictionSettings
from gumdrop.tables.profile import Profile
from gumdrop.tables.reading.spelling import are_words
from gumdrop.tables.reading.table import read_rows
from gumdrop.tables.schema.schema import Encoded, TableSchema
from gumdrop.tables.task import Cut, Measure, Prediction, TableTask, task_of

MOST_DRAWS = 100_000
ROWS_OF_A_PART = 65536
ODD = {"missing": "missing_cells", "unseen": "unseen_cells", "outside": "outside_cells"}
"""What may be odd about a cell, and the column of the predictions that counts it for each row."""
DISTANCES_AT_ONCE = 2**22
"""Distances to kept training rows that are in memory at a time."""


@dataclass(frozen=True)
class TableModel:
    """An ensemble over the columns of a table, and everything that is needed to use it again."""

    schema: TableSchema
    """Columns, target, and the statistics of the training part."""
    ensemble: Ensemble
    """Networks over the encoded columns; their targets are standardised. They stay as they are once the model predicts,
    which keeps what it draws from them."""
    hidden: tuple[int, ...]
    """Units of the hidden layers of each network."""
    num_samples: int = 100
    """Draws for a prediction, spread over the networks."""
    coverage: float = 0.9
    """Probability of the intervals that are written out."""
    seed: int = 0
    """Seed of the draws: the same file gives the same predictions."""
    unit: str = ""
    """Unit of the target, for the reader; empty if it was not given."""
    background: Tensor = field(default_factory=lambda: torch.empty(0, 0))
    """Some encoded training rows, shape (B, F), that unknown cells are drawn from and explanations compare with; B is 0
    if none were to be kept."""
    cut: Cut | None = None
    """Of two classes, from which probability on a row is taken for the one that is looked for; None for all else."""
    profile: Profile | None = None
    """What training rows look like, to tell how others differ; None before the end of a fit."""
    conformal: Conformal | None = None
    """By which levels intervals, quantiles and sets hold what they promise; None if they are those of the mixture."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 1 <= self.num_samples <= MOST_DRAWS:
            raise ValueError(f"`num_samples` must be from 1 to {MOST_DRAWS:,}, got {self.num_samples}")
        if not 0 < self.coverage < 1:
            raise ValueError(f"`coverage` must be strictly between 0 and 1, got {self.coverage}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"`seed` must be from 0 to 2^63 - 1, got {self.seed}")
        if self.background.ndim != 2 or self.background.shape[1] not in (0, self.schema.num_features):
            raise ValueError(
                f"`background` must have shape (B, {self.schema.num_features}), got {tuple(self.background.shape)}"
            )

    @property
    def task(self) -> TableTask[Any]:
        """What is done with the target."""
        return task_of(self.schema.target)

    @property
    def measures(self) -> dict[str, Measure]:
        """What predictions are scored by."""
        measures = self.task.measures(self.coverage, self.unit, self.num_samples)
        return measures if self.conformal is None else measures | self.task.set_measures(self.coverage)

    @property
    def scale_notes(self) -> list[str]:
        """What a reader should know about the scale of predictions."""
        return self.task.scale_notes(self.ensemble) if isinstance(self.ensemble, RegressionEnsemble) else []

    @property
    def activation(self) -> Activation:
        """What stands between the layers of the networks."""
        kinds = {type(layer) for layer in self._layers}
        return next((name for name, layer in ACTIVATIONS.items() if layer in kinds), "relu")

    @property
    def num_bins(self) -> int:
        """Bins that the encoded inputs are cut into, in all; 0 where they enter as they are."""
        return sum(layer.num_bins for layer in self._layers if isinstance(layer, PiecewiseLinear))

    @property
    def _layers(self) -> list[nn.Module]:
        return list(self.ensemble.members[0].children())

    @functools.cached_property
    def _functions(self) -> DrawnFunctions | None:
        """What the ensemble draws for every prediction, since these have one seed."""
        return self.ensemble.functions(self.num_samples, self.seed)

    def alone(self, member: int, num_samples: int, seed: int) -> Self:
        """Ask one of the networks alone, in so many draws."""
        networks = self.ensemble.with_members([self.ensemble.members[member]])
        return replace(self, ensemble=networks, num_samples=num_samples, seed=seed)

    def predict(
        self,
        table: object,
        *,
        coverage: float | None = None,
        quantiles: Sequence[float] = (),
        at: Sequence[float] = (),
    ) -> pd.DataFrame:
        """Predict the rows of a table, as ``gumdrop predict`` does.

        Args:
            table: Data frame, dict of columns or file, as `read_table` takes it, with the columns of the schema.
            coverage: Probability of the intervals; that of the model if None.
            quantiles: Probabilities of quantiles to give as columns, such as ``q10``.
            at: Values to give the probability above as columns, such as ``p(>5)``: of times the survival.

        Returns:
            The columns of `prediction_frame`, the quantiles, and for each row the number of cells that are missing, of
            a category that training did not have, and far outside the numbers of training. The row labels are those of
            a pandas frame, so that ``frame.join(model.predict(frame))`` puts both side by side. Classes that were
            integers, numbers or truths in the data frame that was fitted are such again.

        Raises:
            TableError: If the table cannot be read or does not fit the schema.
            TypeError: If it is no table.
        """
        frame = read_rows(table, **self.reading)
        model = self if coverage is None else replace(self, coverage=coverage)
        settings = PredictionSettings(quantiles=tuple(quantiles), at=tuple(at))
        starts = range(0, len(frame), ROWS_OF_A_PART)  # bounds the memory that the draws take
        parts = [model.predict_part(frame.iloc[start : start + ROWS_OF_A_PART], settings)[0] for start in starts]
        predictions = parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
        if self.schema.target.labels is not None:
            predictions["prediction"] = self.schema.target.typed(predictions["prediction"].tolist())
        return predictions.set_axis(table.index) if isinstance(table, pd.DataFrame) else predictions

    def predict_part(
        self, frame: pd.DataFrame, settings: PredictionSettings
    ) -> tuple[pd.DataFrame, Encoded, Prediction]:
        """Predict rows, not too many at once: the columns of `predict`, the encoded rows, and their prediction."""
        rows = self.schema.encode_inputs(frame)
        x = mark_unknown(self.schema, rows.x, rows.unknown, self.background)
        with limited_threads(1 if len(frame) < ROWS_FOR_THREADS else None):
            prediction = self.on_levels(self.predict_encoded(x), frame)
            columns = self.task.columns(prediction, self.coverage)
            columns |= self.task.columns_on_request(prediction, settings.quantiles, settings.at, settings.levels)
        columns |= {name: rows.odd_cells[kind] for kind, name in ODD.items()}
        return pd.DataFrame(columns), rows, prediction  # put together once: pandas takes its time

    def predict_encoded(self, x: Tensor) -> Prediction:
        """Return predictions of encoded rows, (N, F), in units of the target, or over the classes of the schema.

        Inputs that are NaN are unknown, and each draw completes them anew from the kept training rows, see
        `gumdrop.tables.cells`. So what they leave open is part of the spread between the draws, the epistemic part.
        All other rows are predicted as if these were not there.

        Raises:
            ValueError: If an input is NaN and the model keeps no training rows.
        """
        unknown = x.isnan()
        rows = unknown.any(1).nonzero()[:, 0]
        if len(rows) and not len(self.background):
            raise ValueError("`x` must not hold NaN, because the model keeps no training rows to draw from; fit with "
                             "`num_background` above 0")  # fmt: skip
        known = x.masked_fill(unknown, 0.0) if len(rows) else x
        prediction = self.ensemble.predict(
            known, num_samples=self.num_samples, seed=self.seed, batch_size=8192, functions=self._functions
        )
        for some in rows.split(max(1, DISTANCES_AT_ONCE // max(1, len(self.background)))) if len(rows) else ():
            prediction = prediction.with_rows(some, self._predict_completions(x[some]))
        in_units: Prediction = self.task.in_units(prediction)
        return in_units

    @property
    def grouped_by(self) -> list[str]:
        """Columns whose groups have conformal levels of their own."""
        return [] if self.conformal is None else [column.name for column in self.conformal.columns]

    @property
    def reading(self) -> dict[str, Any]:
        """How `gumdrop.tables.read_table` reads a table as training did, with columns that make groups alone."""
        columns, reading = () if self.conformal is None else self.conformal.columns, self.schema.reading
        return reading | {"words": {*reading["words"], *(each.name for each in columns if are_words(each.places))}}

    def on_levels(self, prediction: Prediction, frame: pd.DataFrame) -> Prediction:
        """Let the conformal levels of the rows of a table, if the model has any, say where their intervals end."""
        if self.conformal is None:
            return prediction
        return replace(prediction, levels=self.conformal.levels, groups=self.conformal.groups(self.schema, frame))

    def _predict_completions(self, x: Tensor) -> Prediction:
        """Predict rows that are completed anew for each draw, in as many draws as others have."""
        num_members = len(self.ensemble.members)
        count = -(-self.num_samples // num_members) * num_members
        completed = imputations(x, self.background, count, seed=self.seed)
        return self.ensemble.predict_imputations(completed, num_samples=count, seed=self.seed)

    def prediction_frame(self, prediction: Prediction) -> pd.DataFrame:
        """Lay a prediction out as the columns of its task, see `TableTask.columns`."""
        return pd.DataFrame(self.task.columns(prediction, self.coverage))
