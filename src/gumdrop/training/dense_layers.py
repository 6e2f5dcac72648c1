"""Which models are plain dense networks, whose steps `gumdrop.training.dense_stack` writes out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gumdrop.layers import SITE, ConcreteDropout, HomoscedasticNoise, PiecewiseLinear
from gumdrop.objective.likelihoods import LIKELIHOODS
from gumdrop.training.settings import Likelihood

__all__ = ["ACTIVATIONS", "Parts", "dense_layers_of", "site_of"]

ACTIVATIONS: dict[type[nn.Module], tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    nn.ReLU: (torch.relu, lambda g, h: torch.ops.aten.threshold_backward(g, h, 0)),
    nn.SiLU: (nn.functional.silu, torch.ops.aten.silu_backward),
}
"""What an activation does, and its gradient from that of its output and from its input."""


class Parts(NamedTuple):
    """The layers of a dense network."""

    encoding: PiecewiseLinear | None
    """What stands in front of the first layer."""
    layers: list[nn.Linear]
    """Each with a site."""
    activation: type[nn.Module]
    """Between the layers."""
    noise: HomoscedasticNoise | None
    """At the end."""
    fixed: tuple[bool, float]
    """Whether the rates are fixed, and the temperature of their masks."""


def dense_layers_of(models: Sequence[nn.Module], likelihood: Likelihood | None = None) -> list[Parts] | None:
    """Take dense networks apart, such as `gumdrop.networks.mlp` builds.

    Args:
        models: Models of the same layers and shapes.
        likelihood: Negative log likelihood of each example; None where it does not matter.

    Returns:
        The layers of each, or None if they are not a chain of float32 layers with a rate each, or their likelihood is
        neither the categorical nor the Gaussian one with a variance that does not depend on the inputs.
    """
    found = [each for each in map(_dense_layers, models) if each is not None]
    if len(found) < len(models) or len({(p.activation, p.fixed) for p in found}) > 1:
        return None
    if not all(_are_same(found[0].encoding, each.encoding) for each in found):
        return None
    wanted = "categorical" if found[0].noise is None else "gaussian"
    return found if likelihood in (None, LIKELIHOODS[wanted]) else None


def _are_same(one: PiecewiseLinear | None, other: PiecewiseLinear | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(map(torch.equal, one.buffers(), other.buffers()))


def _dense_layers(model: nn.Module) -> Parts | None:
    """Take a dense network apart; None if it is something else."""
    parts = list(model) if type(model) is nn.Sequential else []
    if not any(isinstance(part, nn.Linear) for part in parts):
        return None
    first, last = parts[0], parts[-1]
    encoding = first if isinstance(first, PiecewiseLinear) else None
    noise = last if isinstance(last, HomoscedasticNoise) else None
    between = parts[encoding is not None : len(parts) - (noise is not None)]
    layers = [layer for layer in between[::2] if isinstance(layer, nn.Linear) and _is_known(layer)]
    activations = {type(part) for part in between[1::2]}
    if 2 * len(layers) != len(between) + 1 or len(activations) != 1 or not activations <= ACTIVATIONS.keys():
        return None
    parameters = [parameter for layer in layers for parameter in (layer.weight, layer.bias)]
    if len({id(parameter) for parameter in parameters}) < len(parameters):
        return None  # one weight of several layers has one gradient
    fixed = {(site.is_fixed, site.temperature) for site in map(site_of, layers)}
    if len(fixed) > 1 or (noise is not None and noise.gamma_prior is not None):
        return None
    return Parts(encoding, layers, activations.pop(), noise, fixed.pop())


def _is_known(layer: nn.Module) -> bool:
    site = layer._modules.get(SITE)
    return (
        type(layer) is nn.Linear
        and type(site) is ConcreteDropout
        and layer.bias is not None
        and layer.weight.dtype == torch.float32
        and layer.weight.requires_grad
        and layer.bias.requires_grad
        and site.scaled_logit.ndim == 0
    )


def site_of(layer: nn.Module) -> ConcreteDropout:
    """The site in front of a dense layer that has one."""
    site = layer.get_submodule(SITE)
    assert isinstance(site, ConcreteDropout)
    return site
