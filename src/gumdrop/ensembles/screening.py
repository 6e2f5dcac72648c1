"""Bins that are not worth a trial: ridge regression on random units tells in a blink where plain inputs do better.

Each row can be left out of a ridge regression in closed form. Where it predicts numbers clearly worse from inputs in
bins, so do networks that are trained, and those in bins, whose trial takes the longest, need none.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from gumdrop.layers import PiecewiseLinear
from gumdrop.machine.picking import evenly
from gumdrop.training import RowSource

PENALTIES = 10.0 ** torch.arange(-5, 4, dtype=torch.float64)
"""What ridge regression chooses from, times the squares of all that it sees over their rows."""


def bins_lose(x: Tensor | RowSource, y: Tensor, encoding: PiecewiseLinear, seed: int) -> bool:
    """Return whether inputs in bins are far behind standardised inputs, (N, F), for numbers, (N, D).

    That is if rows that are left out of ridge regression, on 1,000 evenly spaced ones and random units, have .05 nats
    less on average, and by more than three standard errors: nearer than that, trained networks differ.

    References:
        Rahimi & Recht 2008, "Weighted Sums of Random Kitchen Sinks" (NeurIPS 2008).

    Example:
        >>> x = torch.rand(200, 2, generator=torch.Generator().manual_seed(0)) * 4 - 2
        >>> encoding = PiecewiseLinear.fitted(x, 32)
        >>> bins_lose(x, x[:, :1] * x[:, 1:], encoding, seed=0), bins_lose(x, x.round(), encoding, seed=0)
        (True, False)
    """
    rows = torch.from_numpy(evenly(len(x), 1000))
    inputs, y = x[rows].cpu(), y[rows].cpu().double()
    y = (y - y.mean(0)) / y.std(0).clamp_min(torch.finfo(y.dtype).tiny)
    generator = torch.Generator().manual_seed(seed)
    plain, binned = (_scores(seen, y, generator) for seen in (inputs, encoding.cpu()(inputs) / encoding.scale))
    loss = plain - binned
    return bool(loss.mean() > max(0.05, 3 * loss.std() / len(loss) ** 0.5))


def _scores(x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
    """Return the log likelihood of rows, (N,), with the random units that are best on average, or with none."""
    seen, length = [x], x.square().sum(1).mean().sqrt().clamp_min(torch.finfo(x.dtype).tiny)
    for steepness in (1.0, 3.0):  # for smooth functions, and for those that change quickly
        weight, bias = torch.randn(x.shape[1] + 1, 150, generator=generator).split([x.shape[1], 1])
        seen.append(torch.cat([x, F.silu(2 * (steepness / length * x @ weight + bias))], dim=1))
    return max((_left_out(each, y) for each in seen), key=lambda scores: scores.mean().item())


def _left_out(x: Tensor, y: Tensor) -> Tensor:
    """Return the log likelihood, up to a constant, of each row of centred targets, (N,), by ridge on the others."""
    x = x.double() - x.double().mean(0)
    directions, lengths, _ = torch.linalg.svd(x, full_matrices=False)
    sizes = lengths.square()[:, None]
    penalties = PENALTIES * sizes.sum() / len(x)
    kept = sizes / (sizes + penalties).clamp_min(torch.finfo(x.dtype).tiny)
    leverage = directions.square() @ kept + 1 / len(y)
    predicted = torch.einsum("nk,kp,kd->npd", directions, kept, directions.T @ y)
    squares = ((y[:, None] - predicted) / (1 - leverage).clamp_min(1e-6)[..., None]).square()
    variance = squares.mean(0).clamp_min(1e-12)
    best = variance.log().sum(1).argmin()
    return -0.5 * (variance[best].log() + squares[:, best] / variance[best]).sum(1)
