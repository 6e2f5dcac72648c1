"""Quantiles and intervals of a regressor inside what scikit-learn puts around it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline


def predict_quantiles(model: Any, X: ArrayLike, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> np.ndarray:
    """Predict quantiles with a regressor that stands in a pipeline, a search, or behind a transformed target.

    The inputs go through the steps in front of the regressor. Of a target that was transformed, the quantiles are
    those of the regressor, transformed back: exact for every transform that rises or falls throughout.

    Args:
        model: A fitted ``Pipeline``, ``TransformedTargetRegressor`` or search, nested in any way, around an estimator
            that has ``predict_quantiles``, such as `ConcreteDropoutRegressor`; or that itself.
        X: Inputs as ``model.predict`` takes them.
        quantiles: Probabilities, strictly between 0 and 1.

    Returns:
        Shape (n_samples, n_quantiles), and what the estimator gives for several targets.

    Raises:
        TypeError: If there is no such estimator in it.
        ValueError: If the transform of the target neither rises nor falls throughout, or is one of several targets.

    Example:
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> from gumdrop.estimators import ConcreteDropoutRegressor
        >>> x = np.linspace(1, 2, 60).reshape(-1, 1)
        >>> inner = make_pipeline(StandardScaler(), ConcreteDropoutRegressor(n_members=2, max_iter=5, random_state=0))
        >>> model = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp).fit(x, np.exp(x[:, 0]))
        >>> bool((predict_quantiles(model, x, [0.01])[:, 0] > 0).all())
        True
    """
    if isinstance(model, Pipeline):
        for _, step in model.steps[:-1]:
            if step is not None and step != "passthrough":
                X = step.transform(X)
        return predict_quantiles(model.steps[-1][1], X, quantiles)
    if isinstance(model, TransformedTargetRegressor):
        return _transformed_back(model, X, quantiles)
    if hasattr(model, "best_estimator_"):
        return predict_quantiles(model.best_estimator_, X, quantiles)
    if not hasattr(model, "predict_quantiles"):
        raise TypeError(
            f"`model` must hold an estimator with `predict_quantiles`, such as ConcreteDropoutRegressor, got "
            f"{type(model).__name__}"
        )
    return np.asarray(model.predict_quantiles(X, quantiles))


def predict_interval(model: Any, X: ArrayLike, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """Predict intervals as `predict_quantiles` predicts quantiles.

    Args:
        model: As there.
        X: As there.
        coverage: Probability that an interval holds the target, strictly between 0 and 1.

    Returns:
        Lower and upper ends, each of the shape of the targets.

    Raises:
        ValueError: If ``coverage`` is out of its range, and as there.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"`coverage` must be strictly between 0 and 1, got {coverage}")
    ends = predict_quantiles(model, X, [(1 - coverage) / 2, (1 + coverage) / 2])
    return ends[..., 0], ends[..., 1]


def _transformed_back(model: TransformedTargetRegressor, X: ArrayLike, quantiles: Sequence[float]) -> np.ndarray:
    """Quantiles in the units of the target: where its transform falls, those of the other end."""
    asked = sorted({*quantiles, *(1 - each for each in quantiles), 0.25, 0.75})
    levels = predict_quantiles(model.regressor_, X, asked)
    if levels.ndim != 2:
        raise ValueError("`model` must have one target behind its transform, got several: fit one model for each")
    back = np.stack([model.transformer_.inverse_transform(each[:, None])[:, 0] for each in levels.T], axis=1)
    steps, rounding = np.diff(back, axis=1), 1e-9 * np.abs(back).max()  # a step back of less is one of rounding
    if not ((steps >= -rounding).all() or (steps <= rounding).all()):
        raise ValueError(
            "the inverse transform of the target in `model` must rise or fall throughout, or quantiles are not carried "
            "over: use one that is monotone"
        )
    falls = (steps < -rounding).any()
    return back[:, [asked.index(1 - each if falls else each) for each in quantiles]]
