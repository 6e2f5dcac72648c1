"""Plain models to stand beside a learned one, as predictions of the same kind, so that the same scores apply."""

import contextlib
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from threadpoolctl import threadpool_limits
from torch import Tensor

from gumdrop.likelihoods import ClassificationPrediction, RegressionPrediction
from gumdrop.machine.threads import ROWS_FOR_THREADS


def _threads_for(num_rows: int) -> contextlib.AbstractContextManager[object]:
    return contextlib.nullcontext() if num_rows >= ROWS_FOR_THREADS else threadpool_limits(1)


def _least_leaf(num_rows: int) -> int:
    """Rows of a leaf: scikit-learn's 20, but a tenth of a short table, which such leaves could not split at all."""
    return min(20, max(2, num_rows // 10))


def mean_of_targets(y_train: Tensor, num_rows: int) -> RegressionPrediction:
    """Predict the mean and variance of the training targets, (N, 1), for every row."""
    mean = y_train.mean(0).expand(num_rows, -1)
    return RegressionPrediction.gaussian(mean, torch.full_like(mean, y_train.var().item()))


def frequencies(y_train: Tensor, num_classes: int, num_rows: int) -> ClassificationPrediction:
    """Predict the class frequencies of the training part for every row; each count is raised by one, so none is 0."""
    counts = torch.bincount(y_train, minlength=num_classes) + 1.0
    return ClassificationPrediction.from_log_probabilities((counts / counts.sum()).log().expand(num_rows, -1))


def boosted_regression(x_train: Tensor, y_train: Tensor, x: Tensor, *, seed: int) -> RegressionPrediction:
    """Return what gradient-boosted trees say of rows, with the noise that 5-fold cross-validation finds.

    Example:
        >>> x = torch.linspace(-1, 1, 60).unsqueeze(1)
        >>> boosted_regression(x, x**2, x[:5], seed=0).mean.shape
        torch.Size([5, 1])
    """
    trees = HistGradientBoostingRegressor(random_state=seed, min_samples_leaf=_least_leaf(len(x_train)))
    return _with_noise(trees, x_train, y_train, x, seed)


def linear_regression(x_train: Tensor, y_train: Tensor, x: Tensor, *, seed: int) -> RegressionPrediction:
    """Ridge regression, its strength by leave-one-out where rows are few, with noise as in `boosted_regression`."""
    model = RidgeCV(alphas=np.logspace(-2, 4, 7)) if len(x_train) < ROWS_FOR_THREADS else Ridge()
    return _with_noise(model, x_train, y_train, x, seed)


def _with_noise(model: Any, x_train: Tensor, y_train: Tensor, x: Tensor, seed: int) -> RegressionPrediction:
    """Predict with a model of scikit-learn; rows are shuffled into folds, as a table may be sorted by anything."""
    inputs, targets = x_train.numpy(), y_train.squeeze(1).numpy()
    folds = KFold(min(5, len(targets)), shuffle=True, random_state=seed)
    with _threads_for(len(inputs)):
        residuals = targets - cross_val_predict(model, inputs, targets, cv=folds)
        mean = model.fit(inputs, targets).predict(x.numpy())
    column = torch.as_tensor(mean, dtype=x.dtype).unsqueeze(1)
    return RegressionPrediction.gaussian(column, torch.full_like(column, float(np.mean(residuals**2))))


def boosted_classes(
    x_train: Tensor, y_train: Tensor, num_classes: int, x: Tensor, *, seed: int
) -> ClassificationPrediction:
    """Return what gradient-boosted trees say of the classes of rows, of so many that there are; each has above 1e-6.

    Example:
        >>> x = torch.linspace(-1, 1, 60).unsqueeze(1)
        >>> boosted_classes(x, (x[:, 0] > 0).long(), 2, x[:5], seed=0).label
        tensor([0, 0, 0, 0, 0])
    """
    trees = HistGradientBoostingClassifier(random_state=seed, min_samples_leaf=_least_leaf(len(x_train)))
    return _probabilities(trees, x_train, y_train, num_classes, x)


def linear_classes(x_train: Tensor, y_train: Tensor, num_classes: int, x: Tensor) -> ClassificationPrediction:
    """Logistic regression of inputs near unit scale; probabilities are kept above 1e-6."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near enough for a comparison
        return _probabilities(LogisticRegression(max_iter=500), x_train, y_train, num_classes, x)


def _probabilities(
    model: Any, x_train: Tensor, y_train: Tensor, num_classes: int, x: Tensor
) -> ClassificationPrediction:
    if len(y_train.unique()) < 2:  # scikit-learn's classifiers need two
        return frequencies(y_train, num_classes, len(x))
    with _threads_for(len(x_train)):
        model.fit(x_train.numpy(), y_train.numpy())
        p = torch.as_tensor(model.predict_proba(x.numpy()), dtype=torch.float32)
    probabilities = torch.full((len(x), num_classes), 1e-6)
    probabilities[:, torch.as_tensor(model.classes_)] = p.clamp(min=1e-6)
    return ClassificationPrediction.from_log_probabilities((probabilities / probabilities.sum(1, keepdim=True)).log())
