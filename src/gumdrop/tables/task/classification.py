"""The target is a class."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from gumdrop.ensembles import ClassificationEnsemble
from gumdrop.likelihoods import Categorical, ClassificationPrediction
from gumdrop.metrics.scores import accuracy, calibration_error, reliability
from gumdrop.tables.errors import TableError
from gumdrop.tables.results import LIKELIHOOD, LINEAR, Calibration, ClassificationRows, Ranking, Threshold
from gumdrop.tables.schema.cells import index_labels, labels_of
from gumdrop.tables.task.base import Cut, Measure, TableTask, mean_log_prob

BINS = 10
"""Of stated confidence, for the figure and the error alike."""


@dataclass(frozen=True)
class Classification(TableTask[ClassificationPrediction]):
    """Predict a class."""

    null_model = "class frequencies"
    epistemic = "mutual_information"
    likelihood = Categorical()
    likelihood_words = "categorical, averaged over the draws"

    @property
    def num_outputs(self) -> int:
        """A logit for each class."""
        return len(self.target.classes)

    def ensemble(self, members: Sequence[nn.Module], num_features: int) -> ClassificationEnsemble:
        """Put networks together."""
        return ClassificationEnsemble(members)

    def baselines(
        self, x_train: Tensor, y_train: Tensor, x: Tensor, seed: int
    ) -> dict[str, Callable[[], ClassificationPrediction]]:
        """Predict with trees and a line."""
        from gumdrop.tables.baselines import boosted_classes, linear_classes  # half a second

        rows = (x_train, y_train, len(self.target.classes), x)
        trees = partial(boosted_classes, *rows, seed=seed)
        return {"gradient-boosted trees": trees, LINEAR: partial(linear_classes, *rows)}

    def predict_null(self, y_train: Tensor, num_rows: int) -> ClassificationPrediction:
        """Predict with the class frequencies of the training part."""
        from gumdrop.tables.baselines import frequencies

        return frequencies(y_train, len(self.target.classes), num_rows)

    def columns(self, prediction: ClassificationPrediction, coverage: float) -> dict[str, np.ndarray]:
        """The class, all probabilities, and the parts of the uncertainty."""
        classes = np.array(self.target.classes, dtype=object)
        probabilities = prediction.probabilities.numpy()
        named = {"prediction": classes[prediction.label.numpy()], "probability": probabilities.max(1)}
        named |= {f"p({name})": probabilities[:, i] for i, name in enumerate(classes)}
        named["predictive_entropy"] = prediction.predictive_entropy.numpy()
        named["mutual_information"] = prediction.mutual_information.numpy()
        if prediction.levels:
            named["set"] = np.array(
                [" | ".join(classes[row]) for row in prediction.sets(coverage).numpy()], dtype=object
            )
        return named

    def columns_on_request(
        self, prediction: ClassificationPrediction, quantiles: Sequence[float], at: Sequence[float], levels: bool
    ) -> dict[str, np.ndarray]:
        """Classes have none."""
        if quantiles:
            raise TableError("`--quantiles` are of numbers, and this model predicts classes: leave them away")
        if at:
            raise TableError("`--at` is of numbers, and this model predicts classes: leave it away")
        if levels:
            raise TableError("`--levels` are of numbers, and those of classes are always written: leave it away")
        return {}

    def observed(self, encoded: np.ndarray, cells: pd.Series) -> Tensor:
        """Class indices."""
        return torch.from_numpy(encoded)

    def written(self, cells: pd.Series) -> dict[str, np.ndarray]:
        """Labels, however the cells are spelled: 1.0 is 1, and YES is yes."""
        return {"observed": np.array(self.target.classes)[index_labels(labels_of(cells), self.target.classes)]}

    def test_rows(self, encoded: np.ndarray, count: int, seed: int) -> np.ndarray:
        """Draw rows evenly from all rows sorted by class, in random order within each, but none alone in its class."""
        order = np.random.default_rng(seed).permutation(len(encoded))
        order = order[np.argsort(encoded[order], kind="stable")]
        order = order[np.bincount(encoded)[encoded[order]] > 1]
        positions = (np.arange(count) + 0.5) * len(order) / count
        return np.asarray(order[np.unique(positions.astype(int))])

    def measures(self, coverage: float, unit: str, num_samples: int) -> dict[str, Measure]:
        """Accuracy, log likelihood, and calibration error."""
        right, gap = "share of test rows whose most probable class is right", "mean gap between stated probability and"
        given = "log of the probability given to the true class, its mean over the draws, in nats per row"
        return {
            "accuracy": Measure("higher", right, lambda prediction, observed: accuracy(prediction.label, observed)),
            LIKELIHOOD: Measure("higher", given, mean_log_prob),
            "calibration error": Measure(
                "lower", f"{gap} share of right answers", partial(calibration_error, num_bins=BINS)
            ),
        }

    def set_measures(self, coverage: float) -> dict[str, Measure]:
        """How often a set holds the class, and how large it is."""
        held = f"share of test rows whose class is in its set; should be {coverage:.0%}"

        def share(prediction: ClassificationPrediction, observed: Tensor) -> Tensor:
            return prediction.sets(coverage).gather(1, observed[:, None]).double().mean()

        def size(prediction: ClassificationPrediction, observed: Tensor) -> Tensor:
            return prediction.sets(coverage).sum(1).double().mean()

        return {
            f"coverage of {coverage:.0%} set": Measure("target", held, share),
            "classes in a set": Measure("lower", "mean number of classes in a set", size),
        }

    def guess_gains(
        self, ours: ClassificationPrediction, other: ClassificationPrediction, observed: Tensor
    ) -> tuple[str, Tensor]:
        """Where one is right and the other is not."""
        return "right", (ours.label == observed).double() - (other.label == observed).double()

    def sought(self, observed: Tensor) -> int:
        """The class of two that was named, or is the rarer one, and the commonest one of more."""
        if self.target.sought:
            return self.target.classes.index(self.target.sought)
        counts = torch.bincount(observed.flatten(), minlength=len(self.target.classes))
        return int(counts.argmin() if len(counts) == 2 else counts.argmax())

    def ranking(self, prediction: ClassificationPrediction, observed: Tensor, cut: Cut | None) -> Ranking | None:
        """By the probability of the class that is looked for."""
        from sklearn.metrics import average_precision_score, roc_auc_score

        classes = self.target.classes
        counts = torch.bincount(observed.flatten(), minlength=len(classes))
        if (counts > 0).sum() < 2:
            return None
        which = self.sought(observed) if cut is None else cut.label
        actual, scores = observed == which, prediction.log_probabilities[:, which]
        rows = int(counts[which])
        cuts = [Cut(which, 0.5), *([cut] if cut else [])] if len(classes) == 2 else []
        return Ranking(
            classes[which],
            float(roc_auc_score(actual, scores)),
            rows,
            len(observed) - rows,
            float(average_precision_score(actual, scores)),
            [_at(prediction.probabilities[:, which], actual, each, each is cut) for each in cuts],
        )

    def best_cut(self, prediction: ClassificationPrediction, observed: Tensor) -> Cut | None:
        """The one with the best F1, between the probabilities of two rows; none of more or fewer classes than two."""
        counts = torch.bincount(observed, minlength=len(self.target.classes))
        if len(counts) != 2 or not counts.all():
            return None
        which = self.sought(observed)
        probability, order = prediction.probabilities[:, which].double().sort(descending=True)
        hits, flagged = (observed[order] == which).cumsum(0), torch.arange(1, len(observed) + 1)
        f1 = 2 * hits / (flagged + counts[which])
        following = torch.cat([probability[1:], probability.new_zeros(1)])
        f1[probability == following] = 0  # rows that tie are cut off together
        best = int(f1.argmax())
        return Cut(which, float(probability[best] + following[best]) / 2)

    def calibration(self, prediction: ClassificationPrediction, observed: Tensor) -> Calibration:
        """Of bins of stated confidence."""
        bins = reliability(prediction, observed, num_bins=BINS)
        return Calibration(bins.confidence.tolist(), bins.accuracy.tolist(), bins.num_rows.tolist())

    def promises(self, tested: pd.DataFrame, observed: Tensor, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        """That the predicted class is right."""
        right = tested["prediction"].to_numpy() == np.array(self.target.classes, dtype=object)[observed]
        return right, tested["probability"].to_numpy()

    def rows(self, tested: pd.DataFrame) -> ClassificationRows:
        """The test part, for the results."""
        names = ("row", "probability", "predictive_entropy", "mutual_information")
        columns: dict[str, list[Any]] = {name: tested[name].tolist() for name in names}
        observed = [str(value) for value in tested["observed"].tolist()]
        return ClassificationRows(observed=observed, predicted=tested["prediction"].tolist(), **columns)

    def words(self, row: pd.Series) -> tuple[str, str]:
        """The class, and how probable it is."""
        return str(row["prediction"]), f"{row['probability']:.0%}"

    def labels(self, prediction: ClassificationPrediction) -> Tensor:
        """The predicted class of each row."""
        return prediction.label

    def explained(self, prediction: ClassificationPrediction, labels: Tensor | None) -> Tensor:
        """The probability of the given classes, and the mutual information."""
        assert labels is not None, "classes have labels"
        chosen = prediction.probabilities[torch.arange(len(labels)), labels]
        return torch.stack([chosen, prediction.mutual_information], dim=1)

    def answer(self, output: Tensor) -> Tensor:
        """By how much the first class leads the second."""
        first, second = output.topk(2, dim=-1).values.unbind(-1)
        return first - second


def _at(probability: Tensor, actual: Tensor, cut: Cut, suggested: bool) -> Threshold:
    """What a cut comes to."""
    flagged = probability >= cut.probability
    return Threshold(cut.probability, int(flagged.sum()), int((flagged & actual).sum()), suggested)
