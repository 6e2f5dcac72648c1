"""Modules that the code around them uses without a call, found by its text, as far as that is known.

A site acts when its module is called. Code that reads the weight of a layer and does not call it, as fused losses and
kernels do, passes it by, and so does code that has a dropout and never runs it. Whatever may be a call counts as one.
"""

import ast
import functools
import inspect
from collections.abc import Iterator
from types import FunctionType
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from gumdrop.layers.numbers import is_asking
from gumdrop.networks.tracing import tree_of

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
"""Modules whose children are not named in any code."""
OWN_FORWARD = (nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention)
"""Layers whose sites are in their forward, and not in front of it."""
ABOUT = frozenset({"dtype", "device", "shape", "ndim", "size", "is_meta", "requires_grad"})
"""Attributes of a weight that say nothing of its values."""
LIBRARIES = frozenset({"F", "nn", "torch", "functional"})
HARMLESS = frozenset({"super", "type", "isinstance", "id"})
"""Functions that take a module and call none of its children."""

LISTS = frozenset({"_modules", "__dict__", "children", "modules", "named_children", "named_modules", "get_submodule"})
"""Attributes by which code comes to children without their names."""

Path = tuple[str, ...]


class Text(NamedTuple):
    """What code reads, as ``self.a.b`` in ``("a", "b")``."""

    own: frozenset[Path]
    """Of the module that it is of."""
    others: frozenset[Path]
    """Of anything else."""
    is_open: bool
    """Whether it hands the whole module on, so that others may call its children."""


UNKNOWN = Text(frozenset(), frozenset(), True)


def never_called(model: nn.Module) -> dict[int, str]:
    """Find layers whose weight is used without a call, and dropout that nobody calls, with the reason."""
    texts, named = _texts(model), {}
    found: dict[int, str] = {}
    called = {id(model)}
    for around in model.modules():
        text, name = texts.get(type(around)), type(around).__name__
        if text is None or text.is_open or ("forward" in vars(around) and not is_asking(around)):
            called.update(map(id, around.children()))
        else:
            named.update({id(child): each for each, child in around.named_children()})
            found |= {id(m): f"the code of {name} does not use it" for m in around.children() if type(m) is nn.Dropout}
            for path in text.own:
                module, rest = _followed(around, path)
                if module is around:
                    continue
                if not _passes_by(module, rest):
                    called.add(id(module))
                elif rest[0] == "forward" or (isinstance(getattr(module, rest[0]), Tensor) and not ABOUT & {*rest}):
                    found[id(module)] = f"the code of {name} uses its weight without calling it"
    others = {path for text in texts.values() for path in text.others}
    called |= {key for key, name in named.items() if any(_may_call(path, name) for path in others)}
    return {key: why for key, why in found.items() if key not in called}


def _followed(module: nn.Module, path: Path) -> tuple[nn.Module, Path]:
    """Go along a path as far as it leads from module to module."""
    for i, name in enumerate(path):
        child = module._modules.get(name)
        if child is None:
            return module, path[i:]
        module = child
    return module, ()


def _passes_by(module: nn.Module, rest: Path) -> bool:
    """Tell whether code that reads an attribute of a layer does not run the layer by it."""
    if not rest or isinstance(module, CONTAINERS) or next(module.children(), None) is not None:
        return False
    if rest[0] == "forward":
        return not isinstance(module, OWN_FORWARD)
    return not (isinstance(module, _DropoutNd) or callable(getattr(module, rest[0], len)))


def _may_call(path: Path, name: str) -> bool:
    """Tell whether code may call a child of this name by a path from elsewhere."""
    places = [i for i, each in enumerate(path) if each == name]
    return any(path[i + 1 : i + 2] not in {("weight",), ("bias",)} for i in places)


def _texts(model: nn.Module) -> dict[type, Text]:
    """Read what the forward of each class may run: the methods of all names that it, or what it runs, reads."""
    classes = {type(m) for m in model.modules() if next(m.children(), None) is not None}
    own = {cls: dict(_methods(cls)) for cls in classes if not issubclass(cls, CONTAINERS)}
    names, size = {"forward", "__call__"}, 0
    while size != len(names):
        size = len(names)
        texts = {
            cls: [_text_of(each) for name, several in methods.items() if name in names for each in several]
            for cls, methods in own.items()
        }
        paths = (path for several in texts.values() for text in several for path in (*text.own, *text.others))
        names |= {name for path in paths for name in path}
    return {cls: _joined(several) for cls, several in texts.items()}


def _joined(texts: list[Text]) -> Text:
    if not texts:
        return UNKNOWN
    own, others = (frozenset[Path]().union(*each) for each in zip(*[text[:2] for text in texts], strict=True))
    return Text(own, others, any(text.is_open for text in texts))


def _methods(cls: type) -> Iterator[tuple[str, list[FunctionType]]]:
    """List the methods and properties of a class, and those above that they call, but for what all modules have."""
    above = [each for each in cls.__mro__ if issubclass(each, nn.Module) and each is not nn.Module]
    for name in {name for each in above for name in vars(each)} - (vars(nn.Module).keys() - {"forward"}):
        functions: list[FunctionType] = []
        for value in (vars(each)[name] for each in above if name in vars(each)):
            function = inspect.unwrap(getattr(value, "fget", value))
            if not inspect.isfunction(function):
                break
            functions.append(function)
            if "super" not in function.__code__.co_names:
                break
        if functions:
            yield name, functions


@functools.lru_cache(maxsize=1024)
def _text_of(function: FunctionType) -> Text:
    """Read the text of a method."""
    tree = tree_of(function)
    if tree is None or not function.__code__.co_varnames:
        return UNKNOWN if tree is None else Text(frozenset(), frozenset(), False)
    root, is_open = function.__code__.co_varnames[0], False
    own, others = set[Path](), set[Path]()
    around = {inner: node for node in ast.walk(tree) for inner in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(around[node], ast.Attribute):
            start, path = _chain(node)
            (own if start == root else others).update([path] if start not in LIBRARIES else [])
        elif isinstance(node, ast.Name) and node.id == root and isinstance(node.ctx, ast.Load):
            user = around[node]
            is_harmless = isinstance(user, ast.Call) and isinstance(user.func, ast.Name) and user.func.id in HARMLESS
            is_open |= not (isinstance(user, ast.Attribute) or is_harmless)
    return Text(frozenset(own), frozenset(others), is_open or any(path[0] in LISTS for path in own))


def _chain(node: ast.expr) -> tuple[str | None, Path]:
    """Split ``a.b.c`` into ``"a"`` and ``("b", "c")``; None where something else stands in front."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id if isinstance(node, ast.Name) else None), tuple(reversed(names))
