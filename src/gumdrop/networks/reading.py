"""What the text of a module's code does with the output of a child, where the code cannot be traced."""

import ast
import inspect
import textwrap
from collections.abc import Iterator

from torch import nn

from gumdrop.layers.numbers import methods_that_read


def readers(module: nn.Module, child: str) -> list[str | None]:
    """Name the children that read what is dropped by a child, or at a number; None for each use of another kind."""
    found: list[str | None] = []
    for function in methods_that_read(type(module), child):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        except OSError:  # code that is in no file
            return [None]
        found.extend(_readers(tree, child))
    return found


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
    is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if is_own and isinstance(node, ast.Attribute) else None


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
    for node in ast.walk(tree):
        is_read = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        if (
            is_read
            and isinstance(node, ast.Name)
            and (start.end_lineno or 0) < node.lineno <= min(ends, default=1 << 30)
        ):
            yield node


def _name_of(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
