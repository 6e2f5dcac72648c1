"""Pages of the API: one for each public room, and one for each public class and function.

A name that several rooms have is on the page of the first one below, which is the shortest way to import it. Each page
ends with what uses the name: pages, other public names or files, and examples of the gallery. Constants stand on the
page of their room.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uses import uses_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOMS = {
    "gumdrop": "The core",
    "gumdrop.networks": "Networks: convert, build, freeze",
    "gumdrop.objective": "Objective: the negative ELBO",
    "gumdrop.likelihoods": "Likelihoods and predictions",
    "gumdrop.prediction": "Monte Carlo prediction",
    "gumdrop.training": "Training",
    "gumdrop.training.processes": "Training on several processes",
    "gumdrop.metrics": "Scores, conformal prediction, active learning",
    "gumdrop.estimators": "Estimators for scikit-learn",
    "gumdrop.ensembles": "Ensembles",
    "gumdrop.tables": "Tables",
    "gumdrop.tables.task": "Tables: what is predicted",
    "gumdrop.tables.results": "Tables: the results of a fit",
    "gumdrop.attribution": "Attribution: masks that explain",
    "gumdrop.export": "Export to ONNX and torch",
    "gumdrop.layers": "Layers: sites of learned dropout",
    "gumdrop.functional": "Functional: the formulas",
    "gumdrop.views.plots": "Figures",
    "gumdrop.views.report": "The report of a fit",
    "gumdrop.views.explore": "The interactive page",
}
"""Public rooms and their titles, in the order of the reference."""

PLACE = "generated/api"


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before sources are looked for."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / PLACE))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def page_of_room(room: str) -> str:
    """Name of the page of a room."""
    return f"{PLACE}/{room}"


def public_names() -> dict[str, dict[str, Any]]:
    """Find what each room is the first to show.

    Returns:
        For each room the names of its `__all__` that no room before it has, with their objects.
    """
    seen: dict[int, Any] = {}
    names: dict[str, dict[str, Any]] = {}
    for room in ROOMS:
        module = importlib.import_module(room)
        found = {name: getattr(module, name) for name in module.__all__}
        names[room] = {name: each for name, each in found.items() if not _is_code(each) or id(each) not in seen}
        seen |= {id(each): each for each in found.values()}
    return names


def write_pages(folder: Path) -> None:
    """Write the pages of all rooms and names.

    Args:
        folder: What is in it is replaced.
    """
    rooms = public_names()
    pages = {room: _room_page(room, names) for room, names in rooms.items()}
    code = {f"{room}.{name}": each for room, names in rooms.items() for name, each in names.items() if _is_code(each)}
    uses = uses_of(code)
    pages |= {name: _page(name, each, uses[name]) for name, each in code.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for old in {each.stem for each in folder.glob("*.rst")} - set(pages):
        (folder / f"{old}.rst").unlink()
    for name, text in pages.items():
        place = folder / f"{name}.rst"
        if not place.exists() or place.read_text(encoding="utf-8") != text:  # what is unchanged is not read again
            place.write_text(text, encoding="utf-8")


def _is_code(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value)


def _heading(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n"


def _room_page(room: str, names: dict[str, Any]) -> str:
    module = importlib.import_module(room)
    own = [name for name, each in names.items() if _is_code(each)]
    elsewhere = [name for name in module.__all__ if name not in names]
    parts = [_heading(ROOMS[room]), f".. automodule:: {room}\n   :no-members:\n"]
    parts += [f".. currentmodule:: {room}\n"]
    if own:
        parts += [".. autosummary::\n   :nosignatures:\n\n" + "".join(f"   {name}\n" for name in own)]
    parts += [_constant(room, name, value) for name, value in names.items() if not _is_code(value)]
    if elsewhere:
        links = ", ".join(f":py:obj:`gumdrop.{name}`" for name in elsewhere)
        parts += [f"Also here, as in ``gumdrop``: {links}.\n"]
    return "\n".join(parts)


def _page(name: str, value: Any, uses: dict[str, list[str]]) -> str:
    room, _, short = name.rpartition(".")
    if inspect.isclass(value):
        foreign = [base.__name__ for base in value.__mro__ if not base.__module__.startswith("gumdrop")]
        requests = [member for member in dir(value) if member.startswith("set_") and member.endswith("_request")]
        options = f"   :members:\n   :inherited-members: {', '.join(foreign)}\n"
        options += f"   :exclude-members: {', '.join(requests)}\n" if requests else ""  # what scikit-learn adds
        body = f".. autoclass:: {name}\n{options}"
    else:
        body = f".. autofunction:: {name}\n"
    examples = f".. minigallery:: {name}\n   :add-heading: Examples\n   :heading-level: -\n"
    # In no toctree: a sidebar with every name was most of each page, and of the time to build it.
    above = [":orphan:\n", _heading(short), f"Part of :doc:`{ROOMS[room]} <{room}>`.\n", f".. currentmodule:: {room}\n"]
    return "\n".join([*above, body, *_used(uses), examples])


def _used(uses: dict[str, list[str]]) -> list[str]:
    """Lines that say what uses a name; files of the repository are named where nothing public does."""
    files, pages = uses.get("files", []), uses.get("pages", [])
    lines = [f":Used on: {', '.join(f':doc:`/{page}`' for page in pages)}"] if pages else []
    for how in ("returned by", "argument of", "held by", "raised by"):
        if how in uses:
            lines.append(f":{how.capitalize()}: {', '.join(f':py:obj:`~{name}`' for name in uses[how])}")
    if files and not lines:
        lines.append(f":Used in: {', '.join(f'``src/{file}``' for file in files[:3])}")
    return [*lines, ""]


def _constant(room: str, name: str, value: Any) -> str:
    shown = repr(value)
    value_line = f"   :value: {shown}\n" if len(shown) < 80 and " at 0x" not in shown else ""
    return f".. py:data:: {room}.{name}\n{value_line}\n" + "".join(f"   {line}\n" for line in _docs(name, value))


def _docs(name: str, value: Any) -> list[str]:
    """Lines of the docstring below a constant, wherever in the library it is defined."""
    from sphinx.pycode import ModuleAnalyzer

    for module in [each for place, each in sys.modules.items() if place.startswith("gumdrop.")]:
        if vars(module).get(name) is value:
            found = ModuleAnalyzer.for_module(module.__name__).find_attr_docs().get(("", name))
            if found:
                return found
    return []
