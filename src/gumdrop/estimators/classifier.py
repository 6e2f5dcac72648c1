"""Classification for scikit-learn."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gumdrop.estimators.ensemble import ConcreteDropoutEnsemble
from gumdrop.estimators.learned import Columns, Learned
from gumdrop.estimators.rows import chunks, distinct
from gumdrop.estimators.targets import Classes
from gumdrop.likelihoods import ClassificationPrediction

if TYPE_CHECKING:
    from gumdrop.estimators.streaming import StreamedColumns
    from gumdrop.tables.schema.schema import Target


@dataclass(eq=False, repr=False, kw_only=True)
class ConcreteDropoutClassifier(ClassifierMixin, ConcreteDropoutEnsemble):
    """Classification with learned dropout rates and probabilities that are averaged over functions.

    An ensemble of small networks, each of which keeps the epoch that is best on its held-out rows.
    Inputs are standardised inside; labels may be of any type.

    Args:
        hidden_layer_sizes: Units of each hidden layer, or of the one, of networks that read the inputs as they are;
            None chooses sizes, and whether inputs are cut into bins, by held-out rows, see `gumdrop.ensembles.fit`.
        n_members: Networks of each strength; None for 10, and 5 from 10,000 rows on.
        max_iter: Epochs; None for what `gumdrop.ensembles.schedule` says, at least 20.
        batch_size: Rows per step; None for 128 to 1,024, more for more rows.
        learning_rate_init: Largest learning rate, for batches of a 16th of the rows; larger batches have up
            to twice that.
        lengthscale: Prior, see `gumdrop.kl_divergence`; None for that of `gumdrop.ensembles`.
        strength: What the entropy of the dropout masks counts, see `gumdrop.networks.set_strength`; None lets held-out
            rows choose, and takes 1 from 10,000 rows on and for a stream.
        class_weight: What the rows of each class weigh beside those of the others: a dict of labels, 1 for those that
            it lacks; "balanced" for as much as all other classes; None for rows as they are. Probabilities are then
            those of classes in these proportions. The sum of the weights stays the number of rows.
        early_stopping: Stop once no member gets better on its held-out rows; each keeps its best epoch. The cycle of
            the learning rate is laid out for ``max_iter`` epochs, so a run that stops never sees the small steps at its
            end: it is shorter, and seldom better. See ``docs/estimators.md``.
        n_iter_no_change: Epochs without such a gain after which it stops.
        tol: Gain in nats per row that counts.
        validation_fraction: Share of the rows that is held out from each member; the rows are cut into folds of
            this share, and each member does without one.
        n_mc_samples: Draws for a prediction, spread over the networks.
        conformal: Let sets hold what they promise by the rows that networks have not seen, see
            `gumdrop.likelihoods.conformal`.
        random_state: Seed, generator or None; a number gives the same model each time.
        device: Where to train and predict, such as ``"cuda"``; None for the CPU.
        verbose: Show a progress bar.

    Attributes:
        ensemble_: The `gumdrop.ensembles.ClassificationEnsemble`, of standardised rows.
        dropout_rates_: Learned rate of each layer of each network, inputs first, shape (n_networks, n_layers).
        strengths_: Strengths of dropout of the networks that were taken.
        levels_: The conformal levels, which count where ``conformal`` is set.
        history_: For each member a list with a `gumdrop.training.EpochRecord` for each epoch.
        n_iter_: Epochs that were made.

    Example:
        >>> X = np.linspace(-2, 2, 60).reshape(-1, 1)
        >>> y = np.where(X[:, 0] > 0, "up", "down")
        >>> model = ConcreteDropoutClassifier(n_members=2, max_iter=5, random_state=0).fit(X, y)
        >>> model.predict_proba(X).shape, model.classes_.tolist()
        ((60, 2), ['down', 'up'])
    """

    class_weight: dict[Any, float] | str | None = None

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted."""
        check_is_fitted(self)
        classes: np.ndarray = self._learned.targets.classes
        return classes

    def _train(
        self,
        columns: Columns,
        inputs: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray,
        together: np.ndarray | None = None,
        named: np.ndarray | None = None,
    ) -> Learned:
        check_classification_targets(targets)
        present = targets[weights > 0]
        known = Classes(np.unique(present if named is None else np.concatenate([present, named])), named)
        codes = np.searchsorted(known.classes, np.where(weights > 0, targets, known.classes[0]))
        rows = distinct(inputs, codes.reshape(-1, 1), self._weighted(weights, codes, known.classes), together)
        return self._fit_ensemble(columns, rows, codes[rows.indices], known)

    def _weighted(self, weights: np.ndarray, codes: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Weights of rows with those of their classes; the sum stays, as rows that matter more are no more rows."""
        if self.class_weight is None:
            return weights
        if self.class_weight == "balanced":
            of_class = 1 / np.maximum(np.bincount(codes, weights, len(classes)), 1e-300)
        else:
            of_class = compute_class_weight(self.class_weight, classes=classes, y=classes)
        if not (np.isfinite(of_class).all() and (of_class > 0).all()):
            raise ValueError(f"`class_weight` must hold positive numbers, got {self.class_weight!r}")
        weighted: np.ndarray = weights * of_class[codes]
        return weighted * (weights.sum() / weighted.sum())

    def _describe(self, table: StreamedColumns) -> tuple[Target, Classes]:
        classes = np.unique(table.observed)
        return table.classes_target(classes), Classes(classes)

    def partial_fit(  # type: ignore[override]  # the order of scikit-learn
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add rows to those of earlier calls, and train on all of them: the same model as `fit` on all at once.

        The rows are kept in the estimator. As their number grows, less is unknown, and the learned rates fall. After
        `fit`, which keeps no rows, the first call begins anew.

        Args:
            X: Inputs, shape (n_samples, n_features).
            y: Labels, shape (n_samples,).
            classes: Labels that there are beside those in the rows so far.
            sample_weight: A row of weight 3 counts as three equal rows, one of weight 0 not at all.

        Returns:
            This estimator.
        """
        named = None if self._growing is None else self._growing.targets.named
        if classes is not None:
            named = np.unique(np.asarray(classes))
        self._learned = self._grown(X, y, sample_weight, named=named)
        return self

    def predict_distribution(self, X: ArrayLike) -> ClassificationPrediction:
        """Predict class probabilities, with entropies and the mutual information of label and function, in nats.

        Args:
            X: Inputs, shape (n_samples, n_features).

        Returns:
            A record of float64 tensors; its classes are in the order of ``classes_``.
        """
        learned, rows = self._validated(X)
        parts = [self._draw(learned, rows[part]) for part in chunks(rows.shape[0])]
        return ClassificationPrediction.joined(parts)

    def _predicted(self, X: ArrayLike) -> tuple[np.ndarray, ClassificationPrediction]:
        """Predict, and give the classes of the same fit, whatever is fitted meanwhile."""
        now = copy.copy(self)
        prediction = now.predict_distribution(X)
        return now.classes_, prediction

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the most probable label.

        Args:
            X: Inputs, shape (n_samples, n_features).

        Returns:
            Labels, shape (n_samples,).
        """
        classes, prediction = self._predicted(X)
        return np.asarray(classes[prediction.label.cpu().numpy()])

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Predict the probability of each class.

        Args:
            X: Inputs, shape (n_samples, n_features).

        Returns:
            Shape (n_samples, n_classes), in the order of ``classes_``.
        """
        return self.predict_distribution(X).probabilities.cpu().numpy()

    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Predict the log probability of each class.

        Args:
            X: Inputs, shape (n_samples, n_features).

        Returns:
            Shape (n_samples, n_classes), in nats.
        """
        return self.predict_distribution(X).log_probabilities.cpu().numpy()

    def predict_set(self, X: ArrayLike, coverage: float = 0.9) -> np.ndarray:
        """Predict sets of classes that hold the label with a given probability, the most probable classes first.

        Args:
            X: Inputs, shape (n_samples, n_features).
            coverage: Probability, strictly between 0 and 1.

        Returns:
            Whether each class is in the set of each row, shape (n_samples, n_classes), in the order of ``classes_``.
        """
        return self.predict_distribution(X).sets(coverage).cpu().numpy()

    def _conformity(self, X: ArrayLike, y: ArrayLike) -> Tensor:
        prediction, codes = self._beside(X, y)
        return prediction.conformity(torch.from_numpy(codes).to(prediction.probabilities.device))

    def _beside(self, X: ArrayLike, y: ArrayLike) -> tuple[ClassificationPrediction, np.ndarray]:
        """Predictions, and the numbers of labels, which must be of `classes_`, one for each row."""
        classes, prediction = self._predicted(X)
        check_consistent_length(X, y)
        labels = column_or_1d(y)
        if not (known := np.isin(labels, classes)).all():
            raise ValueError(f"`y` must hold labels of `classes_`, got '{labels[~known][0]}'")
        return prediction, np.searchsorted(classes, labels)

    def sample_y(self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draw labels from the averaged probabilities, each independent of the others.

        Args:
            X: Inputs, shape (n_rows, n_features).
            n_samples: Number of draws.
            random_state: Seed, generator or None.

        Returns:
            Labels, shape (n_rows, n_samples).
        """
        classes, prediction = self._predicted(X)
        ends = prediction.probabilities.cpu().numpy().cumsum(1)[:, None, :-1]
        uniform = check_random_state(random_state).random_sample((len(ends), n_samples, 1))
        return np.asarray(classes[(uniform > ends).sum(-1)])

    def log_prob(self, X: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Log probability of observed labels, in nats.

        Args:
            X: Inputs, shape (n_samples, n_features).
            y: Observed labels, shape (n_samples,).

        Returns:
            Shape (n_samples,).

        Raises:
            ValueError: If a label is none of ``classes_``.
        """
        prediction, codes = self._beside(X, y)
        return prediction.log_probabilities.cpu().numpy()[np.arange(len(codes)), codes]
