"""Classes as one function predicts them, and how good predictions and their uncertainty are."""

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from gumdrop.likelihoods import ClassificationPrediction, RegressionPrediction
from gumdrop.metrics import accuracy, brier_score, calibration_error, interval_coverage, rmse


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


def number_scores(prediction: RegressionPrediction, target: Tensor) -> dict[str, float]:
    """Score predicted numbers by NLL in nats per row, RMSE, and the share of targets in 90 % intervals."""
    return {
        "nll": -prediction.log_prob(target).mean().item(),
        "rmse": rmse(prediction.mean, target).item(),
        "coverage": interval_coverage(*prediction.interval(0.9), target).item(),
    }


def auroc(known: Tensor, unknown: Tensor) -> float:
    """Area under the receiver's curve: how often an unknown row is more uncertain than a known one."""
    truth = np.repeat([0, 1], [len(known), len(unknown)])
    return float(roc_auc_score(truth, torch.cat([known, unknown]).numpy()))
