"""What the text of a module's code does with the output of a child, where it cannot be traced, and what it drops by."""

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterator
from types import FunctionType

from torch import nn

from gumdrop.layers.numbers import methods_that_read

DROP = {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"}
"""Functions of PyTorch that drop,"""
PLACES = {"", "F", "functional", "nn.functional", "torch", "torch.nn.functional"}
"""and what may stand in front of them."""


def readers(module: nn.Module, child: str) -> list[str | None]:
    """Name the children that read what is dropped by a child, or at a number; None for each use of another kind."""
    found: list[str | None] = []
    for function in methods_that_read(type(module), child):
        tree = _tree_of(function)
        found.extend([None] if tree is None else _readers(tree, child))
    return found


@functools.lru_cache(maxsize=512)
def rates_in_text(cls: type) -> tuple[float, frozenset[str]]:
    """Find rates in the forward of a class that no module holds: the largest literal, and names in `self.config`."""
    literal, names = 0.0, set()
    for function in methods_that_read(cls):
        own = function.__code__.co_names
        if "forward" in function.__name__ and (DROP.intersection(own) or "config" in own):
            for node in ast.walk(_tree_of(function) or ast.Pass()):
                rate = _rate_of(node) if isinstance(node, ast.Call) else None
                if isinstance(rate, ast.Constant) and isinstance(rate.value, float):
                    literal = max(literal, rate.value)
                elif isinstance(node, ast.Attribute) and _child_of(node.value) == "config" and "drop" in node.attr:
                    names.add(node.attr)
    return literal, frozenset(names)


def depends_on(cls: type, rate: str) -> bool:
    """Tell whether code takes another way where a rate, ``drop.p``, is 0, as it is once a site stands for it."""
    return any(isinstance(node, (ast.If, ast.IfExp)) and _reads(node.test, rate) for node in _nodes(cls, rate))


def drops_by(cls: type, rate: str) -> bool:
    """Tell whether code hands a rate, as it is, to a function that drops."""
    rates = [_rate_of(node) for node in _nodes(cls, rate) if isinstance(node, ast.Call)]
    return any(_reads(each, rate) and not isinstance(each, ast.Call) for each in rates if each is not None)


def _reads(node: ast.AST, rate: str) -> bool:
    return any(isinstance(each, ast.Attribute) and ast.unparse(each) == f"self.{rate}" for each in ast.walk(node))


def _rate_of(call: ast.Call) -> ast.AST | None:
    """Find the rate in the call of a function that drops; None if it is the call of another."""
    place, _, name = ast.unparse(call.func).rpartition(".")
    if name not in DROP or place not in PLACES:
        return None
    default = [ast.Constant(0.5)] if place else []  # that of PyTorch
    return next(iter([word.value for word in call.keywords if word.arg == "p"] or call.args[1:2] or default), None)


def _nodes(cls: type, rate: str) -> Iterator[ast.AST]:
    """Walk over the methods that read a rate."""
    for function in methods_that_read(cls, *rate.split(".")):
        yield from ast.walk(_tree_of(function) or ast.Pass())


@functools.lru_cache(maxsize=512)
def _tree_of(function: FunctionType) -> ast.AST | None:
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
