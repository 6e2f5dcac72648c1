"""Log likelihoods of pixels, some of which have no class."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from gumdrop_experiments.data.camvid import VOID


def pixel_nll(logits: Tensor, labels: Tensor) -> Tensor:
    """Negative log likelihood of pictures: the sum over pixels that have a class, in nats, shape (N,)."""
    return F.cross_entropy(logits, labels.long(), ignore_index=VOID, reduction="none").flatten(1).sum(1)


def noisy_log_probabilities(output: Tensor, noise: Tensor) -> Tensor:
    """Log of the class probabilities, averaged over Gaussian noise on the logits (Kendall & Gal 2017, eq. 12).

    The output holds logits and the log variances of their noise, (N, 2 C, H, W); the noise (D, ...) broadcasts to D
    times the logits.
    """
    logits, log_variance = output.chunk(2, dim=1)
    drawn = logits + noise * torch.exp(0.5 * log_variance)
    return torch.logsumexp(torch.log_softmax(drawn, dim=2), dim=0) - math.log(len(drawn))
