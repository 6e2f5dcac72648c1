"""The code behind a result: the commit of its source, and a fingerprint of the modules that its numbers depend on.

A fingerprint leaves out comments, docstrings and empty lines, and what shows results but does not make them. It follows
the import statements, and names of a package to the modules that define them.
"""

import ast
import hashlib
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gumdrop.machine.version import VERSION

SOURCE = Path(__file__).parents[2]
SCRIPTS = (SOURCE.parent / "benchmarks", SOURCE.parent / "docs" / "figures")
"""Folders of scripts, which import each other by their names; there are none without a checkout."""
TOPS = ("gumdrop", "gumdrop_experiments")
NO_NUMBERS = (
    "gumdrop.views",
    "gumdrop_experiments.pages",
    "gumdrop_experiments.harness.run",
    "gumdrop_experiments.harness.origin",
    "gumdrop_experiments.harness.plain",
    "gumdrop.machine.files",
)
"""Packages and modules that no number depends on."""
DIGITS = 12
"""Hexadecimal digits kept of a hash."""


class Imported(NamedTuple):
    """Name that a module takes from another, or the other alone."""

    module: str
    name: str | None = None


def origin_of(*starts: str) -> dict[str, Any]:
    """Describe the code that is run.

    Args:
        starts: The modules that it begins with; of the benchmarks the name of the script.

    Returns:
        The entry ``code`` of a results file: ``commit`` (the version where the source is no checkout), ``clean``
        (whether all of it was committed; None without a checkout), ``fingerprint``, ``starts``, and the hash of each
        module.
    """
    modules = module_hashes(*starts)
    fingerprint = _short(repr(sorted(modules.items())))
    return {**_commit(), "fingerprint": fingerprint, "starts": list(starts), "modules": modules}


def of_experiment(name: str) -> dict[str, Any]:
    """Describe the code of an experiment: its settings, its study, and all that these import."""
    package = f"gumdrop_experiments.{name}"
    return origin_of(package, f"{package}.study")


def of_script() -> dict[str, Any]:
    """Describe the code of the script that runs."""
    return origin_of(Path(sys.modules["__main__"].__file__ or "").stem)


def module_hashes(*starts: str) -> dict[str, str]:
    """Return the hashes of the modules that numbers depend on, by name."""
    waiting, hashes = list(starts), dict[str, str]()
    while waiting:
        module = waiting.pop()
        if module in hashes or module.startswith(NO_NUMBERS) or (path := _path(module)) is None:
            continue
        hashes[module], needs = _hash_and_needs(path, module)
        waiting += needs
    return dict(sorted(hashes.items()))


def stale_by(recorded: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Return the modules that have changed, come or gone since a result was recorded."""
    return sorted(name for name in {*recorded, *current} if recorded.get(name) != current.get(name))


@cache
def _hash_and_needs(path: Path, module: str) -> tuple[str, list[str]]:
    """Hash of a module, and the modules that define what it imports."""
    code = path.read_text(encoding="utf-8")
    return _short(_without_words(code)), [_defining(each) for each in _imports(module)]


def _commit() -> dict[str, Any]:
    def git(*words: str) -> str:
        command = ["git", "-C", str(SOURCE), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()

    try:
        if git("ls-files", "--", __file__):  # else some other repository surrounds an installed package
            return {"commit": git("rev-parse", "HEAD"), "clean": not git("status", "--porcelain", "--", str(SOURCE))}
    except (OSError, subprocess.SubprocessError):
        pass
    return {"commit": VERSION, "clean": None}


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _path(module: str) -> Path | None:
    """File of a module of the house, if it is one."""
    base = SOURCE.joinpath(*module.split("."))
    of_house = module.split(".")[0] in TOPS
    paths = (
        [base / "__init__.py", base.with_suffix(".py")] if of_house else [folder / f"{module}.py" for folder in SCRIPTS]
    )
    return next((path for path in paths if path.is_file()), None)


@cache
def _tree(module: str) -> ast.Module:
    path = _path(module)
    return ast.parse(path.read_text(encoding="utf-8") if path else "")


def _imports(module: str) -> Iterator[Imported]:
    """Yield what a module imports, and what it takes from packages that it imports whole."""
    tree = _tree(module)
    whole: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield Imported(node.module, alias.name)
                whole[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            whole |= {alias.asname or alias.name: alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in whole:
            yield Imported(whole[node.value.id], node.attr)


def _defining(imported: Imported) -> str:
    """Name the module that defines what is imported, through the faces of packages."""
    module, name = imported
    if name is None or _path(module) is None:
        return module
    if _path(f"{module}.{name}") is not None:
        inner = f"{module}.{name}"
        return "" if (SOURCE.joinpath(*inner.split(".")) / "__init__.py").is_file() else inner
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module and any(name == (a.asname or a.name) for a in node.names):
            return _defining(Imported(node.module, next(a.name for a in node.names if name == (a.asname or a.name))))
    return module


def _without_words(code: str) -> str:
    """Leave out comments, docstrings and empty lines."""
    tree = ast.parse(code)
    lines = code.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip())
