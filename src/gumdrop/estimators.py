r"""A regressor and a classifier for scikit-learn, over ensembles of networks with learned dropout.

They standardise inputs and targets themselves, choose everything that training needs, and work in pipelines,
cross-validation and grid searches. Rows that are equal count as one row with the sum of their weights, and the
order of the rows does not matter: the same data give the same model.

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn

from gumdrop.conversion import dropout_rates
from gumdrop.ensembles import EnsembleFit, fit_classification_ensembles, fit_regression_ensembles
from gumdrop.networks import mlp
from gumdrop.objective import Lengthscale
from gumdrop.prediction import ClassificationPrediction, RegressionPrediction

__all__ = ["ConcreteDropoutClassifier", "ConcreteDropoutRegressor"]

NUMBERS: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_min_samples": 4}
"""What inputs to train on must be."""
ROWS_AT_ONCE = 8192
"""Rows that are standardised or predicted at once, which bounds memory."""


class _Rows(NamedTuple):
    """The distinct rows of a data set, in an order of their own, and how often each counts."""

    x: np.ndarray
    y: np.ndarray
    places: np.ndarray
    weights: np.ndarray


class _ConcreteDropout(BaseEstimator):
    """What regressor and classifier share: parameters, training and the networks' view of the inputs."""

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (50, 50),
        *,
        n_members: int = 5,
        max_iter: int | None = None,
        batch_size: int | None = None,
        learning_rate_init: float = 1e-2,
        lengthscale: Lengthscale | None = None,
        n_mc_samples: int = 100,
        random_state: Any = None,
        device: str | torch.device | None = None,
        verbose: bool = False,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.n_members = n_members
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.lengthscale = lengthscale
        self.n_mc_samples = n_mc_samples
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    _targets: ClassVar[dict[str, Any]] = {}
    """How targets are validated."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on rows.

        Args:
            X: Inputs, shape (n_samples, n_features).
            y: Targets, shape (n_samples,), or for a regression also (n_samples, n_outputs).
            sample_weight: A row of weight 3 counts as three equal rows, one of weight 0 not at all.

        Returns:
            The estimator.
        """
        inputs, targets = validate_data(self, X, y, **NUMBERS, **self._targets)
        self._forget()
        self._train(inputs, targets, _weights(sample_weight, inputs))
        return self

    def _grow(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Add rows to those of earlier calls, and train on all of them."""
        seen: tuple[np.ndarray, ...] | None = getattr(self, "_seen", None)
        least = NUMBERS | {"ensure_min_samples": NUMBERS["ensure_min_samples"] if seen is None else 1}
        inputs, targets = validate_data(self, X, y, **least, **self._targets, reset=seen is None)
        rows: tuple[np.ndarray, ...] = (inputs, targets, _weights(sample_weight, inputs))
        if seen is not None:
            rows = tuple(np.concatenate(pair) for pair in zip(seen, rows, strict=True))
        self._train(*rows)
        self._seen = rows
        return self

    def _forget(self) -> None:
        """Let go of what earlier calls to `partial_fit` left."""
        for name in ("_seen", "_given"):
            if hasattr(self, name):
                delattr(self, name)

    def _train(self, inputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> None:
        """Train on validated rows.

        Args:
            inputs: Shape (N, F).
            targets: Shape (N,) or (N, D).
            weights: Shape (N,), at least 0.

        Raises:
            NotImplementedError: If it is not that of a subclass.
        """
        raise NotImplementedError

    def _fit_ensemble(
        self, fit: Callable[..., list[EnsembleFit]], rows: _Rows, y: np.ndarray, make: Callable[[], nn.Module]
    ) -> None:
        """Standardise the inputs, train on encoded targets and keep the ensemble in float64."""
        device = torch.device(self.device or "cpu")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._center, self._scale = _moments(rows.x, rows.places, rows.weights)
        x = np.empty((len(rows.places), rows.x.shape[1]), dtype=np.float32)
        for part in _parts(len(x)):
            x[part] = (rows.x[rows.places[part]] - self._center) / self._scale
        prior = {} if self.lengthscale is None else {"lengthscale": self.lengthscale}
        (fitted,) = fit(
            lambda: make().to(device),
            [(torch.from_numpy(x).to(device), torch.from_numpy(y).to(device))],
            num_members=self.n_members,
            epochs=self.max_iter,
            batch_size=self.batch_size,
            lr=self.learning_rate_init,
            weights=None if (rows.weights == 1).all() else [torch.from_numpy(rows.weights)],
            seed=seed,
            progress=self.verbose,
            **prior,
        )
        self.ensemble_ = fitted.model.double().eval()
        self.history_ = [member.history for member in fitted.members]
        self.n_iter_ = len(self.history_[0])
        self.dropout_rates_ = np.array([list(dropout_rates(member).values()) for member in self.ensemble_.members])
        self._seed = seed

    def _draw(self, X: np.ndarray) -> Any:
        """Predict validated rows, in the units of the networks."""
        check_is_fitted(self)
        x = torch.from_numpy((X - self._center) / self._scale)
        device = next(self.ensemble_.parameters()).device
        return self.ensemble_.predict(x.to(device), num_samples=self.n_mc_samples, seed=self._seed)

    def _validated(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=NUMBERS["dtype"], reset=False))


class ConcreteDropoutRegressor(MultiOutputMixin, RegressorMixin, _ConcreteDropout):
    """Regression with learned dropout rates, intervals, and what is noise apart from what is not known.

    An ensemble of small networks, each watched on rows that it does not train on; the noise may depend on the
    inputs. Inputs and targets are standardised inside.

    Args:
        hidden_layer_sizes: Units of the hidden layers of each network.
        n_members: Networks in the ensemble.
        max_iter: Passes over the rows; None for 2,500 steps, and at least 20 passes.
        batch_size: Rows per step; None for 32 to 1,024, more for more rows.
        learning_rate_init: Largest learning rate of the cycle.
        lengthscale: Prior, see `gumdrop.kl_divergence`; None for that of `gumdrop.ensembles`.
        n_mc_samples: Draws for a prediction, spread over the networks.
        random_state: Seed, generator or None; a number gives the same model each time.
        device: Where to train and predict, such as ``"cuda"``; None for the CPU.
        verbose: Show a progress bar.

    Attributes:
        ensemble_: The `gumdrop.ensembles.RegressionEnsemble`, of standardised rows.
        dropout_rates_: Learned rate of each layer, inputs first, shape (n_members, n_layers).
        history_: For each member a list with a `gumdrop.training.EpochRecord` for each pass.
        n_iter_: Passes over the rows.
        n_features_in_: Number of columns.
        feature_names_in_: Their names, where they have names of text.

    Example:
        >>> X = np.linspace(-2, 2, 60).reshape(-1, 1)
        >>> model = ConcreteDropoutRegressor(n_members=2, max_iter=5, random_state=0).fit(X, np.sin(X[:, 0]))
        >>> mean, std = model.predict(X, return_std=True)
        >>> lower, upper = model.predict_interval(X, coverage=0.9)
        >>> mean.shape, bool((lower < upper).all())
        ((60,), True)
    """

    _targets: ClassVar[dict[str, Any]] = {"multi_output": True, "y_numeric": True}

    def _train(self, inputs: np.ndarray, observed: np.ndarray, weights: np.ndarray) -> None:
        self._single = observed.ndim == 1
        targets = observed.reshape(len(observed), -1).astype(np.float64)
        rows = _distinct(inputs, targets, weights)
        self._y_center, self._y_scale = _moments(rows.y, rows.places, rows.weights)
        standard = ((rows.y[rows.places] - self._y_center) / self._y_scale).astype(np.float32)
        hidden = tuple(self.hidden_layer_sizes)
        make = functools.partial(mlp, inputs.shape[1], targets.shape[1], hidden=hidden, homoscedastic_noise=True)
        self._fit_ensemble(fit_regression_ensembles, rows, standard, make)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows to those of earlier calls, and train on all of them: the same model as `fit` on all at once.

        The rows are kept in the estimator. As their number grows, less is unknown, and the learned rates fall. After
        `fit`, which keeps no rows, the first call begins anew.

        Args:
            X: Inputs, shape (n_samples, n_features).
            y: Targets, shape (n_samples,) or (n_samples, n_outputs).
            sample_weight: A row of weight 3 counts as three equal rows, one of weight 0 not at all.

        Returns:
            The estimator.
        """
        return self._grow(X, y, sample_weight)

    def predict_distribution(self, X: ArrayLike) -> RegressionPrediction:
        """Predict a mixture of Gaussians for each row, with the epistemic and the aleatoric part of its variance.

        Keeps 2 numbers for each row, output and draw.

        Args:
            X: Inputs, shape (n_samples, n_features).

        Returns:
            A record of float64 tensors, shape (n_samples, n_outputs), in units of the target.
        """
        return self._distribution(self._validated(X))

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Predict the mean, and how far off it may be.

        Args:
            X: Inputs, shape (n_samples, n_features).
            return_std: Give the standard deviation as well, of noise and of what is not known together.

        Returns:
            Mean, of the shape of the targets, and with ``return_std`` a pair of it and the standard deviation.
        """
        mean, std = self._over(X, lambda prediction: (prediction.mean, prediction.std))
        return (mean, std) if return_std else mean

    def predict_quantiles(self, X: ArrayLike, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Predict quantiles.

        Args:
            X: Inputs, shape (n_samples, n_features).
            quantiles: Probabilities, strictly between 0 and 1.

        Returns:
            Shape (n_samples, n_quantiles) or (n_samples, n_outputs, n_quantiles).
        """
        found = self._over(X, lambda prediction: tuple(prediction.quantile(each) for each in quantiles))
        return np.stack(found, axis=-1)

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that hold the target with a given probability.

        Args:
            X: Inputs, shape (n_samples, n_features).
            coverage: Probability, strictly between 0 and 1.

        Returns:
            Lower and upper ends, each of the shape of the targets.
        """
        lower, upper = self._over(X, lambda prediction: prediction.interval(coverage))
        return lower, upper

    def sample_y(self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draw targets; within a draw all rows share one function of the ensemble, and each has noise of its own.

        Args:
            X: Inputs, shape (n_rows, n_features).
            n_samples: Number of draws.
            random_state: Seed, generator or None.

        Returns:
            Shape (n_rows, n_samples) or (n_rows, n_outputs, n_samples), in units of the target.
        """
        random = check_random_state(random_state)
        prediction = self.predict_distribution(X)
        assert prediction.draw_means is not None
        assert prediction.draw_variances is not None
        drawn = random.randint(len(prediction.draw_means), size=n_samples)
        mean, std = prediction.draw_means[drawn].cpu().numpy(), prediction.draw_variances[drawn].sqrt().cpu().numpy()
        draws = np.moveaxis(mean + std * random.standard_normal(mean.shape), 0, -1)
        return draws[:, 0] if self._single else draws

    def log_prob(self, X: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Log density of observed targets, all outputs together, in nats.

        Args:
            X: Inputs, shape (n_samples, n_features).
            y: Observed targets.

        Returns:
            Shape (n_samples,).
        """
        validated = self._validated(X)
        targets = torch.from_numpy(np.asarray(y, dtype=np.float64).reshape(len(validated), -1))
        parts = []
        for part in _parts(len(validated)):
            prediction = self._distribution(validated[part])
            parts.append(prediction.log_prob(targets[part].to(prediction.mean.device)).cpu())
        return torch.cat(parts).numpy()

    def _distribution(self, X: np.ndarray) -> RegressionPrediction:
        prediction = self._draw(X)
        scale, shift = (torch.from_numpy(each).to(prediction.mean) for each in (self._y_scale, self._y_center))
        return prediction.rescale(scale, shift)

    def _over(self, X: Any, of: Callable[[RegressionPrediction], tuple[Tensor, ...]]) -> list[np.ndarray]:
        """Results for all rows, made of some at a time."""
        validated = self._validated(X)
        parts = [of(self._distribution(validated[part])) for part in _parts(len(validated))]
        whole = [torch.cat(each).cpu().numpy() for each in zip(*parts, strict=True)]
        return [each[:, 0] if self._single else each for each in whole]


class ConcreteDropoutClassifier(ClassifierMixin, _ConcreteDropout):
    """Classification with learned dropout rates and probabilities that are averaged over functions.

    An ensemble of small networks, each of which keeps the pass that is best on rows that it does not train on.
    Inputs are standardised inside; labels may be of any type.

    Args:
        hidden_layer_sizes: Units of the hidden layers of each network.
        n_members: Networks in the ensemble.
        max_iter: Passes over the rows; None for 2,500 steps, and at least 20 passes.
        batch_size: Rows per step; None for 32 to 1,024, more for more rows.
        learning_rate_init: Largest learning rate of the cycle.
        lengthscale: Prior, see `gumdrop.kl_divergence`; None for that of `gumdrop.ensembles`.
        n_mc_samples: Draws for a prediction, spread over the networks.
        random_state: Seed, generator or None; a number gives the same model each time.
        device: Where to train and predict, such as ``"cuda"``; None for the CPU.
        verbose: Show a progress bar.

    Attributes:
        classes_: The labels, sorted.
        ensemble_: The `gumdrop.ensembles.ClassificationEnsemble`, of standardised rows.
        dropout_rates_: Learned rate of each layer, inputs first, shape (n_members, n_layers).
        history_: For each member a list with a `gumdrop.training.EpochRecord` for each pass.
        n_iter_: Passes over the rows.
        n_features_in_: Number of columns.
        feature_names_in_: Their names, where they have names of text.

    Example:
        >>> X = np.linspace(-2, 2, 60).reshape(-1, 1)
        >>> y = np.where(X[:, 0] > 0, "up", "down")
        >>> model = ConcreteDropoutClassifier(n_members=2, max_iter=5, random_state=0).fit(X, y)
        >>> model.predict_proba(X).shape, model.classes_.tolist()
        ((60, 2), ['down', 'up'])
    """

    def _train(self, inputs: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> None:
        check_classification_targets(labels)
        found = labels[weights > 0]
        given = getattr(self, "_given", found[:0])
        self.classes_ = np.unique(np.concatenate([found, given]) if len(given) else found)
        if len(self.classes_) < 2:
            raise ValueError(f"a classifier needs rows of at least 2 classes, got the class {self.classes_.tolist()}")
        codes = np.searchsorted(self.classes_, np.where(weights > 0, labels, self.classes_[0]))
        rows = _distinct(inputs, codes.reshape(-1, 1), weights)
        make = functools.partial(mlp, inputs.shape[1], len(self.classes_), hidden=tuple(self.hidden_layer_sizes))
        self._fit_ensemble(fit_classification_ensembles, rows, codes[rows.places], make)

    def partial_fit(
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
            The estimator.
        """
        if classes is not None:
            self._given = np.unique(np.asarray(classes))
        return self._grow(X, y, sample_weight)

    def predict_distribution(self, X: ArrayLike) -> ClassificationPrediction:
        """Predict class probabilities, with entropies and the mutual information of label and function, in nats.

        Args:
            X: Inputs, shape (n_samples, n_features).

        Returns:
            A record of float64 tensors; its classes are in the order of ``classes_``.
        """
        validated = self._validated(X)
        parts = [self._draw(validated[part]) for part in _parts(len(validated))]
        return ClassificationPrediction(
            torch.cat([part.log_probabilities for part in parts]), torch.cat([part.expected_entropy for part in parts])
        )

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
            y: Observed labels.

        Returns:
            Shape (n_samples,).

        Raises:
            ValueError: If a label is none of ``classes_``.
        """
        log_p, labels = self.predict_log_proba(X), np.asarray(y)
        if not (known := np.isin(labels, self.classes_)).all():
            raise ValueError(f"`y` must hold labels of `classes_`, got '{labels[~known][0]}'")
        return np.asarray(log_p[np.arange(len(log_p)), np.searchsorted(self.classes_, labels)])


def _parts(num_rows: int) -> list[slice]:
    return [slice(start, start + ROWS_AT_ONCE) for start in range(0, num_rows, ROWS_AT_ONCE)]


def _weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    """Check weights of rows; float64."""
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))


def _distinct(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> _Rows:
    """Find the distinct rows of positive weight, sorted, and sum the weights of those that are equal."""
    order = np.lexsort([*y.T, *x.T])
    order = order[weights[order] > 0]
    new = np.ones(len(order), dtype=bool)
    for part in _parts(len(order) - 1):
        here, after = order[:-1][part], order[1:][part]
        new[1:][part] = (x[here] != x[after]).any(1) | (y[here] != y[after]).any(1)
    starts = np.flatnonzero(new)
    if len(starts) < NUMBERS["ensure_min_samples"]:
        raise ValueError(f"an ensemble needs at least 4 different rows of positive weight, got {len(starts)}")
    return _Rows(x, y, order[starts], np.add.reduceat(weights[order], starts))


def _moments(values: np.ndarray, places: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and standard deviation of each column over some rows; 1 for the latter where it is 0."""
    mean = np.zeros(values.shape[1])
    for part in _parts(len(places)):
        mean += weights[part] @ values[places[part]]
    mean /= weights.sum()
    square = np.zeros(values.shape[1])
    for part in _parts(len(places)):
        square += weights[part] @ (values[places[part]] - mean) ** 2
    std = np.sqrt(square / weights.sum())
    return mean, np.where(std > 1e-12 * (1 + np.abs(mean)), std, 1.0)
