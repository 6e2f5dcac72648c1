"""Which functions of an ensemble the draws of a target follow."""

from typing import Any

import numpy as np
from torch import Tensor
from torch.special import log_ndtr

from gumdrop.likelihoods import TargetScale


def functions_of_rows(means: Tensor, variances: Tensor, scale: TargetScale, count: int, random: Any) -> np.ndarray:
    """Which function each row has in each draw, (count, N): one for all, but where rows are cut off the first kept."""
    drawn = random.randint(len(means), size=(count, 1)).repeat(means.shape[1], 1)
    if scale.cuts and scale.kind != "censored" and not scale.counts:
        left = log_ndtr((means - scale.floor) / variances.sqrt())[:, :, 0].numpy()
        left, rows, waits = left - left.max(0), np.arange(means.shape[1]), np.ones(drawn.shape, dtype=bool)
        while (waits := waits & (np.log(random.uniform(size=(count, 1))) > left[drawn, rows])).any():
            drawn = np.where(waits, random.randint(len(means), size=(count, 1)), drawn)
    return drawn
