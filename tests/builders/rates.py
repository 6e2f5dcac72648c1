"""Rates that tests choose."""

from typing import Any

import torch
from torch import Tensor

from gumdrop.layers import UNIT


def set_logit(site: Any, logit: float | Tensor) -> None:
    """Put a logit, or one for each unit, where training would put it."""
    site.scaled_logit.data.copy_(torch.as_tensor(logit).detach() / UNIT)
