"""Predictions of classes, and how good they are."""

import torch
from torch import Tensor, nn

from gumdrop.metrics import accuracy, brier_score, calibration_error
from gumdrop.prediction import ClassificationPrediction

__all__ = ["plain_prediction", "scores"]


def plain_prediction(model: nn.Module, x: Tensor) -> ClassificationPrediction:
    """Predict with dropout off, as one function.

    Args:
        model: A classifier in eval mode.
        x: Its inputs.

    Returns:
        The prediction.
    """
    with torch.no_grad():
        return ClassificationPrediction.from_log_probabilities(torch.log_softmax(model(x), dim=1))


def scores(prediction: ClassificationPrediction, target: Tensor) -> dict[str, float]:
    """Score predicted classes.

    Args:
        prediction: The prediction.
        target: The classes, shape (N,).

    Returns:
        Accuracy, negative log likelihood in nats per image, expected calibration error and Brier score.
    """
    return {
        "accuracy": accuracy(prediction.label, target).item(),
        "nll": -prediction.log_prob(target).mean().item(),
        "ece": calibration_error(prediction, target).item(),
        "brier": brier_score(prediction, target).item(),
    }
