"""What the grid search of `uci` tries: fixed rates and fixed noise."""

import itertools
import math
from collections.abc import Sequence

from torch import Tensor, nn

from gumdrop_experiments.data.uci import Split
from gumdrop_experiments.uci.work import network

RATES_OF_GRID = (0.005, 0.01, 0.05, 0.1)
GRID: dict[str, tuple[float, float, float]] = {
    "boston-housing": (0.1, 0.15, 0.2),
    "concrete-strength": (0.025, 0.05, 0.075),
    "kin8nm": (150.0, 200.0, 250.0),
    "wine-quality-red": (2.5, 3.0, 3.5),
}
"""Noise precisions of the published search, in units of the target; for other sets see `grid_settings`."""


def grid_settings(name: str, splits: Sequence[Split]) -> list[tuple[float, float]]:
    """List rates and noise precisions to search."""
    variance = splits[0].y_std ** 2
    precisions = GRID.get(name, (2 / variance, 10 / variance, 50 / variance))
    return list(itertools.product(RATES_OF_GRID, precisions))


def fixed_network(split: Split, rate: float, precision: float) -> nn.Sequential:
    """Build a network with fixed dropout and fixed noise, whose precision is in units of the target."""
    model = network(split, p=rate, fixed=True)
    log_variance = model[-1].log_variance
    assert isinstance(log_variance, Tensor)
    log_variance.requires_grad_(False).fill_(-math.log(precision * split.y_std**2))
    return model
