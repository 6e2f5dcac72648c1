"""Where does the output of a dropout go? Found by tracing what can be traced, and by the text of all other code."""

import ast
import contextlib
import copy
import functools
import inspect
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from torch import fx, nn
from torch.nn import functional as F
from torch.nn.modules.dropout import _DropoutNd

from gumdrop.layers.kinds import kind_of
from gumdrop.layers.numbers import methods_that_read

DROP = {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"}
"""Functions of PyTorch that drop."""
MADE = frozenset({"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"})
"""Modules of PyTorch that drop."""
PLACES = {"", "F", "functional", "nn.functional", "torch", "torch.nn.functional"}
"""What may stand in front of the functions."""


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
        neighbours: dict[int, Neighbours] = {}
        for graph in graphs:
            for node in graph.nodes:
                dropout = _module_of(part, node)
                if isinstance(dropout, _DropoutNd):
                    around = neighbours.setdefault(id(dropout), Neighbours("", dropout, dropout.p, [], []))
                    around.before.append(_module_of(part, node.args[0]) if node.args else None)
                    around.behind.extend(_consumers_of(part, node))
        for name, module in part.named_modules(remove_duplicate=False):
            if id(module) in neighbours:
                seen.add(id(module))
                yield neighbours[id(module)]._replace(name=prefix + name)
    for name, module in model.named_modules():
        for child, dropout, p, layers in _in_text(module):
            if id(dropout) not in seen:
                yield Neighbours(f"{name}.{child}".removeprefix("."), dropout, p, [], layers)


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


def readers(module: nn.Module, child: str) -> list[str | None]:
    """Name the children that read what is dropped by a child, or at a number; None for each use of another kind."""
    names: list[str | None] = []
    for function in methods_that_read(type(module), child):
        tree = tree_of(function)
        names.extend([None] if tree is None else _readers(tree, child))
    return names


ALWAYS = ("dropout(training=True)", "Dropout()")
"""What is random in eval, too: a call that nobody tells of the mode, and a module that a forward makes."""


@functools.lru_cache(maxsize=512)
def rates_in_text(cls: type) -> tuple[Mapping[str, float], frozenset[str]]:
    """Find rates in the code of a class that no module holds: the largest literals, and names in `self.config`."""
    literals: dict[str, float] = {}
    names = set()
    for function in methods_that_read(cls):
        own, is_forward = function.__code__.co_names, "forward" in function.__name__
        if not ((DROP | MADE).intersection(own) or (is_forward and "config" in own)):
            continue
        imported = {name for name in DROP if function.__globals__.get(name) is getattr(F, name)}
        nodes = list(ast.walk(tree_of(function) or ast.Pass()))
        made = {node.func for node in nodes if isinstance(node, ast.Call)}
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            is_made = _name_of(call.func) in MADE and (is_forward or call in made)
            rate = _first(call, "p", 0, ast.Constant(0.5)) if is_made else _rate_of(call, imported)
            if isinstance(rate, ast.Constant) and isinstance(rate.value, float):
                always = _first(call, "training", 2) is None
                what = "Dropout()" if is_made else "dropout(training=True)" if always else "dropout()"
                literals[what] = max(literals.get(what, 0.0), rate.value)
        if is_forward:
            attributes = [node for node in nodes if isinstance(node, ast.Attribute) and "drop" in node.attr]
            names |= {node.attr for node in attributes if _child_of(node.value) == "config"}
    return literals, frozenset(names)


def _first(call: ast.Call, name: str, place: int, default: ast.expr | None = None) -> ast.expr | None:
    """Find an argument of a call, by its name or its place."""
    found = [word.value for word in call.keywords if word.arg == name] or call.args[place : place + 1]
    return found[0] if found else default


def depends_on(cls: type, rate: str) -> bool:
    """Tell whether code takes another way where a rate, ``drop.p``, is 0, as it is once a site stands for it."""
    return any(isinstance(node, (ast.If, ast.IfExp)) and _reads(node.test, rate) for node in _nodes(cls, rate))


def drops_by(cls: type, rate: str) -> bool:
    """Tell whether code hands a rate, as it is, to a function that drops."""
    rates = [_rate_of(node) for node in _nodes(cls, rate) if isinstance(node, ast.Call)]
    return any(_reads(each, rate) and not isinstance(each, ast.Call) for each in rates if each is not None)


def _reads(node: ast.AST, rate: str) -> bool:
    return any(isinstance(each, ast.Attribute) and ast.unparse(each) == f"self.{rate}" for each in ast.walk(node))


def _rate_of(call: ast.Call, imported: Collection[str] = ()) -> ast.AST | None:
    """Find the rate in the call of a function that drops; None if it is the call of another."""
    module, _, name = ast.unparse(call.func).rpartition(".")
    if name not in DROP or module not in PLACES:
        return None
    return _first(call, "p", 1, ast.Constant(0.5) if module or name in imported else None)  # PyTorch's default


def _nodes(cls: type, rate: str) -> Iterator[ast.AST]:
    """Walk over the methods that read a rate."""
    for function in methods_that_read(cls, *rate.split(".")):
        yield from ast.walk(tree_of(function) or ast.Pass())


@functools.lru_cache(maxsize=512)
def tree_of(function: FunctionType) -> ast.AST | None:
    """Parse a method; None if its code is in no file."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except OSError:
        return None


def _readers(tree: ast.AST, child: str) -> Iterator[str | None]:
    around = {inner: node for node in ast.walk(tree) for inner in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if _child_of(node) == child:
            call = around[node]
            if isinstance(call, ast.keyword) and call.arg == "p":
                call = around[call]
            is_call = isinstance(call, ast.Call) and (call.func is node or _name_of(call.func) == "dropout")
            yield from _uses(tree, around, call) if is_call else [None]


def _child_of(node: ast.AST) -> str | None:
    """Name of the attribute, where that is what stands here: ``self.name``."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return node.attr
    return None


def _uses(tree: ast.AST, around: dict[ast.AST, ast.AST], value: ast.AST) -> Iterator[str | None]:
    """Find who reads a value: the call that it stands in, or all those behind the name that it is given."""
    node = around[value]
    if isinstance(node, ast.Call) and node.args[:1] == [value]:
        yield _child_of(node.func)
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and not _is_repeated(around, node):
        for name in _behind(tree, around, node, node.targets[0].id):
            call = around[name]
            yield _child_of(call.func) if isinstance(call, ast.Call) and call.args[:1] == [name] else None
    else:
        yield None


def _is_repeated(around: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    while node in around:
        node = around[node]
        if isinstance(node, (ast.For, ast.While)):
            return True
    return False


def _behind(tree: ast.AST, around: dict[ast.AST, ast.AST], start: ast.Assign, name: str) -> Iterator[ast.Name]:
    """Find where a name is read behind an assignment, up to the next one that is reached in any case."""
    block = around[start]
    ends = [
        node.end_lineno or 0
        for node in ast.iter_child_nodes(block)
        if isinstance(node, ast.Assign) and node.lineno > start.lineno and name in map(_name_of, node.targets)
    ]
    first, last = start.end_lineno or 0, min(ends, default=1 << 30)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id == name:
            if first < node.lineno <= last:
                yield node


def _name_of(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
