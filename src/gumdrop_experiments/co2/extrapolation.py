"""What a trained network says of all months, and how good that is for those that followed."""

import math
import time

import numpy as np
import torch
from torch import nn

from gumdrop import predict_regression
from gumdrop_experiments.co2.series import ASKED, Series, scores
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import rounded


def extrapolate(model: nn.Module, data: Series, *, num_samples: int, seed: int) -> Plain:
    """Draw functions from a network and score what they say of later months."""
    device = next(model.parameters()).device
    asked, later = (
        torch.from_numpy(each).float()[:, None].to(device) for each in (np.r_[ASKED, data.x[-1]], data.later_x)
    )
    started = time.process_time()
    # The same seed draws the same functions.
    drawn, judged = (predict_regression(model, x, num_samples=num_samples, seed=seed) for x in (asked, later))
    seconds = time.process_time() - started
    with torch.no_grad():
        averaged = model(asked)[:-1, 0]
    std, at_end = drawn.epistemic.sqrt()[:, 0], judged.epistemic[-1].sqrt()
    return {
        "noise": math.sqrt(drawn.aleatoric[0, 0].item()),
        "seconds_of_draws": seconds,
        "curve": {
            "mean": rounded(drawn.mean[:-1, 0]),
            "averaged": rounded(averaged),
            "epistemic": rounded(std[:-1]),
        },
        "band_at_last": std[-1].item(),
        "band_at_end": at_end.item(),
        "band_ratio": (at_end / std[-1]).item(),
        "later": scores(judged, torch.from_numpy(data.later_y).float()[:, None].to(device)),
    }
