"""Many dense networks of one shape as one network, whose parameters have a dimension of members in front.

A step of a small network is a few thousand multiplications, and some hundred operations that cost more than these. Here
each operation serves all members: in training, in the draws of a prediction, and in an exported file.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.functional.noise import uniform_noise
from gumdrop.layers import SITE
from gumdrop.layers.rate import logit_of
from gumdrop.networks.dense import ACTIVATIONS, DenseFunctions, parts_of, same_parts
from gumdrop.networks.rates import RATE_EPS, Groups
from gumdrop.networks.stacked_pass import Slope, gradient_of


class Views(NamedTuple):
    """Parts of a block of weights, or of their gradients."""

    weights: list[Tensor]
    """Of each layer, (M, O, K)."""
    biases: list[Tensor]
    """Of each layer, (M, O)."""
    all_biases: Tensor
    """Side by side."""


class StackedMLP(nn.Module):
    """M dense networks, such as `gumdrop.networks.mlp` builds, as one, whose weights lie in one block of memory.

    In training each row has a relaxed mask of its own, and all members make theirs of the same noise: each is trained
    as it would be alone, for a share of the random numbers. It has copies of their parameters.

    Shape:
        Input: (M, B, F), or (B, F) for all members. Output: (M, B, D), and (M, B, 2 D) with a noise.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        parts = [part for part in map(parts_of, networks) if part is not None]
        self._first = first = parts[0]
        names = {id(module): name for name, module in networks[0].named_modules()}
        self._names = [names[id(layer)] for layer in first.layers]
        self._noise_name = None if first.noise is None else names[id(first.noise)]
        self.encoding = first.encoding
        self.activation, self.activation_backward = ACTIVATIONS[type(first.activation)]
        self.is_fixed, self.temperature = first.sites[0].is_fixed, first.sites[0].temperature
        columns = list(zip(*(part.layers for part in parts), strict=True))
        values = [torch.stack([layer.weight.detach() for layer in column]) for column in columns]
        values.append(torch.stack([torch.cat([layer.bias.detach() for layer in part.layers]) for part in parts]))
        self._shapes = [value.shape for value in values]
        self.block = nn.Parameter(torch.cat([value.flatten() for value in values]))
        logits = [torch.stack([site.scaled_logit.detach() for site in part.sites]) for part in parts]
        self.scaled_logits = nn.Parameter(torch.stack(logits), requires_grad=not self.is_fixed)
        self.num_free = len(first.layers) - len(first.sites)
        units = [[site.strength * site.num_units for site in part.sites] for part in parts]
        self.register_buffer("entropies", sent(torch.tensor(units), self.block.device))
        self.log_variances: nn.Parameter | None = None
        if first.noise is not None:
            variances = [part.noise.log_variance.detach() for part in parts if part.noise is not None]
            self.log_variances = nn.Parameter(torch.stack(variances), first.noise.log_variance.requires_grad)

    num_free: int
    """Layers in front that nothing drops: one where it reads a single number, else none."""
    entropies: Tensor
    """What the entropy of each of the sites counts, (M, L')."""

    @property
    def p_logits(self) -> Tensor:
        """Logits of the drop probabilities, (M, L')."""
        return logit_of(self.scaled_logits)

    @property
    def num_inputs(self) -> list[int]:
        """Numbers that each layer reads."""
        return [shape[2] for shape in self._shapes[:-1]]

    @property
    def units(self) -> list[int]:
        """Units of each site."""
        return self.num_inputs[self.num_free :]

    @functools.cached_property
    def views(self) -> Views:
        """The parts of the block of weights."""
        return self._parts_of(self.block.detach())

    @functools.cached_property
    def gradients(self) -> Views:
        """The parts of the gradient of the block."""
        self.block.grad = torch.zeros_like(self.block)
        return self._parts_of(self.block.grad)

    def _parts_of(self, block: Tensor) -> Views:
        parts = block.split([shape.numel() for shape in self._shapes])
        *weights, biases = (part.view(shape) for part, shape in zip(parts, self._shapes, strict=True))
        return Views(weights, list(biases.split([shape[1] for shape in self._shapes[:-1]], dim=1)), biases)

    @torch.no_grad()
    def learn(self, x: Tensor, slope: Slope, precisions: Tensor, num_data: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses and KL divergences, (M,) each, and leave the gradient of their sum over N in the parameters.

        Each row is under a mask of its own. The prior of each layer has a precision, (M or 1, L), see
        `gumdrop.training.stacked.precisions_of`, and each member a number of examples that it is trained on, (M,).
        """
        a = x if self.encoding is None else self.encoding(x)
        return gradient_of(self, a, slope, precisions.expand(len(num_data), len(self.num_inputs)), num_data)

    @torch.no_grad()
    def clip(self, max_norm: float) -> None:
        """Clip the gradient of each member to a norm."""
        of_others = [part.grad for part in (self.scaled_logits, self.log_variances) if part is not None]
        gradients = [*self.gradients.weights, self.gradients.all_biases, *(g for g in of_others if g is not None)]
        norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)
        factors = (max_norm / (norms + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factors.view(-1, *[1] * (gradient.ndim - 1)))

    def functions(self) -> DenseFunctions:
        """What the members draw now."""
        views, log_variances = self.views, self.log_variances
        noise = None if log_variances is None else log_variances.detach()
        first = self._first._replace(encoding=self.encoding)
        return DenseFunctions(first, views.weights, views.biases, self.p_logits.detach(), noise)

    @torch.no_grad()
    def drawn(self, x: Tensor, num_samples: int, seed: int | None) -> Tensor:
        """Draw functions by their seed, the same masks in all members, or without one a mask for each row."""
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        rows = x.shape[1] if seed is None else 1
        sizes = [(1, num_samples, rows, units) for units in self.units]
        noise = [uniform_noise(size, device=x.device, generator=generator) for size in sizes]
        functions = self.functions()
        return functions.outputs(x, functions.factors(noise))

    def noises(self) -> list[Tensor]:
        """Log variances of the `gumdrop.HomoscedasticNoise` of the members, each of shape (D,); not copies."""
        return [] if self.log_variances is None else list(self.log_variances.detach())

    def groups(self, weight_decay: float, rate_lr: float) -> Groups:
        """The parameter groups of one network, with stacked parameters in them, see `gumdrop.parameter_groups`."""
        groups: Groups = [{"params": [self.block], "weight_decay": weight_decay}]
        rates = [] if self.is_fixed else [self.scaled_logits]
        groups.append({"params": rates, "weight_decay": 0.0, "lr": rate_lr, "eps": RATE_EPS})
        if self.log_variances is not None and self.log_variances.requires_grad:
            groups.append({"params": [self.log_variances], "weight_decay": 0.0})
        return groups

    def rates(self) -> list[dict[str, float]]:
        """Drop probability of each site of each member."""
        names = self._names[self.num_free :]
        return [dict(zip(names, row, strict=True)) for row in self.p_logits.detach().sigmoid().tolist()]

    def states(self) -> list[dict[str, Tensor]]:
        """What is trained of each member, under the names of a single network; slices, not copies."""
        views = self.views
        stacked = {f"{n}.weight": w for n, w in zip(self._names, views.weights, strict=True)}
        stacked |= {f"{n}.bias": b for n, b in zip(self._names, views.biases, strict=True)}
        logits = zip(self._names[self.num_free :], self.scaled_logits.unbind(1), strict=True)
        stacked |= {f"{n}.{SITE}.scaled_logit": p for n, p in logits}
        if self.log_variances is not None:
            stacked[f"{self._noise_name}.log_variance"] = self.log_variances
        return [{name: value.detach()[i] for name, value in stacked.items()} for i in range(len(self.scaled_logits))]


def stack(networks: Sequence[nn.Module]) -> StackedMLP | None:
    """Stack networks if they are dense ones that can run as one, see `gumdrop.networks.dense.same_parts`."""
    return None if same_parts(networks) is None else StackedMLP(networks)
