"""What a task is asked for, from the network to the page."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pandas as pd
from torch import Tensor, nn

from gumdrop.ensembles import Architecture, RegressionEnsemble
from gumdrop.ensembles.models import Ensemble
from gumdrop.layers import PiecewiseLinear
from gumdrop.likelihoods import PLAIN, ClassificationPrediction, Likelihood, RegressionPrediction, TargetScale
from gumdrop.tables.results import Better, Calibration, ClassificationRows, Curves, Ranking, RegressionRows
from gumdrop.tables.schema.schema import Target

Prediction = RegressionPrediction | ClassificationPrediction
P = TypeVar("P", RegressionPrediction, ClassificationPrediction)


@dataclass(frozen=True)
class Measure:
    """A score."""

    better: Better
    """Which way it is better."""
    what: str
    """What it measures, in words."""
    of: Callable[[Any, Tensor], Tensor]
    """Scores a prediction by what was observed."""

    @property
    def note(self) -> str:
        """Both, in words."""
        return self.what if self.better == "target" else f"{self.what}; {self.better} is better"


def mean_log_prob(prediction: Any, observed: Tensor) -> Tensor:
    """Mean of the log of what a prediction gave to each row."""
    return prediction.log_prob(observed).mean()


@dataclass(frozen=True)
class Cut:
    """From which probability on a row is taken for a class."""

    label: int
    """Index of the class."""
    probability: float
    """From here on."""


@dataclass(frozen=True)
class TableTask(ABC, Generic[P]):
    """What is done with a target."""

    target: Target
    """The target."""

    null_model: ClassVar[str]
    """The model beside others that does not look at the inputs."""
    epistemic: ClassVar[str]
    """The column of predictions that measures epistemic uncertainty."""

    @property
    @abstractmethod
    def likelihood(self) -> Likelihood:
        """What networks are trained on."""

    @property
    @abstractmethod
    def likelihood_words(self) -> str:
        """The likelihood of a table model, in words."""

    @property
    @abstractmethod
    def num_outputs(self) -> int:
        """Numbers that a network gives, beside a variance."""

    @property
    def notes(self) -> list[str]:
        """What a reader should know about the target."""
        return []

    @property
    def scale(self) -> TargetScale:
        """Where encoded targets can lie."""
        return PLAIN

    def scale_notes(self, ensemble: RegressionEnsemble) -> list[str]:
        """What a reader should know about the scale of predictions."""
        return []

    @property
    def moments(self) -> tuple[float | None, float | None]:
        """Mean and standard deviation of the training values, where they are numbers."""
        return None, None

    def network(
        self, num_features: int, architecture: Architecture, encoding: PiecewiseLinear | None = None
    ) -> nn.Sequential:
        """Build a network with learned dropout; of a number with one variance, as its own would learn residuals."""
        # How the noise depends on the inputs is found by the ensemble, from rows that its networks have not seen.
        one_noise = self.likelihood.is_density
        return architecture.network(num_features, self.num_outputs, encoding, homoscedastic_noise=one_noise)

    @abstractmethod
    def ensemble(self, members: Sequence[nn.Module], num_features: int) -> Ensemble:
        """Put networks together, for a file to fill."""

    @abstractmethod
    def baselines(self, x_train: Tensor, y_train: Tensor, x: Tensor, seed: int) -> dict[str, Callable[[], P]]:
        """What trains plain models that look at the inputs, and predicts encoded rows in units of the target."""

    @abstractmethod
    def predict_null(self, y_train: Tensor, num_rows: int) -> P:
        """Predict rows with the model that does not look at the inputs, in units of the target."""

    def in_units(self, prediction: P) -> P:
        """Carry a prediction of encoded targets over to the units of the target, if it has any."""
        return prediction

    @abstractmethod
    def columns(self, prediction: P, coverage: float) -> dict[str, np.ndarray]:
        """Lay a prediction out as columns, see `TableModel.prediction_frame`."""

    @abstractmethod
    def columns_on_request(
        self, prediction: P, quantiles: Sequence[float], at: Sequence[float], levels: bool
    ) -> dict[str, np.ndarray]:
        """Lay out quantiles, as `q97.5`, the probability above some values, as `p(>3)`, and of levels, as `p(3)`."""

    @abstractmethod
    def observed(self, encoded: np.ndarray, cells: pd.Series) -> Tensor:
        """Targets as scores take them: in units and float64, shape (N, 1), or class indices, shape (N,)."""

    def written(self, cells: pd.Series) -> dict[str, np.ndarray]:
        """What was observed, as columns of `predictions.csv`; of classes the labels that are predicted."""
        return {"observed": cells.to_numpy()}

    @abstractmethod
    def test_rows(self, encoded: np.ndarray, count: int, seed: int) -> np.ndarray:
        """Draw numbers of rows to test with."""

    @abstractmethod
    def measures(self, coverage: float, unit: str, num_samples: int) -> dict[str, Measure]:
        """The scores, by their names."""

    def set_measures(self, coverage: float) -> dict[str, Measure]:
        """Scores of sets of classes, by their names; numbers have those of their intervals already."""
        return {}

    @abstractmethod
    def guess_gains(self, ours: P, other: P, observed: Tensor) -> tuple[str, Tensor]:
        """How much better the guess of each row is than another one, and what that is called; shape (N,)."""

    def sought(self, observed: Tensor) -> int | None:
        """Index of the class that is looked for; None where the target is a number."""
        return None

    def ranking(self, prediction: P, observed: Tensor, cut: Cut | None) -> Ranking | None:
        """How well a probability ranks the rows, and what it comes to if it is cut."""
        return None

    def best_cut(self, prediction: P, observed: Tensor) -> Cut | None:
        """Where to cut the probability of one of two classes, by rows that the networks have not seen."""
        return None

    @abstractmethod
    def calibration(self, prediction: P, observed: Tensor) -> Calibration:
        """Stated against actual reliability."""

    def curves(self, prediction: P, observed: Tensor, numbers: np.ndarray) -> Curves | None:
        """Survival of the test part, where a target is known in part, by the numbers of its rows in the table."""
        return None

    @abstractmethod
    def promises(self, tested: pd.DataFrame, observed: Tensor, coverage: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Whether what is promised of each test row holds, and the probability that it was promised with."""

    @abstractmethod
    def rows(self, tested: pd.DataFrame) -> RegressionRows | ClassificationRows:
        """The test part as it is written out, for the results."""

    @abstractmethod
    def words(self, row: pd.Series) -> tuple[str, str]:
        """What is predicted of a row, and its interval or its probability, as a reader sees them."""

    def labels(self, prediction: P) -> Tensor | None:
        """The predicted class of each row, whose probability is explained; None where the number is."""
        return None

    @abstractmethod
    def explained(self, prediction: P, labels: Tensor | None) -> Tensor:
        """What an explanation is of, shape (N, 2): number or probability of a class, and its epistemic part."""

    @abstractmethod
    def answer(self, output: Tensor) -> Tensor:
        """What a network answers for each row, as far as it stays steep where it is sure, shape (N,)."""
