r"""Intervals and alarms with a guarantee, from rows that were held out: split-conformal prediction.

A model that predicts a mean and a standard deviation says how far off it may be, but nothing holds it to that. Held-out
rows do: with :math:`r_i = |y_i - \mu(x_i)| / \sigma(x_i)` of n of them, and q the :math:`\lceil (n + 1) c \rceil`-th
smallest, the interval :math:`\mu(x) \pm q \sigma(x)` holds a new target with a probability of at least c, and at most
c + 1/(n + 1) where no two residuals are equal. The model may be any, and may be wrong. What is asked is that held-out
and new rows are exchangeable, as rows drawn at random from one table are and those of next year may not be. The
guarantee is for the average over rows, not for each.

For classes, scikit-learn has what is needed: ``CalibratedClassifierCV(FrozenEstimator(model), method="temperature")``.

References:
    Lei et al. 2018, "Distribution-Free Predictive Inference for Regression" (JASA 113, arXiv:1604.04173).
    Bates et al. 2023, "Testing for Outliers with Conformal p-values" (Annals of Statistics 51, arXiv:2104.08279).
"""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ConformalIntervals", "outlier_p_values"]


class ConformalIntervals:
    """Intervals of a fitted regressor that hold what they promise, whatever the model.

    Args:
        model: A fitted regressor with ``predict(X, return_std=True)``: one of `gumdrop.estimators`, or
            ``GaussianProcessRegressor`` or ``BayesianRidge`` of scikit-learn.

    Example:
        >>> from sklearn.linear_model import BayesianRidge
        >>> random = np.random.default_rng(0)
        >>> X, y = random.normal(size=(300, 1)), random.standard_t(2, 300)
        >>> intervals = ConformalIntervals(BayesianRidge().fit(X[:100], y[:100])).calibrate(X[100:200], y[100:200])
        >>> lower, upper = intervals.predict_interval(X[200:], coverage=0.9)
        >>> float(np.mean((lower <= y[200:]) & (y[200:] <= upper)))
        0.89
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def calibrate(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Take the residuals of rows that the model was not fitted to.

        Args:
            X: Inputs, shape (n_samples, n_features).
            y: Targets, shape (n_samples,) or (n_samples, n_outputs); each output has a guarantee of its own.

        Returns:
            The same object.

        Raises:
            ValueError: If the targets have another shape than the predictions, or are not finite.
        """
        mean, std = self.model.predict(X, return_std=True)
        targets = np.asarray(y, dtype=np.float64)
        if targets.shape != mean.shape or not np.isfinite(targets).all():
            raise ValueError(f"`y` must hold finite numbers of shape {mean.shape}, got shape {targets.shape}")
        self.residuals_ = np.sort(np.abs(targets - mean) / std, axis=0)
        return self

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predict intervals that hold the target with at least a given probability.

        Args:
            X: Inputs, shape (n_samples, n_features).
            coverage: Probability, strictly between 0 and 1.

        Returns:
            Lower and upper ends, each of the shape of the targets.

        Raises:
            ValueError: If ``coverage`` is out of range, or too near to 1 for the number of held-out rows.
            AttributeError: If `calibrate` was not called.
        """
        if not hasattr(self, "residuals_"):
            raise AttributeError("the intervals have no held-out rows yet; call `calibrate(X, y)` first")
        if not 0 < coverage < 1:
            raise ValueError(f"`coverage` must be strictly between 0 and 1, got {coverage}")
        rank = _rank(len(self.residuals_), coverage)
        mean, std = self.model.predict(X, return_std=True)
        reach = self.residuals_[rank - 1] * std
        return mean - reach, mean + reach


def _rank(count: int, coverage: float) -> int:
    """Which of the sorted residuals an interval must reach, counted from 1."""
    rank = math.ceil((count + 1) * coverage - 1e-9)  # (9 + 1) * 0.9 is 9, and rounding must not make it 10
    if rank > count:
        need = math.ceil(coverage / (1 - coverage) - 1e-9)
        raise ValueError(f"`coverage` of {coverage} needs at least {need} held-out rows, got {count}")
    return rank


def outlier_p_values(score: ArrayLike, reference: ArrayLike) -> NDArray[np.float64]:
    r"""How likely a score as high is among rows like those held out, from any score of strangeness.

    .. math:: p = \frac{1 + \#\{i : r_i \ge s\}}{n + 1}

    For rows like the held-out ones, P(p <= a) is at most a: an alarm at p <= 0.05 is false for 1 row in 20.

    Args:
        score: Scores of new rows, high for strange ones, such as `RegressionPrediction.epistemic` or
            `ClassificationPrediction.mutual_information`; shape (N,).
        reference: Scores of held-out rows that are no outliers, shape (n,).

    Returns:
        Shape (N,), in (0, 1].

    Raises:
        ValueError: If there are no held-out rows, or a shape is another one.

    Example:
        >>> outlier_p_values([0.5, 9.0], [0.1, 0.4, 0.6])
        array([0.5 , 0.25])
    """
    scores, known = np.asarray(score, dtype=np.float64), np.sort(np.asarray(reference, dtype=np.float64))
    if scores.ndim != 1 or known.ndim != 1 or not len(known):
        raise ValueError(
            f"`score` and `reference` must be of shape (N,) and (n,), n > 0, got {scores.shape} and {known.shape}"
        )
    return np.asarray((1 + len(known) - np.searchsorted(known, scores, side="left")) / (len(known) + 1))
