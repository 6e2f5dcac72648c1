"""A site with the parameters that it drops, and where a layer keeps it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gumdrop.layers.rate import logit_of
from gumdrop.layers.site import ConcreteDropout

NEVER = -200.0
"""Logit of a rate that is 0 in float32."""

SITE = "concrete_dropout"
"""Name of the child of a layer that is its site, or holds its sites by the names of their weights."""


class Block(NamedTuple):
    """A site with the parameters that it drops: one factor of the approximate posterior."""

    name: str
    """Name of the site: the layer's, followed for recurrent and attention modules by that of the weight."""
    site: ConcreteDropout
    weight: Tensor
    """The parameter whose columns are dropped; one without elements where no weight is known."""
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


def without_weight(name: str, site: ConcreteDropout) -> Block:
    """Block of a site that no known weight stands behind: its KL is the entropy of its masks alone."""
    return Block(name, site, site.scaled_logit.detach().new_empty(0), (), as_matrix, 0)


def p_logits(sites: Sequence[ConcreteDropout], device: torch.device) -> Tensor:
    """Stack the logits of L sites that have one rate each, shape (L,)."""
    return logit_of(torch.stack([site.scaled_logit.to(device) for site in sites]))
