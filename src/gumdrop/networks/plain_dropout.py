"""The dropout that a model has of its own: what of it learned rates replace, what stays, and how to switch that off."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from gumdrop.layers.inner_dropout import drops_between_layers, inner_dropout
from gumdrop.networks.tracing import dropout_consumers

__all__ = ["settle", "take_over"]


def take_over(
    model: nn.Module, layers: Mapping[str, nn.Module], leaves: tuple[type[nn.Module], ...]
) -> tuple[dict[str, float], dict[str, str]]:
    """Find the dropout that feeds the input of converted layers only."""
    start: dict[str, float] = {}
    replaced: dict[str, str] = {}
    names = {id(layer): name for name, layer in layers.items()}
    for dropout_name, consumers in dropout_consumers(model, leaves):
        p = cast(_DropoutNd, model.get_submodule(dropout_name)).p
        if consumers and all(id(consumer) in names for consumer in consumers) and p < 1:
            fed = list(dict.fromkeys(names[id(consumer)] for consumer in consumers))
            if p > 0:
                start.update(dict.fromkeys(fed, p))
            replaced[dropout_name] = f"{', '.join(fed)} " + (f"starts from p = {p:g}" if p > 0 else "(its p was 0)")
    return start, replaced


class _Leftover(NamedTuple):
    """Dropout that no learned rate replaces."""

    module: nn.Module
    """The module that has it."""
    attribute: str
    """Where it keeps its rate."""
    what: str
    """What it is, in words."""


def settle(model: nn.Module, *, remove: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Switch off the dropout that a converted model has left, or leave it."""
    found = dict(_leftovers(model))
    if not remove:
        return {name: f"{each.what}; it acts as before, on top of learned rates" for name, each in found.items()}, {}
    for each in found.values():
        # The module stays, because code around it may read the rate, as attention does.
        setattr(each.module, each.attribute, 0.0)
    return {}, {name: each.what for name, each in found.items()}


def _leftovers(model: nn.Module) -> Iterator[tuple[str, _Leftover]]:
    for name, module in model.named_modules():
        kind = type(module).__name__
        if isinstance(module, _DropoutNd):
            if module.p > 0:
                what = f"{kind}(p={module.p:g}) was not seen to feed converted layers only"
                yield name, _Leftover(module, "p", what)
        elif not isinstance(module, nn.RNNBase) or drops_between_layers(module):
            for attribute, value in vars(module).items():
                if "dropout" in attribute and isinstance(value, float) and 0 < value <= 1:
                    place = f"{name}.{attribute}".removeprefix(".")
                    yield place, _Leftover(module, attribute, _described(module, attribute, value))


def _described(module: nn.Module, attribute: str, p: float) -> str:
    inner = inner_dropout(module)
    return (
        f"dropout {inner}, p = {p:g}"
        if inner
        else f"{attribute} = {p:g}, which functions of {type(module).__name__} may read"
    )
