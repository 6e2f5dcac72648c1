"""Moments of draws, without keeping the draws."""

from typing import Any

from torch import Tensor


class RunningMoments:
    """Mean and population variance of draws that come a few at a time (Chan, Golub & LeVeque 1983)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Any = None
        self._squares: Any = None

    def add(self, values: Tensor) -> None:
        """Take in more draws, in dimension 0."""
        before, self.count = self.count, self.count + len(values)
        origin = self.mean if before else values[0]
        mean = origin + ((values - origin) / len(values)).sum(0)  # divided first: variances may be huge
        within = (values - mean).square().sum(0)
        if not before:
            self.mean, self._squares = mean, within
            return
        difference = mean - self.mean
        self.mean = self.mean + difference * (len(values) / self.count)
        self._squares = self._squares + within + difference.square() * (before * len(values) / self.count)

    @property
    def variance(self) -> Any:
        """Population variance of the draws so far."""
        return self._squares / self.count
