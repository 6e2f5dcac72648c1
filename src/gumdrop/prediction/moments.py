"""Moments of draws, without keeping the draws."""

from typing import Any

from torch import Tensor

__all__ = ["RunningMoments"]


class RunningMoments:
    """Mean and population variance of draws that come one at a time (Welford 1962)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Any = 0.0
        self._squares: Any = 0.0

    def add(self, value: Tensor) -> None:
        """Take in one more draw."""
        self.count += 1
        deviation = value - self.mean
        self.mean = self.mean + deviation / self.count
        self._squares = self._squares + deviation * (value - self.mean)

    @property
    def variance(self) -> Any:
        """Population variance of the draws so far."""
        return self._squares / self.count
