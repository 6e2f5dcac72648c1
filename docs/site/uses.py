"""Where a public name is used: in the code of pages, by other public names, and in files of the library."""

import ast
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

DOCS = Path(__file__).parents[1]
SOURCE = DOCS.parent / "src"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
INLINE = re.compile(r"`([A-Za-z_][\w.]*)[^`\n]*`")


def uses_of(names: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Find where each name is used.

    Args:
        names: Public classes and functions by their full names.

    Returns:
        For each full name the pages that use it (`pages`), the public names that it is `returned by`, an `argument of`,
        `held by` or `raised by`, and the files of the library that import it (`files`).
    """
    found: dict[str, dict[str, set[str]]] = {name: defaultdict(set) for name in names}
    full = {id(value): name for name, value in names.items()}
    for page in sorted(DOCS.glob("*.md")):
        for value in _used_on(page.read_text(encoding="utf-8"), names):
            if id(value) in full:
                found[full[id(value)]]["pages"].add(page.stem)
    classes = {_short(name): name for name, value in reversed(names.items()) if inspect.isclass(value)}
    for name, value in names.items():
        for how, text in _mentions(value):
            for word in set(re.findall(r"\w+", text)) & (set(classes) - {_short(name)}):
                found[classes[word]][how].add(name)
    called: dict[str, list[str]] = defaultdict(list)
    for name in names:
        called[_short(name)].append(name)
    for file in sorted(SOURCE.rglob("*.py")):
        for each in _imported_by(file) if file.name != "__init__.py" else ():
            for name in called.get(_short(each), ()):
                if each.startswith(f"{_room(name)}."):
                    found[name]["files"].add(file.relative_to(SOURCE).as_posix())
    return {name: {how: sorted(each) for how, each in uses.items()} for name, uses in found.items()}


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _room(name: str) -> str:
    return name.rpartition(".")[0]


def _used_on(page: str, names: Mapping[str, Any]) -> Iterator[Any]:
    """What the code of a page, and code within its sentences, takes from the library."""
    known: dict[str, Any] = {"gumdrop": importlib.import_module("gumdrop")}
    rooms = {"gumdrop"}
    for block in BLOCK.findall(page):
        nodes = list(ast.walk(ast.parse(block)))
        for node in nodes:
            known |= _imports(node)
            rooms |= {node.module or ""} if isinstance(node, ast.ImportFrom) else set()
        yield from (_resolved(ast.unparse(node), known) for node in nodes if isinstance(node, ast.Name | ast.Attribute))
    # in a sentence `fit` may stand for something else, but on a page that uses its room, or if spelt like `fit_table`
    telling = [name for name in reversed(names) if re.search("[A-Z_]", _short(name)) or _room(name) in rooms]
    known |= {_short(name): names[name] for name in telling}
    yield from (_resolved(text, known) for text in INLINE.findall(BLOCK.sub("", page)))


def _imports(node: ast.AST) -> dict[str, Any]:
    """The names that an import of the library gives, with what they stand for."""
    if isinstance(node, ast.Import):
        ours = [each for each in node.names if each.name.split(".")[0] == "gumdrop"]
        return {each.asname: importlib.import_module(each.name) for each in ours if each.asname}
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gumdrop":
        module = importlib.import_module(node.module or "")
        return {each.asname or each.name: getattr(module, each.name) for each in node.names}
    return {}


def _resolved(dotted: str, known: dict[str, Any]) -> Any:
    """What a dotted name stands for, or the class or function at its beginning."""
    first, *rest = dotted.split(".")
    value = known.get(first)
    for name in rest:
        if isinstance(value, ModuleType):
            value = getattr(value, name, None)
    return value


def _mentions(value: Any) -> Iterator[tuple[str, str]]:
    """How a public name mentions others: a word for it, and the annotation or docstring with their names."""
    functions = [value]
    if inspect.isclass(value):
        yield "held by", " ".join(map(str, vars(value).get("__annotations__", {}).values()))
        functions = [each for name, each in vars(value).items() if inspect.isfunction(each) and name[0] != "_"]
    for function in functions:
        notes = {name: str(each) for name, each in function.__annotations__.items()}
        yield "returned by", notes.pop("return", "")
        yield "argument of", " ".join(notes.values())
        yield "raised by", " ".join(re.findall(r"^ +(\w+): ", inspect.getdoc(function) or "", re.MULTILINE))


def _imported_by(file: Path) -> set[str]:
    """Full names that a file imports, or takes from a module that it imports."""
    modules: dict[str, str] = {}
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            modules |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    attributes = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    taken = {f"{modules.get(ast.unparse(node.value))}.{node.attr}" for node in attributes}
    return taken | set(modules.values())
