"""Classification for scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor, nn

from gumdrop.ensembles import Architecture
from gumdrop.estimators.ensemble import ConcreteDropoutEnsemble
from gumdrop.estimators.rows import chunks, distinct
from gumdrop.layers import PiecewiseLinear
from gumdrop.likelihoods import Categorical, ClassificationPrediction

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
        classes_: The labels, sorted.
        ensemble_: The `gumdrop.ensembles.ClassificationEnsemble`, of standardised rows.
        dropout_rates_: Learned rate of each layer of each network, inputs first, shape (n_networks, n_layers).
        strengths_: Strengths of dropout of the networks that were taken.
        levels_: The conformal levels, which count where ``conformal`` is set.
        history_: For each member a list with a `gumdrop.training.EpochRecord` for each epoch.
        n_iter_: Epochs that were made.
        n_features_in_: Number of columns.
        feature_names_in_: Their names, where they have names of text.

    Example:
        >>> X = np.linspace(-2, 2, 60).reshape(-1, 1)
        >>> y = np.where(X[:, 0] > 0, "up", "down")
        >>> model = ConcreteDropoutClassifier(n_members=2, max_iter=5, random_state=0).fit(X, y)
        >>> model.predict_proba(X).shape, model.classes_.tolist()
        ((60, 2), ['down', 'up'])
    """

    class_weight: dict[Any, float] | str | None = None
    _likelihood = Categorical()

    def _train(
        self, inputs: np.ndarray, labels: np.ndarray, weights: np.ndarray, together: np.ndarray | None = None
    ) -> None:
        check_classification_targets(labels)
        present = labels[weights > 0]
        given = getattr(self, "_given", present[:0])
        self.classes_ = np.unique(np.concatenate([present, given]) if len(given) else present)
        if len(self.classes_) < 2:
            raise ValueError(f"a classifier needs rows of at least 2 classes, got the class {self.classes_.tolist()}")
        codes = np.searchsorted(self.classes_, np.where(weights > 0, labels, self.classes_[0]))
        rows = distinct(inputs, codes.reshape(-1, 1), self._weighted(weights, codes), together)
        self._fit_ensemble(rows, codes[rows.indices])

    def _weighted(self, weights: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Weights of rows with those of their classes; the sum stays, as rows that matter more are no more rows."""
        if self.class_weight is None:
            return weights
        if self.class_weight == "balanced":
            of_class = 1 / np.maximum(np.bincount(codes, weights, len(self.classes_)), 1e-300)
        else:
            of_class = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        if not (np.isfinite(of_class).all() and (of_class > 0).all()):
            raise ValueError(f"`class_weight` must hold positive numbers, got {self.class_weight!r}")
        weighted: np.ndarray = weights * of_class[codes]
        return weighted * (weights.sum() / weighted.sum())

    def _describe(self, table: StreamedColumns) -> Target:
        classes = np.unique(table.observed)
        target = table.classes_target(classes)
        self.classes_ = classes
        return target

    def _network(self, num_inputs: int, architecture: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
        return architecture.network(num_inputs, len(self.classes_), encoding, homoscedastic_noise=False)

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
        if classes is not None:
            self._given = np.unique(np.asarray(classes))
        return super().partial_fit(X, y, sample_weight)

    def predict_distribution(self, X: ArrayLike) -> ClassificationPrediction:
        """Predict class probabilities, with entropies and the mutual information of label and function, in nats.

        Args:
            X: Inputs, shape (n_samples, n_features).

        Returns:
            A record of float64 tensors; its classes are in the order of ``classes_``.
        """
        validated = self._validated(X)
        parts = [self._draw(validated[part]) for part in chunks(validated.shape[0])]
        return ClassificationPrediction.joined(parts)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the most probable label.

        Args:
            X: Inputs, shape (n_samples, n_features).

        Returns:
            Labels, shape (n_samples,).
        """
        label = self.predict_distribution(X).label.cpu().numpy()
        return np.asarray(self.classes_[label])

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
        prediction = self.predict_distribution(X)
        return prediction.conformity(torch.from_numpy(self._codes(X, y)).to(prediction.probabilities.device))

    def _codes(self, X: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Numbers of labels, which must be of `classes_`, one for each row."""
        check_consistent_length(X, y)
        labels = column_or_1d(y)
        if not (known := np.isin(labels, self.classes_)).all():
            raise ValueError(f"`y` must hold labels of `classes_`, got '{labels[~known][0]}'")
        return np.searchsorted(self.classes_, labels)

    def sample_y(self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draw labels from the averaged probabilities, each independent of the others.

        Args:
            X: Inputs, shape (n_rows, n_features).
            n_samples: Number of draws.
            random_state: Seed, generator or None.

        Returns:
            Labels, shape (n_rows, n_samples).
        """
        ends = self.predict_proba(X).cumsum(1)[:, None, :-1]
        uniform = check_random_state(random_state).random_sample((len(ends), n_samples, 1))
        return np.asarray(self.classes_[(uniform > ends).sum(-1)])

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
        log_p, codes = self.predict_log_proba(X), self._codes(X, y)
        return np.asarray(log_p[np.arange(len(log_p)), codes])
