"""Masks that tests choose, and what of a weight a mask drops, written out from the definition of the layer."""

from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.layers.site import bernoulli_factors


def force(site: Any, kept: Tensor) -> None:
    """Make a site draw these masks, (rows, K) or (1, K): the noise is above every rate or below it."""
    site.factor_source = bernoulli_factors(lambda site, rows: torch.where(kept, 0.999, 0.0))


def force_each(module: Any, rows: int, p: float, seed: int = 1) -> dict[str, Tensor]:
    """Give every site of a module known masks, which differ from row to row; return the factors of each by name."""
    factors = {}
    generator = torch.Generator().manual_seed(seed)
    for name, site in module.concrete_dropout.named_children():
        kept = torch.rand(rows, site.num_units, generator=generator) > p
        kept[:, 0] = torch.arange(rows) % 2 == 0
        kept[:, 1] = torch.arange(rows) % 2 == 1
        factors[name] = kept / (1 - p)
        force(site, kept)
    return factors


def columns_of(layer: Any, unit: int) -> Tensor:
    """Index the entries of a weight that multiply one input unit."""
    touched = torch.zeros_like(layer.weight, dtype=torch.bool)
    if isinstance(layer, nn.Linear):
        touched[:, unit] = True
    elif layer.transposed:
        touched[unit] = True
    else:
        per_group = layer.in_channels // layer.groups
        for output in range(layer.out_channels):
            group = output // (layer.out_channels // layer.groups)
            if unit // per_group == group:
                touched[output, unit % per_group] = True
    return touched
