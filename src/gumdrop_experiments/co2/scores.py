"""What a prediction of the later months is worth."""

import torch
from torch import Tensor

from gumdrop.metrics import central_coverage
from gumdrop.prediction import RegressionPrediction

__all__ = ["scores"]

LEVELS = (0.5, 0.9, 0.95)


def scores(prediction: RegressionPrediction, target: Tensor) -> dict[str, float]:
    """Log likelihood and coverage of the later truth, and the error of the mean, in units of the training targets."""
    coverage = central_coverage(prediction, target, torch.tensor(LEVELS, dtype=target.dtype)).tolist()
    return {
        "log_likelihood": prediction.log_prob(target).mean().item(),
        "rmse": (prediction.mean - target).square().mean().sqrt().item(),
        **{f"coverage_{100 * level:.0f}": share for level, share in zip(LEVELS, coverage, strict=True)},
    }
