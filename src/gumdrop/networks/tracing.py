"""Where does the output of a dropout module go? Found by tracing a model, or the parts of it that can be traced."""

import contextlib
import copy
import inspect
from collections.abc import Iterable
from typing import Any

from torch import fx, nn
from torch.nn.modules.dropout import _DropoutNd

__all__ = ["dropout_consumers"]


def dropout_consumers(
    model: nn.Module, leaves: tuple[type[nn.Module], ...]
) -> Iterable[tuple[str, list[nn.Module | None]]]:
    """Find where the output of each ``nn.Dropout*`` goes, as far as the model can be traced."""
    for prefix, part, graphs in _traceable_parts(model, "", leaves):
        consumers: dict[int, list[nn.Module | None]] = {}
        for graph in graphs:
            for node in graph.nodes:
                if node.op == "call_module" and isinstance(dropout := part.get_submodule(node.target), _DropoutNd):
                    consumers.setdefault(id(dropout), []).extend(_consumers_of(part, node))
        for name, module in part.named_modules(remove_duplicate=False):
            if id(module) in consumers:
                yield prefix + name, consumers[id(module)]
    for name, module in model.named_modules():
        for cls in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer):
            if (
                isinstance(module, cls)
                and type(module).forward is cls.forward
                and type(module)._ff_block is cls._ff_block
            ):
                yield f"{name}.dropout".removeprefix("."), [module.linear2]


def _consumers_of(part: nn.Module, node: fx.Node) -> list[nn.Module | None]:
    consumers: list[nn.Module | None] = []
    for user in node.users:
        if _reads_no_values(user):
            continue
        module = part.get_submodule(str(user.target)) if user.op == "call_module" else None
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
