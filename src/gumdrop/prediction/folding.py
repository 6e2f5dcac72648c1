"""Drop the columns of weights in place of the units of inputs that are larger than the weights.

One mask for all rows is as good a factor of the weight as of the input: the maps of a picture are many times larger
than the kernels that read them, and in low precision a product with a float32 factor would be rounded once more.
"""

import contextlib
import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from gumdrop.layers import SITE, ConcreteDropout
from gumdrop.prediction.chain import has_known_hooks

__all__ = ["Folded", "foldable", "folded"]

Folded = list[tuple[nn.Module, ConcreteDropout]]

DIRECT = frozenset({nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d})
"""Layers whose weight has the input units in dimension 1."""
TRANSPOSED = frozenset({nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d})
"""Layers whose weight has them in dimension 0."""


def foldable(model: nn.Module) -> Folded:
    """List the layers whose weights can take the factors of their sites, with these.

    Args:
        model: A converted model.

    Returns:
        Layers that run PyTorch's own forward on a parameter of their own, and whose sites stand nowhere else. None in
        a compiled model, which would be compiled again for each forward that is put in.
    """
    modules = list(model.modules())
    if any(module._compiled_call_impl is not None or "_orig_mod" in module._modules for module in modules):
        return []
    places = Counter(id(child) for module in modules for child in module._modules.values())
    layers = [(layer, layer._modules.get(SITE)) for layer in modules if _takes_factors(layer)]
    # Every layer counts once, so a site that several layers share must have no other place than with them.
    held = Counter(id(site) for _, site in layers)
    return [
        (layer, site)
        for layer, site in layers
        if isinstance(site, ConcreteDropout) and places[id(site)] == held[id(site)]
    ]


def _takes_factors(layer: nn.Module) -> bool:
    if type(layer) not in DIRECT | TRANSPOSED or SITE not in layer._modules or "forward" in vars(layer):
        return False
    plain = type(layer._parameters.get("weight")) is nn.Parameter
    return plain and getattr(layer, "groups", 1) == 1 and not layer._forward_hooks and has_known_hooks(layer)


@contextlib.contextmanager
def folded(layers: Folded) -> Iterator[None]:
    """Context in which layers scale the smaller of their weight and their input.

    Args:
        layers: What `foldable` gives of a model whose dropout is switched on, with one mask for all rows.

    Yields:
        Nothing.
    """
    with contextlib.ExitStack() as stack:
        for layer, site in layers:
            vars(site)["forward"] = _pass_on
            stack.callback(vars(site).pop, "forward", None)
            vars(layer)["forward"] = functools.partial(_forward, layer, site)
            stack.callback(vars(layer).pop, "forward")
        yield


def _pass_on(x: Tensor) -> Tensor:
    return x


def _forward(layer: nn.Module, site: ConcreteDropout, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    weight = layer._parameters["weight"]
    assert weight is not None
    forward: Any = type(layer).forward
    if input.numel() <= weight.numel():
        return forward(layer, ConcreteDropout.forward(site, input), *args, **kwargs)
    shape = [1] * weight.ndim
    shape[0 if type(layer) in TRANSPOSED else 1] = site.num_units
    layer._parameters["weight"] = (weight * site.scale(input).view(shape)).to(weight.dtype)  # type: ignore[assignment]
    try:
        return forward(layer, input, *args, **kwargs)
    finally:
        layer._parameters["weight"] = weight
