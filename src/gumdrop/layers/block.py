"""A site with the parameters that it drops."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from gumdrop.layers.site import ConcreteDropout

__all__ = ["Block"]


class Block(NamedTuple):
    """A site with the parameters that it drops: one factor of the approximate posterior."""

    name: str
    """Name of the site: the layer's, followed for recurrent and attention modules by that of the weight."""
    site: ConcreteDropout
    weight: Tensor
    """The parameter whose columns are dropped."""
    biases: tuple[Tensor, ...]
    """Parameters of the same map that are never dropped."""
    columns: Callable[[Tensor], Tensor]
    """Shapes a weight into a matrix (rows, K)."""
    fan_in: int
    """Number of inputs that each output unit sums over."""
