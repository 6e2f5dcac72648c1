"""The site holds every page and every public name, and shows how each name is used."""

import importlib
import inspect
import pkgutil
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import gumdrop

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "site"))
API = runpy.run_path(str(DOCS / "site" / "api_pages.py"))
TO_EXTEND = {"gumdrop.views", "gumdrop.layers", "gumdrop.ensembles", "gumdrop.training.processes"} | {
    f"gumdrop.tables.{room}" for room in ("task", "results")
}
"""Rooms whose names are for those who build on the library: their pages need no example for each function."""


def entries(page: Path) -> set[str]:
    """Pages that the tables of contents of a page name, by themselves or as `Title <page>`."""
    blocks = re.findall(r"```{toctree}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line and not line.startswith(":")]
    return {line.removesuffix(">").rpartition("<")[2] for line in lines}


def test_the_table_of_contents_holds_every_page() -> None:
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert entries(DOCS / "index.md") == pages | {"api/index", "generated/gallery/index"}


def test_every_public_room_has_a_page() -> None:
    rooms = {"gumdrop"}
    for module in pkgutil.walk_packages(gumdrop.__path__, "gumdrop."):
        if module.ispkg and module.name != "gumdrop.cli":  # whose commands have pages of their own
            rooms |= {module.name} if hasattr(importlib.import_module(module.name), "__all__") else set()
    assert rooms == set(API["ROOMS"])
    assert {Path(entry).name for entry in entries(DOCS / "api" / "index.md")} == rooms


@pytest.fixture(scope="module")
def code() -> dict[str, Any]:
    names = {f"{room}.{name}": each for room, names in API["public_names"]().items() for name, each in names.items()}
    return {name: each for name, each in names.items() if API["_is_code"](each)}


@pytest.fixture(scope="module")
def uses(code) -> dict[str, dict[str, list[str]]]:
    return API["uses_of"](code)


@pytest.mark.slow
def test_every_public_name_has_a_page(tmp_path, monkeypatch, uses) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.setitem(API["write_pages"].__globals__, "uses_of", lambda code: {name: uses[name] for name in code})
    API["write_pages"](tmp_path)
    pages = {page.stem: page.read_text(encoding="utf-8") for page in tmp_path.glob("*.rst")}
    for room in API["ROOMS"]:
        for name in importlib.import_module(room).__all__:
            own, listed = f"{room}.{name}" in pages, f".. py:data:: {room}.{name}\n" in pages[room]
            assert own or listed or f":py:obj:`gumdrop.{name}`" in pages[room], f"{room}.{name}"


@pytest.mark.slow
def test_the_page_of_every_name_says_what_uses_it(code, uses) -> None:
    gallery = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.glob("gallery/plot_*.py"))
    for name, each in code.items():
        shown = re.search(rf"\b{name.rpartition('.')[2]}\b", gallery) or ">>>" in (inspect.getdoc(each) or "")
        named = inspect.isclass(each) and each.__base__ in code.values()  # with a link to what it is a kind of
        assert uses[name] or shown or named, name
    assert {"gotchas", "integrations"} <= set(uses["gumdrop.fix_dropout"]["pages"])
    assert uses["gumdrop.training.FitResult"]["returned by"] == ["gumdrop.training.fit", "gumdrop.training.fit_stacked"]
    assert "gumdrop/views/report/predictions.py" in uses["gumdrop.views.plots.confusion"]["files"]


def test_every_public_function_has_an_example() -> None:
    shown = [page.read_text(encoding="utf-8") for page in DOCS.glob("gallery/plot_*.py")]
    for page in [ROOT / "README.md", *DOCS.glob("*.md")]:
        shown += re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    used = set(re.findall(r"\w+", "\n".join(shown)))
    without = {
        f"{room}.{name}"
        for room, names in API["public_names"]().items()
        if not any(room.startswith(each) for each in TO_EXTEND)
        for name, value in names.items()
        if inspect.isfunction(value) and name not in used and ">>>" not in (inspect.getdoc(value) or "")
    }
    assert not without


@pytest.mark.parametrize("example", sorted(DOCS.glob("gallery/*.py")), ids=lambda example: example.stem)
def test_an_example_is_one_file_with_a_title(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert example.stem.startswith("plot_"), "the gallery runs files of this name alone"
    assert re.match(r'"""\n(.+)\n=+\n\n', text), "the title of the page, with a line below it, and what it shows"
    compile(text, example.name, "exec")
