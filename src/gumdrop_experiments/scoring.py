"""Classes as one function predicts them, and how good predicted classes are."""

import torch
from torch import Tensor, nn

from gumdrop.likelihoods import ClassificationPrediction
from gumdrop.metrics import accuracy, brier_score, calibration_error


def plain_prediction(model: nn.Module, x: Tensor, *, batch_size: int | None = None) -> ClassificationPrediction:
    """Predict with dropout off, as one function."""
    with torch.no_grad():
        log_p = [torch.log_softmax(model(part), dim=1) for part in x.split(batch_size or len(x))]
    return ClassificationPrediction.from_log_probabilities(torch.cat(log_p))


def class_scores(prediction: ClassificationPrediction, target: Tensor) -> dict[str, float]:
    """Score predicted classes by accuracy, NLL in nats per row, expected calibration error and Brier score."""
    return {
        "accuracy": accuracy(prediction.label, target).item(),
        "nll": -prediction.log_prob(target).mean().item(),
        "ece": calibration_error(prediction, target).item(),
        "brier": brier_score(prediction, target).item(),
    }
