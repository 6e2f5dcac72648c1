r"""Mean and variance of the outputs of a network whose drops are rare: each unit is dropped once, alone.

With :math:`y` the output without masks and :math:`y_k` that without unit k, to first order in the rates

.. math:: \operatorname{var} y = \sum_k \frac{p_k}{1 - p_k} (y_k - y)^2, \qquad
          \operatorname{E} y = y^+ + \sum_k \frac{p_k}{1 - p_k} (y_k - y)

where :math:`y^+` is the output of units that are all kept, and so multiplied by :math:`1 / (1 - p)`. Both are exact for
dropout in front of a linear map. A unit that is dropped is a long step, over which a ReLU further on is not linear; so
this is closer than slopes are, as long as two drops seldom meet.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from gumdrop.functional.floats import finite_exp
from gumdrop.functional.masks import inverse_keep
from gumdrop.layers import SITE, ConcreteDropout

RARE = 0.06
"""Largest rate up to which drops are rare."""
MOST_UNITS = 256
"""Number of units, of all sites, up to which each is dropped: it asks for all that follows it once more."""
ROWS = 1 << 13
"""Rows, each without one unit, that run at once."""

Step = tuple[nn.Module, Callable[[Tensor], Tensor]]
"""A layer, and what it does without dropout; it may use the memory of its input."""


def site_of(layer: nn.Module) -> ConcreteDropout | None:
    """Find the site in front of a layer."""
    site = layer._modules.get(SITE)
    return site if isinstance(site, ConcreteDropout) else None


def drops_are_rare(layers: Sequence[nn.Module]) -> bool:
    """Tell whether the units of a chain drop so seldom, and are so few, that each may be dropped alone."""
    sites = [site for layer in layers if (site := site_of(layer)) is not None]
    few = 0 < sum(site.num_units for site in sites) <= MOST_UNITS and all(site.num_units for site in sites)
    return few and all(_largest(site.p_logit.tolist()) <= math.log(RARE / (1 - RARE)) for site in sites)


def _largest(logits: list[float] | float) -> float:  # read by `tolist`, which stays a number while a graph is made
    return max(logits) if isinstance(logits, list) else logits


def rows_at_once(layers: Sequence[nn.Module]) -> int:
    """Give the number of rows that should run at once."""
    return max(1, ROWS // max(site.num_units for layer in layers if (site := site_of(layer)) is not None))


@torch.no_grad()
def single_drops(steps: Sequence[Step], x: Tensor) -> tuple[Tensor, Tensor]:
    """Compute mean and variance of the outputs of a chain, (N, D) each."""
    sites = [site for layer, _ in steps if (site := site_of(layer)) is not None]
    p_logit = torch.cat([site.p_logit.expand(site.num_units) for site in sites])
    odds, inverse = (each.to(x.dtype) for each in (finite_exp(p_logit), inverse_keep(p_logit)))
    end = 1 + max(i for i, (layer, _) in enumerate(steps) if site_of(layer) is not None)
    without: list[Tensor] = []  # (N, K, ...) for each site
    x, all_kept, first = x.clone(), x.clone(), 0  # for steps that work in place
    for i, (layer, step) in enumerate(steps[:end]):
        site, before = site_of(layer), x
        if site is None:
            x, all_kept = step(before), step(all_kept)
            continue
        factor = inverse[first : first + site.num_units].view(site.factor_shape(x.shape, leading=1))
        x, all_kept, first = step(before), step(all_kept * factor), first + site.num_units
        outputs = _run(steps[i + 1 : end], _without_each(site, layer, step, before, x))
        without.append(outputs.unflatten(0, (-1, site.num_units)))
    all_rows = torch.cat([x.unsqueeze(1), all_kept.unsqueeze(1), *without], dim=1)
    all_rows = _run(steps[end:], all_rows.flatten(0, 1)).unflatten(0, (-1, all_rows.shape[1]))
    changes = all_rows[:, 2:] - all_rows[:, :1]
    weighted = odds.view(-1, *[1] * (changes.ndim - 2)) * changes
    return all_rows[:, 1] + weighted.sum(1), (weighted * changes).sum(1)


def _run(steps: Sequence[Step], x: Tensor) -> Tensor:
    for _, step in steps:
        x = step(x)
    return x


def _without_each(
    site: ConcreteDropout, layer: nn.Module, step: Callable[[Tensor], Tensor], before: Tensor, after: Tensor
) -> Tensor:
    """Output of a layer for each row without unit 0 of its input, without unit 1, and so on: (N K, ...)."""
    if type(layer) is nn.Linear and before.ndim == 2:  # a unit adds a product of two vectors
        columns = layer.weight.T.contiguous()
        return torch.addcmul(after.unsqueeze(1), before.unsqueeze(-1), columns, value=-1).flatten(0, 1)
    keep = 1 - torch.eye(site.num_units, dtype=before.dtype, device=before.device)
    shape = site.factor_shape(before.shape, leading=1)
    return step((before.unsqueeze(1) * keep.view(-1, *shape[1:])).flatten(0, 1))
