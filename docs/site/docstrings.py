"""Docstrings of the house on the site.

Single backticks and annotations become a link where they hold a public name or a page of `docs`, and code where they do
not. An example stands right after the first paragraph.
"""

import re
from typing import Any

from api_pages import public_names
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode


def setup(app: Sphinx) -> dict[str, Any]:
    """Make names the default, and look up those that are given without their room."""
    app.config.default_role = "py:obj"
    app.connect("builder-inited", lambda app: setattr(app, "gumdrop_names", _full_names()))
    app.connect("missing-reference", _resolve)
    app.connect("autodoc-process-docstring", _keep_colons, priority=100)
    app.connect("autodoc-process-docstring", _example_first, priority=200)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _full_names() -> dict[str, str]:
    """The full name of each public one, by its last part; of equal ones that of the first room."""
    full = [(name, f"{room}.{name}") for room, names in public_names().items() for name in names]
    return dict(reversed(full))


def _resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.TextElement) -> nodes.Element | None:
    if node.get("refdomain") != "py" or node["reftype"] not in ("obj", "class"):
        return None
    page = re.fullmatch(r"docs/([\w-]+)\.md", node["reftarget"])
    if page and page[1] in env.found_docs:
        return make_refnode(app.builder, node["refdoc"], page[1], None, nodes.Text(env.titles[page[1]].astext()))
    first, dot, rest = node["reftarget"].partition(".")
    target = app.gumdrop_names.get(first, first) + dot + rest
    found = env.domains.python_domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, text)
    return found or text


def _keep_colons(app: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Napoleon takes what stands in front of a colon in the first line of an attribute for its type: put one before."""
    if kind in ("attribute", "property", "data"):
        lines[:0] = ["..", ""]  # a comment


def _example_first(app: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Move the example, up to the next line that is not indented, behind the first paragraph."""
    starts = [place for place, line in enumerate(lines) if line in ("Example:", "Examples:")]
    if kind in ("function", "class") and starts and "" in lines[: starts[0]]:
        start, first = starts[0], lines.index("")
        more = (place for place in range(start + 1, len(lines)) if lines[place] and not lines[place].startswith(" "))
        end = next(more, len(lines))
        lines[:] = [*lines[:first], "", *lines[start:end], "", *lines[first:start], *lines[end:]]
