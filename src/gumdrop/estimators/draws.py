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
        left, level = left - left.max(0), np.log(random.uniform(size=count))
        draws, rows = np.nonzero(level[:, None] > left[drawn, np.arange(means.shape[1])])
        while len(rows):
            function, level = random.randint(len(means), size=count)[draws], np.log(random.uniform(size=count))[draws]
            drawn[draws, rows] = function
            waits = level > left[function, rows]
            draws, rows = draws[waits], rows[waits]
    return drawn
