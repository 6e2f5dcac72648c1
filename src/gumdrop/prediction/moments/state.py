"""What is known about the units of a layer, and where their variance comes from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


class State(NamedTuple):
    """What is known about the units of a layer; the variance is None while nothing is random."""

    mean: Tensor
    variance: Tensor | None


@dataclass
class Source:
    """Noise at one place in the network."""

    mean: Tensor
    """Means of the units, which outputs are differentiated by."""
    independent: Tensor
    """Variance of noise that is added to each unit, independent of all other."""
    odds: Tensor | None = None
    """Variance of factors that several units share: of a shape that broadcasts to them, with size 1 to share."""

    def variance(self, slopes: Tensor) -> Tensor:
        """Variance that reaches an output with these slopes, one for each row."""
        total = (slopes.square() * self.independent).flatten(1).sum(1)
        if self.odds is not None:
            each = sum_to(slopes * self.mean.detach(), self.odds.shape)
            total = total + (each.square() * self.odds).flatten(1).sum(1)
        return total


def sum_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Sum over the dimensions, other than that of the rows, in which a shape has size 1."""
    shared = [dim for dim in range(1, x.ndim) if shape[dim] == 1 < x.shape[dim]]
    return x.sum(shared, keepdim=True) if shared else x


Sources = list[Source]
