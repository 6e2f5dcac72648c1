"""Where does the output of a dropout go? Found by tracing what can be traced, and by the text of all other code."""

import contextlib
import copy
import inspect
from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import fx, nn
from torch.nn.modules.dropout import _DropoutNd

from gumdrop.layers.kinds import kind_of
from gumdrop.networks.reading import readers


class Neighbours(NamedTuple):
    """What stands around a dropout: an ``nn.Dropout*``, or a number that the code of a module drops by."""

    name: str
    dropout: nn.Module
    """The module that has its rate."""
    p: float
    before: list[nn.Module | None]
    """Where its inputs come from, one for each use; None for what is no module."""
    behind: list[nn.Module | None]
    """Where its outputs go."""

    @property
    def has_units_last(self) -> bool:
        """Whether all inputs come from layers whose units are in the last dimension."""
        kinds = [None if layer is None else kind_of(layer) for layer in self.before]
        return bool(kinds) and all(kind is not None and kind.last_dimension_only for kind in kinds)


def dropout_neighbours(model: nn.Module, leaves: tuple[type[nn.Module], ...]) -> Iterable[Neighbours]:
    """Find what stands around each ``nn.Dropout*``, as far as that is known."""
    seen: set[int] = set()
    for prefix, part, graphs in _traceable_parts(model, "", leaves):
        found: dict[int, Neighbours] = {}
        for graph in graphs:
            for node in graph.nodes:
                dropout = _module_of(part, node)
                if isinstance(dropout, _DropoutNd):
                    around = found.setdefault(id(dropout), Neighbours("", dropout, dropout.p, [], []))
                    around.before.append(_module_of(part, node.args[0]) if node.args else None)
                    around.behind.extend(_consumers_of(part, node))
        for name, module in part.named_modules(remove_duplicate=False):
            if id(module) in found:
                seen.add(id(module))
                yield found[id(module)]._replace(name=prefix + name)
    for name, module in model.named_modules():
        for place, dropout, p, layers in _in_text(module):
            if id(dropout) not in seen:
                yield Neighbours(f"{name}.{place}".removeprefix("."), dropout, p, [], layers)


def _in_text(module: nn.Module) -> Iterable[tuple[str, nn.Module, float, list[nn.Module | None]]]:
    """Find, by the text of its code, the children that read what is dropped in a module."""
    rates = {name: (child, child.p) for name, child in module.named_children() if isinstance(child, _DropoutNd)}
    numbers = {
        name: (module, p) for name, p in vars(module).items() if "dropout" in name and isinstance(p, float) and p
    }
    for name, (dropout, p) in (rates | numbers).items():
        yield name, dropout, p, [module._modules.get(reader or "") for reader in readers(module, name)]
    if "lora_dropout" in module._modules:  # adapters of peft
        variants = getattr(module, "lora_variant", {})
        for adapter, layer in module.get_submodule("lora_A").named_children():
            dropout = module.get_submodule(f"lora_dropout.{adapter}")
            if isinstance(dropout, _DropoutNd) and adapter not in variants:
                yield f"lora_dropout.{adapter}", dropout, dropout.p, [layer]


def _module_of(part: nn.Module, node: Any) -> nn.Module | None:
    is_call = isinstance(node, fx.Node) and node.op == "call_module"
    return part.get_submodule(str(node.target)) if is_call else None


def _consumers_of(part: nn.Module, node: fx.Node) -> list[nn.Module | None]:
    consumers: list[nn.Module | None] = []
    for user in node.users:
        if _reads_no_values(user):
            continue
        module = _module_of(part, user)
        if isinstance(module, (nn.Identity, nn.Flatten)):
            consumers.extend(_consumers_of(part, user))
        else:
            consumers.append(module if module is not None and _is_input_only(module, user, node) else None)
    return consumers


def _reads_no_values(user: fx.Node) -> bool:
    if user.op == "call_method":
        return user.target in {"size", "dim"}
    return user.target is getattr and user.args[1] in {"shape", "ndim", "dtype", "device"}


def _is_input_only(module: nn.Module, user: fx.Node, node: fx.Node) -> bool:
    """Tell whether a call takes a value as what sites drop, and not, say, as an initial state or a mask."""
    inputs = 3 if isinstance(module, nn.MultiheadAttention) else 1
    by_name = sorted(user.kwargs.items(), key=lambda item: item[0] not in {"input", "query", "key", "value"})
    others: list[fx.Node] = []
    fx.map_arg([*user.args, *(value for _, value in by_name)][inputs:], others.append)
    return node not in others


class _Tracer(fx.Tracer):
    def __init__(self, leaves: tuple[type[nn.Module], ...]) -> None:
        super().__init__()
        self._leaves = leaves

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, self._leaves) or super().is_leaf_module(m, module_qualified_name)

    def traced(self, module: nn.Module, **options: Any) -> fx.Graph:
        """Trace a copy that shares the parameters, because a forward may leave something on its module."""
        return self.trace(copy.deepcopy(module, {id(p): p for p in module.parameters()}), **options)


def _traceable_parts(
    module: nn.Module, prefix: str, leaves: tuple[type[nn.Module], ...]
) -> Iterable[tuple[str, nn.Module, list[fx.Graph]]]:
    """Trace a model, or where its code cannot be traced, each of its children that can."""
    if not any(isinstance(child, _DropoutNd) for child in module.modules()):
        return
    try:
        graphs = [_Tracer(leaves).traced(module)]
    except Exception:  # whatever a user's forward raises when it is fed a proxy
        for name, child in module.named_children():
            yield from _traceable_parts(child, f"{prefix}{name}.", leaves)
        return
    # With its optional arguments and without them a part may run different code.
    parameters = inspect.signature(module.forward).parameters.values()
    if absent := {parameter.name: None for parameter in parameters if parameter.default is None}:
        with contextlib.suppress(Exception):
            graphs.append(_Tracer(leaves).traced(module, concrete_args=absent))
    yield prefix, module, graphs
