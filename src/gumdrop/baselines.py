"""Plain models to stand beside a learned one, as predictions of the same kind, so that the same scores apply."""

import contextlib

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_predict
from threadpoolctl import threadpool_limits
from torch import Tensor

from gumdrop.prediction import ClassificationPrediction, RegressionPrediction

__all__ = ["boosted_classes", "boosted_regression", "frequencies", "mean_of_targets"]


ROWS_FOR_THREADS = 20_000
"""Rows from which trees grow on several threads; below, these wait for each other, for minutes on a busy machine."""


def _threads_for(num_rows: int) -> contextlib.AbstractContextManager[object]:
    return contextlib.nullcontext() if num_rows >= ROWS_FOR_THREADS else threadpool_limits(1, user_api="openmp")


def _gaussian(mean: Tensor, variance: float) -> RegressionPrediction:
    """Make a prediction of one component: all of its variance is noise."""
    noise = torch.full_like(mean, variance)
    return RegressionPrediction(mean, torch.zeros_like(mean), noise, mean[None], noise[None])


def _certain(log_probabilities: Tensor) -> ClassificationPrediction:
    """Make a prediction of one function: all of its uncertainty is in the class."""
    entropy = torch.special.entr(log_probabilities.exp()).sum(1)
    return ClassificationPrediction(log_probabilities, entropy)


def mean_of_targets(y_train: Tensor, num_rows: int) -> RegressionPrediction:
    """Predict the mean and variance of the training targets for every row.

    Args:
        y_train: Targets, shape (N, 1).
        num_rows: Number of rows to predict.

    Returns:
        The prediction.
    """
    return _gaussian(y_train.mean(0).expand(num_rows, -1), y_train.var().item())


def frequencies(y_train: Tensor, num_classes: int, num_rows: int) -> ClassificationPrediction:
    """Predict the class frequencies of the training part for every row.

    Args:
        y_train: Class indices, shape (N,).
        num_classes: Number of classes.
        num_rows: Number of rows to predict.

    Returns:
        The prediction; each count is raised by one, so that no probability is 0.
    """
    counts = torch.bincount(y_train, minlength=num_classes) + 1.0
    return _certain((counts / counts.sum()).log().expand(num_rows, -1))


def boosted_regression(x_train: Tensor, y_train: Tensor, x: Tensor, *, seed: int) -> RegressionPrediction:
    """Gradient-boosted trees, with Gaussian noise of the variance that 5-fold cross-validation finds.

    Args:
        x_train: Inputs, shape (N, F).
        y_train: Targets, shape (N, 1).
        x: Inputs to predict.
        seed: Seed of the trees.

    Returns:
        The prediction.
    """
    trees = HistGradientBoostingRegressor(random_state=seed)
    inputs, targets = x_train.numpy(), y_train.squeeze(1).numpy()
    with _threads_for(len(inputs)):
        residuals = targets - cross_val_predict(trees, inputs, targets, cv=min(5, len(targets)))
        mean = trees.fit(inputs, targets).predict(x.numpy())
    return _gaussian(torch.as_tensor(mean, dtype=x.dtype).unsqueeze(1), float(np.mean(residuals**2)))


def boosted_classes(
    x_train: Tensor, y_train: Tensor, num_classes: int, x: Tensor, *, seed: int
) -> ClassificationPrediction:
    """Gradient-boosted trees for classes.

    Args:
        x_train: Inputs, shape (N, F).
        y_train: Class indices, shape (N,).
        num_classes: Number of classes, also those that the training part lacks.
        x: Inputs to predict.
        seed: Seed of the trees.

    Returns:
        The prediction; probabilities are kept above 1e-6.
    """
    with _threads_for(len(x_train)):
        trees = HistGradientBoostingClassifier(random_state=seed).fit(x_train.numpy(), y_train.numpy())
        found = torch.as_tensor(trees.predict_proba(x.numpy()), dtype=torch.float32)
    probabilities = torch.full((len(x), num_classes), 1e-6)
    probabilities[:, torch.as_tensor(trees.classes_)] = found.clamp(min=1e-6)
    return _certain((probabilities / probabilities.sum(1, keepdim=True)).log())
