"""Plain dense networks, such as `gumdrop.networks.mlp` builds: their layers, and the functions that they draw."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gumdrop.functional.masks import dropout_scale
from gumdrop.layers import SITE, ConcreteDropout, PiecewiseLinear
from gumdrop.layers.attach import is_watched
from gumdrop.layers.output_noise import HomoscedasticNoise
from gumdrop.layers.rate import logit_of

ACTIVATIONS: dict[type[Any], tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    nn.ReLU: (torch.relu, lambda g, h: torch.ops.aten.threshold_backward(g, h, 0)),
    nn.SiLU: (nn.functional.silu, torch.ops.aten.silu_backward),
    type(None): (torch.relu, lambda g, h: g),  # of a single layer, which has none
}
"""What an activation does, and its gradient from that of its output and from its input."""


class Parts(NamedTuple):
    """The layers of a dense network."""

    encoding: PiecewiseLinear | None
    """What stands in front of the first layer."""
    layers: list[nn.Linear]
    """Each with a site, but for a first one that reads a single number."""
    activation: nn.Module | None
    """Between the layers."""
    noise: HomoscedasticNoise | None
    """At the end."""

    @property
    def sites(self) -> list[ConcreteDropout]:
        """The site in front of each layer."""
        return [site for layer in self.layers if isinstance(site := layer._modules.get(SITE), ConcreteDropout)]

    @property
    def activate(self) -> Callable[[Tensor], Tensor]:
        """What the activation does."""
        return ACTIVATIONS[type(self.activation)][0]

    @property
    def kind(self) -> tuple[Any, ...]:
        """What must be the same in networks that are stacked."""
        shapes = tuple(layer.weight.shape for layer in self.layers)
        sites = {(site.is_fixed, site.temperature) for site in self.sites}
        return shapes, sites, len(self.sites), repr(self.activation), repr(self.encoding), repr(self.noise)


def same_parts(networks: Sequence[nn.Module]) -> list[Parts] | None:
    """Take networks apart that can run as one; None if they differ in what must be the same, or are not known."""
    parts = [parts_of(network) for network in networks]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({str(part.kind) for part in known}) > 1 or len(known[0].kind[1]) > 1:
        return None
    buffers = zip(*(part.encoding.buffers() for part in known if part.encoding is not None), strict=True)
    return known if all(torch.equal(first, other) for first, *others in buffers for other in others) else None


def parts_of(network: nn.Module) -> Parts | None:
    """Take a dense network apart."""
    parts = list(network) if type(network) is nn.Sequential else []
    if not any(isinstance(part, nn.Linear) for part in parts) or is_watched(network) or "forward" in vars(network):
        return None
    encoding = parts[0] if isinstance(parts[0], PiecewiseLinear) else None
    noise = parts[-1] if isinstance(parts[-1], HomoscedasticNoise) else None
    between = parts[encoding is not None : len(parts) - (noise is not None)]
    layers = [
        layer for i, layer in enumerate(between[::2]) if isinstance(layer, nn.Linear) and _is_known(layer, i == 0)
    ]
    activations = between[1::2]
    if 2 * len(layers) != len(between) + 1 or not all(type(each) in ACTIVATIONS for each in activations):
        return None
    parameters = {id(parameter) for layer in layers for parameter in (layer.weight, layer.bias)}
    if len(parameters) < 2 * len(layers) or len({repr(each) for each in activations}) > 1:
        return None  # one weight of several layers has one gradient
    if noise is not None and noise.gamma_prior is not None:
        return None
    dense = Parts(encoding, layers, next(iter(activations), None), noise)
    return dense if dense.sites else None


def _is_known(layer: nn.Linear, is_first: bool) -> bool:
    site = layer._modules.get(SITE)
    parameters = (layer._parameters.get("weight"), layer._parameters.get("bias"))
    if type(layer) is not nn.Linear or not all(p is not None and p.dtype == torch.float32 for p in parameters):
        return False
    if not all(p is not None and p.requires_grad for p in parameters):
        return False
    if site is None:
        return is_first and layer.in_features == 1
    return type(site) is ConcreteDropout and site.scaled_logit.ndim == 0 and site.batch_dim == 0


@dataclass(frozen=True, eq=False)
class DenseFunctions:
    """Functions that M networks of one shape draw; those of one network look at its weights, and copy none."""

    first: Parts
    """The first network, for what is the same in all."""
    weights: list[Tensor]
    """Of each of L layers, (M, O, K)."""
    biases: list[Tensor]
    """Of each layer, (M, O)."""
    p_logits: Tensor
    """Of the sites, (M, L'): in front of all layers, or all but the first."""
    log_variances: Tensor | None
    """Of the noise, (M, D)."""

    @classmethod
    @torch.no_grad()
    def of(cls, networks: Sequence[nn.Module]) -> "DenseFunctions | None":
        """Look at networks; None if they cannot run as one."""
        parts = same_parts(networks)
        if parts is None:
            return None
        layers = list(zip(*(part.layers for part in parts), strict=True))
        logits = torch.stack([torch.stack([site.scaled_logit for site in part.sites]) for part in parts])
        noises = [part.noise.log_variance for part in parts if part.noise is not None]
        return cls(
            parts[0],
            [_joined([layer.weight for layer in column]) for column in layers],
            [_joined([layer.bias for layer in column]) for column in layers],
            logit_of(logits),
            _joined(noises) if noises else None,
        )

    @property
    def units(self) -> list[int]:
        """Units of each site."""
        return [weight.shape[2] for weight in self.weights[self.num_free :]]

    @property
    def num_free(self) -> int:
        """Layers in front that nothing drops: one where it reads a single number, else none."""
        return len(self.weights) - self.p_logits.shape[1]

    def takes(self, x: Tensor) -> bool:
        """Tell whether an input is right; what is wrong with another, a network says when it is called."""
        num_inputs = self.weights[0].shape[2] if self.first.encoding is None else self.first.encoding.num_inputs
        return x.ndim == 2 and len(x) > 0 and x.shape[1] == num_inputs and x.dtype == self.weights[0].dtype

    def factors(self, noise: Sequence[Tensor]) -> list[Tensor]:
        """What each site multiplies its units by, (M, S, 1 or B, K), of its uniform noise, (M or 1, S, K or B, K)."""
        four = (each if each.ndim == 4 else each.unsqueeze(2) for each in noise)
        pairs = zip(self.p_logits.unbind(1), four, strict=True)
        return [dropout_scale(logit[:, None, None, None], uniform, hard=True) for logit, uniform in pairs]

    @torch.no_grad()
    def outputs(self, x: Tensor, factors: Sequence[Tensor], *, with_noise: bool = True) -> Tensor:
        """Evaluate drawn functions, (M, S, B, ...), of inputs (M, B, F), or (B, F) for all, and append the noise."""
        a = (x if self.first.encoding is None else self.first.encoding(x)).unsqueeze(-3)
        a, activate = a.expand(len(self.p_logits), *a.shape[-3:]), self.first.activate
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if i:
                a = activate(a)
            if i >= self.num_free:
                factor = factors[i - self.num_free]
                a = a.mul_(factor) if i and a.shape[1] == factor.shape[1] else a * factor  # the input stays as it is
            rows = a.shape[2]
            a = torch.baddbmm(bias.unsqueeze(1), a.flatten(1, 2), weight.mT).unflatten(1, (-1, rows))
        if self.log_variances is None or not with_noise:
            return a
        return torch.cat([a, self.log_variances[:, None, None].expand(*a.shape[:-1], -1)], dim=-1)


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0].detach().unsqueeze(0) if len(tensors) == 1 else torch.stack(list(tensors))
