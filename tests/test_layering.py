"""A room imports rooms of a lower rank, inside a room imports run in no circle, and experiments import faces."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gumdrop

SOURCE = Path(gumdrop.__file__).parent.parent
RANKS = {
    **{"gumdrop.machine": 0, "gumdrop.functional": 0},
    **{"gumdrop.layers": 1},
    **{"gumdrop.networks": 2, "gumdrop.likelihoods": 2},
    **{"gumdrop.objective": 3, "gumdrop.prediction": 3},
    **{"gumdrop.metrics": 4, "gumdrop.training": 4, "gumdrop.attribution": 4},
    **{"gumdrop.ensembles": 5},
    **{"gumdrop.tables": 6},
    **{"gumdrop.estimators": 7, "gumdrop.export": 7, "gumdrop.views": 7},
    **{"gumdrop": 7},  # the top level is for experiments and commands; the library names the module that has the thing
    **{"gumdrop_experiments": 8},
    **{"gumdrop.cli": 9},
}
ANYONE = {"gumdrop.machine.version"}


def name_of(path):
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for top in ("gumdrop", "gumdrop_experiments") for path in (SOURCE / top).rglob("*.py")}
del MODULES["gumdrop"]


def room_of(module):
    room = ".".join(module.split(".")[:2]) if module.startswith("gumdrop.") else module.split(".")[0]
    if room not in RANKS:
        raise LookupError(f"{module!r} is in no room; the rooms are {', '.join(RANKS)}")
    return room


def imports_of(code):
    """Yield the modules of the house that a module imports, wherever in the code that stands."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise SyntaxError(f"line {node.lineno}: relative import; write it out")
            inner = [f"{node.module}.{alias.name}" for alias in node.names]  # a module, or a name of one
            names = [name if name in MODULES else node.module for name in inner]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] in ("gumdrop", "gumdrop_experiments"))


def is_allowed(module, target):
    if target in ANYONE or room_of(target) == room_of(module):
        return True
    return RANKS[room_of(target)] < RANKS[room_of(module)]


@pytest.fixture(scope="module")
def graph():
    """What each module imports."""
    return {module: set(imports_of(path.read_text(encoding="utf-8"))) for module, path in MODULES.items()}


def test_a_module_imports_rooms_of_a_lower_rank(graph):
    pairs = [(module, target) for module, targets in graph.items() for target in targets]
    assert [pair for pair in pairs if not is_allowed(*pair)] == []


def test_imports_inside_a_room_run_in_no_circle(graph):
    tuple(TopologicalSorter(graph).static_order())


def is_face(target):
    """Whether a room may be entered by a module: a package, a name of one, or a module of one that has no names."""
    path, (package, _, name) = MODULES.get(target), target.rpartition(".")
    if path is None or path.name == "__init__.py":
        return True
    names = (SOURCE / package.replace(".", "/") / "__init__.py").read_text(encoding="utf-8").partition("__all__")[2]
    return not names or f'"{name}"' in names


def test_experiments_import_the_faces_of_rooms(graph):
    pairs = [(name, target) for name in graph if name.startswith("gumdrop_experiments") for target in graph[name]]
    assert [pair for pair in pairs if pair[1].startswith("gumdrop.") and not is_face(pair[1])] == []


def test_what_is_copied_alone_imports_nothing_of_the_library(graph):
    assert graph["gumdrop.export.serving"] == set()


def test_a_wrong_import_is_found():
    assert not is_allowed("gumdrop.functional.masks", "gumdrop.layers")
    assert not is_allowed("gumdrop.objective.elbo", "gumdrop.prediction")
    assert not is_allowed("gumdrop.training.epochs", "gumdrop")
    assert is_allowed("gumdrop.cli.commands", "gumdrop_experiments.catalogue")
    assert is_face("gumdrop.training")
    assert is_face("gumdrop.machine.threads")
    assert not is_face("gumdrop.training.single")
    with pytest.raises(LookupError, match="is in no room"):
        is_allowed("gumdrop.cli.commands", "gumdrop.utils")
    with pytest.raises(SyntaxError, match="relative import"):
        list(imports_of("from .masks import soft_keep"))
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
