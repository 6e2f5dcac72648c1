"""Calibration under other ways to average draws and to choose pixels, on the same networks."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from gumdrop_experiments.camvid.scores import binned, calibration_error, overconfidence
from gumdrop_experiments.data.camvid import VOID
from gumdrop_experiments.harness.plain import Plain


def calibration_by_averages(pictures: Iterable[tuple[Tensor, Tensor]]) -> Plain:
    """Score drawn functions by the mean of their probabilities and, as the report does, of their logarithms.

    The exponential of a mean logarithm is at most the mean probability: the classes then add up to less than 1. Of all
    pixels, those without a class are never right. Pictures are log probabilities of draws, (S, N, C, H, W), with the
    true classes, (N, H, W).
    """
    bins: dict[str, Tensor] = {}
    for log_p, labels in pictures:
        probabilities = torch.logsumexp(log_p, dim=0) - math.log(len(log_p))
        for average, mean in (("probabilities", probabilities), ("logarithms", log_p.mean(0))):
            p, label = mean.exp().max(1)
            for pixels, chosen in (("of a class", labels != VOID), ("all", torch.ones_like(labels, dtype=torch.bool))):
                sums = binned(p[chosen], (label == labels)[chosen])
                name = f"{average}, {pixels}"
                bins[name] = bins.get(name, torch.zeros_like(sums)) + sums
    return {
        name: {"ece": calibration_error(each), "overconfidence": overconfidence(each)} for name, each in bins.items()
    }
