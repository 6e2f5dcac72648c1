"""The dropout that a model has of its own: what layers take over, what learns its rate where it is, and what stays."""

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from torch import nn
from torch.nn.utils.parametrize import ParametrizationList

from gumdrop.layers import SITE, ConcreteDropout, DropoutKind
from gumdrop.layers.in_place import DropInPlace, dropout_kind_of
from gumdrop.layers.kinds import drops_between_layers, inner_dropout, kind_of
from gumdrop.layers.numbers import attach_in_code, attach_in_place, methods_that_read
from gumdrop.layers.site import sites_of
from gumdrop.networks.choice import set_aside
from gumdrop.networks.tracing import ALWAYS, Neighbours, depends_on, drops_by, rates_in_text
from gumdrop.networks.uses import never_called

# Dropout that layers take over


def layers_with_dropout(model: nn.Module, neighbours: Iterable[Neighbours]) -> tuple[list[str], list[str]]:
    """Name the modules that all outputs of a dropout go to, and recurrent ones with dropout between their layers."""
    names = {id(module): name for name, module in model.named_modules()}
    fed = [[names.get(id(layer)) for layer in each.behind] for each in neighbours if 0 < each.p < 1]
    inside = [name for name, m in model.named_modules() if drops_between_layers(m) and 0 < m.dropout < 1]
    return [name for behind in fed if None not in behind for name in behind if name is not None], inside


def take_over(
    neighbours: Iterable[Neighbours], layers: Mapping[str, nn.Module]
) -> tuple[dict[str, float], dict[str, str]]:
    """Find the dropout that feeds the input of converted layers only."""
    start: dict[str, float] = {}
    replaced: dict[str, str] = {}
    names = {id(layer): name for name, layer in layers.items()}
    for neighbour in neighbours:
        if neighbour.behind and all(id(layer) in names for layer in neighbour.behind) and neighbour.p < 1:
            fed = list(dict.fromkeys(names[id(layer)] for layer in neighbour.behind))
            if neighbour.p > 0:
                start.update(dict.fromkeys(fed, neighbour.p))
            how = f"starts from p = {neighbour.p:g}" if neighbour.p > 0 else "(its p was 0)"
            replaced[neighbour.name] = f"{', '.join(fed)} {how}"
    return start, replaced


def start_rates(layers: Mapping[str, nn.Module], start: Mapping[str, float]) -> dict[str, str]:
    """Let sites start from the rates of the plain dropout that they replace; say which stood between layers."""
    between: dict[str, str] = {}
    for name, layer in layers.items():
        if name in start:
            _start_at(layer, start[name], between_layers=False)
        if isinstance(layer, nn.RNNBase) and layer.num_layers > 1 and 0 < layer.dropout < 1:
            _start_at(layer, layer.dropout, between_layers=True)
            inner = f"{name}.dropout".removeprefix(".")
            between[inner] = f"{name or 'the model'} starts from p = {layer.dropout:g} between its layers"
    return between


def _start_at(layer: nn.Module, p: float, *, between_layers: bool) -> None:
    """Start the sites on the layer's own input, or those between the layers of a recurrent module, from a rate."""
    holder = layer.get_submodule(SITE)
    for name, site in [("", holder)] if isinstance(holder, ConcreteDropout) else holder.named_children():
        is_between = name.startswith("ih_") and not name.startswith("ih_l0")
        is_inner = is_between or name.startswith("hh_") or name == "out_proj"
        if is_between if between_layers else not is_inner:
            cast(ConcreteDropout, site).start_at(p)


def switch_off_replaced(model: nn.Module, replaced: Iterable[str]) -> None:
    """Take out plain dropout by name, and the detour of transformers around converted layers."""
    for name in replaced:
        around, _, own = name.rpartition(".")
        if own in model.get_submodule(around)._modules:
            model.set_submodule(name, nn.Identity().train(model.get_submodule(name).training))
        else:
            setattr(model.get_submodule(around), own, 0.0)
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder) and sites_of(module):
            # Its nested tensors serve only the fused path of its layers, which their sites rule out.
            module.use_nested_tensor = False


# All other dropout


class OwnDropout(NamedTuple):
    """Dropout of a model's own."""

    module: nn.Module
    """The module that has it."""
    attribute: str
    """Where it keeps its rate."""
    kind: DropoutKind | None
    """What the module drops; None where its code does more than that."""
    p: float
    """The rate."""

    def __str__(self) -> str:
        """Say what it is."""
        name = type(self.module).__name__
        if self.kind is not None:
            return f"{name}({self.attribute}={self.p:g})"
        inner = inner_dropout(self.module) if self.attribute == "dropout" else None
        return f"dropout {inner}, p = {self.p:g}" if inner else f"{self.attribute} = {self.p:g} in the code of {name}"


