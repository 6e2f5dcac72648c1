"""Drop columns of a weight in place of units of the input, where the input is the larger of the two.

One mask for all rows is as good a factor of the weight as of the input. The maps of a picture are many times larger
than the kernels that read them, and in low precision their product with float32 factors is a detour through float32.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from gumdrop.layers import KINDS, SITE, ConcreteDropout, is_own_hook
from gumdrop.layers.dense import drop_input

__all__ = ["Foldable", "foldable", "folded"]

Foldable = list[tuple[nn.Module, ConcreteDropout]]

INPUT_DIMENSION = {
    cls: kind.weight_input_dim for kind in KINDS for cls in kind.types if kind.weight_input_dim is not None
}
"""Where the weight of a layer has its input units."""


def foldable(model: nn.Module) -> Foldable:
    """List the layers whose weights can take the factors of their sites, with these.

    Args:
        model: A converted model.

    Returns:
        Layers that do nothing but what PyTorch and their site do, on a plain parameter. An empty list for a compiled
        model, which would be compiled again for each call that is put in.
    """
    modules = list(model.modules())
    if any(module._compiled_call_impl is not None or "_orig_mod" in module._modules for module in modules):
        return []
    sites = ((layer, layer._modules.get(SITE)) for layer in modules if type(layer) in INPUT_DIMENSION)
    return [(layer, site) for layer, site in sites if type(site) is ConcreteDropout and _is_plain(layer, site)]


def _is_plain(layer: nn.Module, site: ConcreteDropout) -> bool:
    # A call of its own may also be that of a prediction around this one, which folds already.
    has_own_code = vars(layer).keys() & {"forward", "_call_impl"} or "forward" in vars(site)
    hooks = [*layer._forward_pre_hooks.values(), *layer._forward_hooks.values()]
    return (
        not has_own_code
        and not layer._backward_hooks
        and drop_input in hooks
        and all(map(is_own_hook, hooks))
        and site.weight_matrix is None
        and site.batch_dim == 0
        and type(layer._parameters.get("weight")) is nn.Parameter
        and getattr(layer, "groups", 1) == 1
    )


@contextlib.contextmanager
def folded(layers: Foldable) -> Iterator[None]:
    """Context in which calls of layers scale the smaller of their weight and their input.

    Only calls: who asks a site or a layer's ``forward`` directly gets what these give, and no weight is ever replaced,
    so that threads may call a layer at once.

    Args:
        layers: What `foldable` gives of a model, whose dropout is switched on now.

    Yields:
        Nothing.
    """
    with contextlib.ExitStack() as stack:
        for layer, site in layers:
            vars(layer)["_call_impl"] = functools.partial(_call, layer, site, {})
            stack.callback(vars(layer).pop, "_call_impl")
        yield


def _call(
    layer: nn.Module, site: ConcreteDropout, decision: dict[str, bool], /, input: Tensor, *args: Any, **kwargs: Any
) -> Tensor:
    """Stand in for the call of a layer with a site."""
    forward, weight = type(layer).forward, layer._parameters["weight"]
    assert weight is not None
    # Once for all rows: a last part of them that is smaller than the others is to be rounded as they are.
    folds = decision.setdefault("folds", input.numel() > weight.numel())
    if not (folds and site.is_active):
        return forward(layer, site(input), *args, **kwargs)
    scale = site.factor(input)
    if scale.numel() != site.num_units:  # the model's forward draws a mask for each row
        return forward(layer, (input * scale).to(input.dtype), *args, **kwargs)
    shape = [1] * weight.ndim
    shape[INPUT_DIMENSION[type(layer)]] = site.num_units
    twin = object.__new__(type(layer))
    vars(twin).update(vars(layer))
    twin._parameters = {**layer._parameters, "weight": (weight * scale.view(shape)).to(weight.dtype)}  # type: ignore[dict-item]
    return forward(twin, input, *args, **kwargs)
