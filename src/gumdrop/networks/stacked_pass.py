"""A step of many dense networks: their outputs, their KL, and the gradient of both by hand.

By autograd, a step of five networks of 2 x 64 on batches of 128 takes twice as long, and one of thirty 1.3 times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumdrop.functional.masks import finite_logit, inverse_keep
from gumdrop.functional.noise import uniform_noise
from gumdrop.layers.rate import UNIT, logit_of

LEAST_ROWS = 32
"""Rows whose gradient tells the first layer's rate where to go; a quarter of a larger batch."""

Slope = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Gives for outputs of M networks, (M, B, D), the loss of each, (M,), and the derivative of their sum, (M, B, D)."""


class Rates(NamedTuple):
    """What the logits of all sites say, (M, L')."""

    logits: Tensor
    """Of the drop probabilities."""
    p: Tensor
    """The drop probabilities."""
    scale: Tensor
    """``1 / (1 - p)``."""
    scales: list[Tensor]
    """What the product of each layer is multiplied by, (M, 1, 1); 1 in front of all sites."""

    @classmethod
    def of(cls, logits: Tensor, num_free: int) -> Rates:
        """Make all of the logits."""
        scale = inverse_keep(logits)
        free = [torch.ones_like(scale[:, :1, None])] * num_free
        return cls(logits, torch.sigmoid(logits), scale, [*free, *scale[..., None, None].unbind(1)])


class Run(NamedTuple):
    """What a gradient needs of a run of all layers."""

    drops: list[Tensor]
    """``1 - z`` of each site, (M, B, K)."""
    read: list[Tensor]
    """What each layer multiplies, (M, B, K)."""
    before: list[Tensor]
    """What each activation reads, (M, B, K)."""
    output: Tensor
    """(M, B, D)."""


def gradient_of(network: Any, x: Tensor, slope: Slope, precisions: Tensor, num_data: Tensor) -> tuple[Tensor, Tensor]:
    """Leave in the parameters of a `StackedMLP` the gradient of a loss plus the KL over N, see `StackedMLP.learn`."""
    rates = Rates.of(logit_of(network.scaled_logits), network.num_free)
    run = _run(network, x, rates, uniform_noise((x.shape[-2] * sum(network.units),), device=x.device))
    output, noise = run.output, network.log_variances
    loss, g = slope(output if noise is None else torch.cat([output, noise[:, None].expand_as(output)], dim=-1))
    if noise is not None:
        g, of_noise = g.tensor_split([output.shape[2]], dim=2)
        if noise.requires_grad:
            noise.grad = of_noise.sum(1)
    kl, of_kl = _kl(network, rates, precisions)
    of_rates = _backward(network, run, rates, g, precisions / num_data[:, None])
    if not network.is_fixed:
        network.scaled_logits.grad = (of_rates + of_kl / num_data[:, None]) / UNIT
    return loss, kl


def _run(network: Any, x: Tensor, rates: Rates, noise: Tensor) -> Run:
    """Run all layers; the product of a layer is divided by 1 - p, since there is less of it than of its inputs."""
    views, drops, free = network.views, _drops(network, rates.logits, noise), network.num_free
    read, before, output = [], [], x.expand(len(rates.p), *x.shape[-2:])
    for i, (weight, bias) in enumerate(zip(views.weights, views.biases, strict=True)):
        if i:
            before.append(output)
            output = network.activation(output)
        if i >= free:
            drop = drops[i - free]
            output = output.addcmul_(output, drop, value=-1) if i else torch.addcmul(output, output, drop, value=-1)
        read.append(output)
        output = torch.bmm(output, weight.mT)
        output = torch.addcmul(bias.unsqueeze(1), output, rates.scales[i])
    return Run(drops, read, before, output)


def _backward(network: Any, run: Run, rates: Rates, g: Tensor, precisions: Tensor) -> Tensor:
    """Leave the gradient of weights and biases, and give that of the logits by the loss alone, (M, L')."""
    # A layer gives s (x - x d) W^T + b, for drops d and s = 1 / (1 - p). The gradient G of W says what s does, <G, W>,
    # without a pass over rows. What needs each input of the first layer, which may be many, takes a part of the rows.
    views, gradients, free = network.views, network.gradients, network.num_free
    by_scale, by_drop = torch.zeros(2, *rates.p.mT.shape, device=g.device)
    for i in reversed(range(len(run.read))):
        torch.sum(g, 1, out=gradients.biases[i])
        site, weight, scale = i - free, views.weights[i], rates.scales[i]
        g = g * scale
        gradient = _outer(g, run.read[i], gradients.weights[i])
        if site >= 0:
            torch.linalg.vecdot(gradient.flatten(1), weight.flatten(1), out=by_scale[site])
        if i or not (network.is_fixed or free):
            if not i and (some := max(LEAST_ROWS, g.shape[1] // 4)) < g.shape[1]:
                g = g[:, :some] * (g.shape[1] / some)
            drop, read = run.drops[site][:, : g.shape[1]], run.read[i][:, : g.shape[1]]
            g = _product(g, weight)
            torch.sum(read.mul_(g).mul_(drop), (1, 2), out=by_drop[site])  # 0 where p is; nothing else reads these
            if i:
                g = network.activation_backward(g.addcmul_(g, drop, value=-1), run.before[i - 1])
        gradient.addcmul_(weight, precisions[:, i, None, None] * scale)
    gradients.all_biases.addcmul_(views.all_biases, _of_biases(network, precisions))
    return rates.p * by_scale.mT - by_drop.mT / network.temperature


def _kl(network: Any, rates: Rates, precisions: Tensor) -> tuple[Tensor, Tensor]:
    """KL of each network, (M,), and its derivative by the logits, (M, L')."""
    views, free = network.views, network.num_free
    squares = torch.stack([torch.linalg.vecdot(w, w) for w in (w.flatten(1) for w in views.weights)], dim=1)
    of_free, of_dropped = (0.5 * precisions * squares).tensor_split([free], dim=1)
    of_dropped = of_dropped * rates.scale
    entropy = torch.nn.functional.softplus(rates.logits) - rates.p * rates.logits
    kl = (of_dropped - network.entropies * entropy).sum(1) + of_free.sum(1)
    of_biases = _of_biases(network, precisions) * views.all_biases
    kl += 0.5 * torch.linalg.vecdot(of_biases, views.all_biases)
    return kl, rates.p * (of_dropped + network.entropies * rates.logits / rates.scale)


def _of_biases(network: Any, precisions: Tensor) -> Tensor:
    """Precision of the prior of each bias, those of all layers side by side."""
    return torch.cat([precisions[:, i, None].expand_as(bias) for i, bias in enumerate(network.views.biases)], dim=1)


def _product(g: Tensor, weight: Tensor) -> Tensor:
    """Multiply rows with the weight of a layer, see `_outer`; numbers of one column need no sums."""
    if g.shape[2] == 1:
        return g * weight
    return torch.bmm(weight.mT, g.mT).mT if 2 * weight.shape[2] < g.shape[2] else torch.bmm(g, weight)


def _outer(g: Tensor, read: Tensor, out: Tensor) -> Tensor:
    """Sum outer products over rows; a product with few columns takes three times as long as one with few rows."""
    if 2 * read.shape[2] < g.shape[2]:
        return out.copy_(torch.bmm(read.mT, g).mT)
    return torch.bmm(g.mT, read, out=out)


def _drops(network: Any, logits: Tensor, noise: Tensor) -> list[Tensor]:
    """What masks take away at each site, ``1 - z`` of shape (M, B, K); hard where rates are fixed."""
    members, rows = len(logits), len(noise) // sum(network.units)
    sizes = [rows * units for units in network.units]
    drops = noise.new_empty(members * len(noise))
    if network.is_fixed:
        compare, numbers, shifts = torch.lt, noise, torch.sigmoid(logits)
    else:  # as in `gumdrop.functional.masks`
        numbers = finite_logit(noise).div_(-network.temperature)
        compare, shifts = torch.add, logits / network.temperature
    parts = [part.view(members, -1) for part in drops.split([members * size for size in sizes])]
    for part, shared, shift in zip(parts, numbers.split(sizes), shifts.split(1, dim=1), strict=True):
        compare(shared, shift, out=part)
    if not network.is_fixed:
        drops.sigmoid_()
    return [part.view(members, rows, units) for part, units in zip(parts, network.units, strict=True)]