def own_dropout(
    model: nn.Module, kinds: Mapping[type[nn.Module], DropoutKind]
) -> Iterator[tuple[str, nn.Module, str, OwnDropout]]:
    """Find the dropout that a model has; give its name, the module around it and what it is called there."""
    for name, module in model.named_modules():
        kind = dropout_kind_of(module, kinds)
        if isinstance(module, nn.RNNBase) and not drops_between_layers(module):
            continue
        rates = _numbers(module) if kind is None else {kind.rate: vars(module).get(kind.rate)}
        for attribute, p in rates.items():
            if isinstance(p, float) and 0 < p <= 1:
                own = OwnDropout(module, attribute, kind, p)
                parent, _, child = name.rpartition(".")
                around = model.get_submodule(parent)
                yield (name if kind is not None else f"{name}.{attribute}".removeprefix(".")), around, child, own


def _numbers(module: nn.Module) -> dict[str, object]:
    """Numbers that may be rates in the code of a module; an attribute that is not called dropout must be read there."""
    cls: type = type(module)
    numbers = {name: p for name, p in vars(module).items() if "drop" in name}
    own = {name: p for name, p in numbers.items() if "dropout" in name or methods_that_read(cls, name)}
    literals, names = rates_in_text(cls)
    of_config = {f"config.{name}": getattr(module.config, name, None) for name in sorted(names)}
    return {**own, **of_config, **literals}


class Settled(NamedTuple):
    """What became of the dropout that no layer has taken over, by name."""

    in_place: dict[str, str]
    """What has a learned rate where it is."""
    left: dict[str, str]
    """What acts as before, and why."""
    removed: dict[str, str]
    """What was switched off."""


SiteMaker = Callable[..., DropInPlace]
"""Makes a site for what is dropped whole."""


def settle(
    model: nn.Module,
    way: str,
    custom: Mapping[type[nn.Module], object],
    make_site: Callable[[str, OwnDropout], SiteMaker],
    neighbours: Iterable[Neighbours],
    exclude: Sequence[str],
) -> Settled:
    """Keep, remove or learn the dropout that no layer has taken over."""
    settled, idle = Settled({}, {}, {}), set_aside(model)[1] | never_called(model)
    kinds = {cls: kind for cls, kind in custom.items() if isinstance(kind, DropoutKind)}
    units_last = {id(each.dropout) for each in neighbours if each.has_units_last}
    for name, around, child, own in list(own_dropout(model, kinds)):
        what = str(own)
        if way == "keep":
            settled.left[name] = f"{what}; it acts as before, on top of learned rates"
        elif own.attribute not in vars(own.module):
            when = ", in eval too" if own.attribute in ALWAYS else ""
            settled.left[name] = f"{what}; it acts as before{when}, since only numbers that a module holds can learn"
        elif way == "remove":
            setattr(own.module, own.attribute, 0.0)  # code around the module may read the rate, as attention does
            settled.removed[name] = what
        elif any(fnmatch.fnmatchcase(name, pattern) for pattern in exclude):
            settled.left[name] = f"{what}; it acts as before, excluded by `exclude`"
        elif own.kind is not None and id(own.module) in idle:
            settled.left[name] = f"{what}; {idle[id(own.module)]}"
        elif why_not := idle.get(id(own.module)) or _learn(own, make_site(name, own), around, child, units_last):
            settled.left[name] = f"{what}; it acts as before, since {why_not}"
        else:
            settled.in_place[name] = what
    return settled


def _learn(own: OwnDropout, make_site: SiteMaker, around: nn.Module, child: str, units_last: set[int]) -> str | None:
    """Place a site where a dropout is, or say why there is none."""
    if own.p == 1:
        return "it drops everything"
    reader, rate = (own.module, own.attribute) if own.kind is None else (around, f"{child}.{own.attribute}")
    if depends_on(type(reader), rate):
        return "its code asks whether it is 0"
    if own.kind is None:
        return _learn_inside(own, make_site)
    if own.kind.why_not is None:
        is_weight = isinstance(around, ParametrizationList)
        units: Any = "element" if is_weight else -1 if id(own.module) in units_last else own.kind.units
        attach_in_place(own.module, own.attribute, make_site(units), around, child)
    return own.kind.why_not


def _learn_inside(own: OwnDropout, make_site: SiteMaker) -> str | None:
    """Place a site in a module that does more than drop, or say why there is none."""
    kind = kind_of(own.module)
    if own.attribute == "dropout" and kind is not None and kind.attach_own is not None and kind.accepts(own.module):
        kind.attach_own(own.module, make_site)
        return None
    is_rate = "dropout" in own.attribute or drops_by(type(own.module), own.attribute)
    if not (is_rate and attach_in_code(own.module, own.attribute, make_site("shape"))):
        return "its code was not seen to hand it to a function that drops"
    return None
