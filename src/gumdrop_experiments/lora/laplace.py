"""Laplace's approximation on adapters and a head that are trained, as in Laplace-LoRA (arXiv:2308.13111).

Of two classes the log-odds `f` say all, so that the Gauss-Newton matrix is that of one output. With the slope
`g_n = df_n / dw` of row n, all weights that are trained have the posterior precision

    d I + G' G,    row n of G = sqrt(q_n (1 - q_n)) g_n,    q_n = sigmoid(f_n)

and linearised log-odds the variance `g' (d I + G' G)^-1 g`. There are fewer rows than weights, so it is computed from
`d I + G G'`, without factors or a diagonal in its place.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PRECISIONS = tuple(10.0**k for k in range(-3, 4))
"""Precisions `d` of the prior to choose from."""


def log_odds(model: nn.Module, logits: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """Give log-odds (N,) and their slopes (N, P) in all linear maps that are trained; a row must not see others."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear) and layer.weight.requires_grad]
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def watch(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        seen[layer] = inputs[0].detach(), output

    handles = [layer.register_forward_hook(watch) for layer in layers]
    f = logits().diff(dim=1).squeeze(1)
    for handle in handles:
        handle.remove()
    behind = torch.autograd.grad(f.sum(), [seen[layer][1] for layer in layers])
    slopes = [_slope(layer, seen[layer][0], g) for layer, g in zip(layers, behind, strict=True)]
    return f.detach(), torch.cat(slopes, 1)


def _slope(layer: nn.Linear, x: Tensor, behind: Tensor) -> Tensor:
    """Sum the outer products of what goes in and what comes back, over all positions of a row."""
    x = x if layer.bias is None else F.pad(x, (0, 1), value=1.0)
    rows = len(x)
    return (behind.reshape(rows, -1, behind.shape[-1]).mT @ x.reshape(rows, -1, x.shape[-1])).reshape(rows, -1)


def variances(train: tuple[Tensor, Tensor], slopes: Tensor, precision: float) -> Tensor:
    """Variance of the log-odds whose slopes are given, under the posterior of training rows."""
    f, g = train
    q = f.sigmoid()
    rows = (q * (1 - q)).sqrt().unsqueeze(1) * g
    factor = torch.linalg.cholesky(rows @ rows.T + precision * torch.eye(len(rows), dtype=rows.dtype))
    seen = torch.linalg.solve_triangular(factor, rows @ slopes.T, upper=False)
    return (slopes.square().sum(1) - seen.square().sum(0)).clamp_min(0) / precision


def log_probabilities(f: Tensor, variance: Tensor) -> Tensor:
    """Average of both classes over normal log-odds, by the probit approximation, shape (N, 2)."""
    scaled = f / (1 + math.pi * variance / 8).sqrt()
    return torch.stack([F.logsigmoid(-scaled), F.logsigmoid(scaled)], 1)
