"""A site with the parameters that it drops, and where a layer keeps it."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from gumdrop.layers.site import ConcreteDropout

__all__ = ["SITE", "Block", "as_matrix", "joined"]

SITE = "concrete_dropout"
"""Name of the child of a layer that is its site, or holds its sites by the names of their weights."""


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


def as_matrix(weight: Tensor) -> Tensor:
    """Columns of a weight that is stored as (outputs, inputs)."""
    return weight


def joined(name: str, part: str) -> str:
    """Name of a part of a layer, which may be the model."""
    return f"{name}.{part}" if name else part
