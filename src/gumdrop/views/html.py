"""Where the HTML pages find their templates."""

from collections.abc import Callable
from pathlib import Path

import jinja2

__all__ = ["template"]


def template(name: str, *folders: Path, **filters: Callable[..., str]) -> jinja2.Template:
    """Look up a template of a page; a name that it uses and that is not given is an error.

    Args:
        name: File in a folder of templates.
        folders: Where to look before the library's own folder.
        filters: Functions that write values of the page.

    Returns:
        The template.
    """
    loader = jinja2.FileSystemLoader([*folders, Path(__file__).parent / "templates"])
    environment = jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(filters)
    return environment.get_template(name)
