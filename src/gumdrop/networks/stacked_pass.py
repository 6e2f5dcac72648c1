"""A step of many dense networks: their outputs, their KL, and the gradient of both by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gumdrop.functional.masks import finite_logit, inverse_keep
from gumdrop.functional.noise import uniform_noise
from gumdrop.layers.site import UNIT, logit_of

__all__ = ["run_stacked"]

LEAST_ROWS = 32
"""Rows whose gradient tells the first layer's rate where to go; a quarter of a larger batch."""


def run_stacked(network: Any, a: Tensor, precisions: Tensor) -> tuple[Tensor, Tensor]:
    """Give the outputs of a `StackedMLP`, which calls this, and the KL divergence of each member."""
    noise = uniform_noise((a.shape[-2] * sum(network.units),), device=a.device)
    return _Pass.apply(a, network.block, network.scaled_logits, network, noise, precisions)


class _Pass(torch.autograd.Function):
    """All layers of all members and their KL, with a gradient by hand.

    By autograd, a step of thirty networks of 2 x 64 on batches of 64 takes 1.2 times as long, and one of five networks
    on batches of 32 1.7 times. Inputs in bins are many: what needs each of them takes a part of the rows.
    """

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        block: Tensor,
        scaled_logits: Tensor,
        network: Any,
        noise: Tensor,
        precisions: Tensor,
    ) -> tuple[Tensor, Tensor]:
        logits = logit_of(scaled_logits)
        views, full, p, free = network.views(block), inverse_keep(logits), torch.sigmoid(logits), network.num_free
        ctx.network, ctx.views, ctx.full, ctx.p = network, views, full, p
        ctx.read, ctx.keeps, ctx.before = [], _keeps(network, logits, noise), []
        output = a.expand(len(logits), *a.shape[-2:])
        for i, (weight, bias) in enumerate(zip(views.weights, views.biases, strict=True)):
            if i:
                ctx.before.append(output)
                output = network.activation(output)
            if i < free:
                ctx.read.append(output)
                output = torch.baddbmm(bias.unsqueeze(1), output, weight.mT)
                continue
            output = output.mul_(ctx.keeps[i - free]) if i else output * ctx.keeps[0]
            ctx.read.append(output)
            product = torch.bmm(output, weight.mT)  # divided by 1 - p here, where there is less of it
            output = torch.addcmul(bias.unsqueeze(1), product, full[:, i - free, None, None])
        squares = torch.stack([torch.linalg.vecdot(w, w) for w in (w.flatten(1) for w in views.weights)], dim=1)
        of_biases = torch.cat([precisions[:, i, None].expand_as(b) for i, b in enumerate(views.biases)], dim=1)
        ctx.coefficients = (
            precisions * torch.cat([full.new_ones(len(full), free), full], dim=1) if free else precisions * full
        )
        ctx.weight_kl, ctx.pull = 0.5 * ctx.coefficients * squares, of_biases * views.all_biases
        ctx.slope, entropy = network.entropies * logits * p / full, torch.nn.functional.softplus(logits) - p * logits
        kl = ctx.weight_kl.sum(1) - (network.entropies * entropy).sum(1)
        return output, kl + 0.5 * torch.linalg.vecdot(ctx.pull, views.all_biases)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor, of_kl: Tensor) -> tuple[Tensor | None, ...]:
        network, full, free = ctx.network, ctx.full, ctx.network.num_free
        block = torch.empty_like(network.block)
        gradients, coefficients = network.views(block), ctx.coefficients * of_kl[:, None]
        sums, slopes = torch.zeros(2, *full.mT.shape, device=g.device)
        for i in reversed(range(len(ctx.read))):
            torch.sum(g, 1, out=gradients.biases[i])
            site = i - free
            if site >= 0:
                g = g * full[:, site, None, None]
            torch.bmm(g.mT, ctx.read[i], out=gradients.weights[i])
            gradients.weights[i].addcmul_(ctx.views.weights[i], coefficients[:, i, None, None])
            if i == 0 and (network.is_fixed or free):
                break
            if i == 0:
                g = _some_rows(g)
            keep, read = ctx.keeps[site][:, : g.shape[1]], ctx.read[i][:, : g.shape[1]]
            g = torch.bmm(g, ctx.views.weights[i])
            if not network.is_fixed:
                product = read.mul_(g)
                torch.sum(product, (1, 2), out=sums[site])
            if i:
                g.mul_(keep)
            if not network.is_fixed:  # exactly 0 where nothing is dropped
                torch.sum(product.mul_(keep.sub_(1)), (1, 2), out=slopes[site])
            if i:
                g = network.activation_backward(g, ctx.before[i - 1])
        ctx.read = ctx.keeps = None  # which were changed
        gradients.all_biases.addcmul_(ctx.pull, of_kl[:, None])
        of_logits = None
        if not network.is_fixed:
            of_logits = torch.add(ctx.p * sums.mT, slopes.mT, alpha=1 / network.temperature)
            of_logits = of_logits.addcmul_(ctx.p * ctx.weight_kl[:, free:] + ctx.slope, of_kl[:, None]).div_(UNIT)
        return None, block, of_logits, None, None, None


def _keeps(network: Any, logits: Tensor, noise: Tensor) -> list[Tensor]:
    """Masks of each site, (M, B, K), not yet divided by ``1 - p``; hard where rates are fixed."""
    rows = len(noise) // sum(network.units)
    sizes = [rows * units for units in network.units]
    masks = noise.new_empty(len(logits), len(noise))
    if network.is_fixed:
        compare, numbers, shifts = torch.ge, noise, torch.sigmoid(logits)
    else:  # as in `gumdrop.functional.masks`
        numbers = finite_logit(noise).div_(network.temperature)
        compare, shifts = torch.sub, logits / network.temperature
    parts = masks.split(sizes, dim=1)
    for part, shared, shift in zip(parts, numbers.split(sizes), shifts.split(1, dim=1), strict=True):
        compare(shared, shift, out=part)
    if not network.is_fixed:
        masks.sigmoid_()
    return [part.view(len(logits), rows, units) for part, units in zip(parts, network.units, strict=True)]


def _some_rows(g: Tensor) -> Tensor:
    """Take the gradient of a part of the rows for that of all: the first layer needs it for one number, its rate."""
    count = g.shape[1]
    some = min(count, max(LEAST_ROWS, count // 4))
    return g if some == count else g[:, :some] * (count / some)
