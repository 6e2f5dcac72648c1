"""How pages are written: templates, in which every number has a real minus sign."""

from collections.abc import Callable
from pathlib import Path

import jinja2
from markupsafe import Markup

from gumdrop.machine.numerals import with_minus

__all__ = ["template"]


def template(name: str, *folders: Path, **filters: Callable[..., str]) -> jinja2.Template:
    """Look up a template of a page; a name that it uses and that is not given is an error."""
    loader = jinja2.FileSystemLoader([*folders, Path(__file__).parent / "templates"])
    environment = jinja2.Environment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_written,
    )
    environment.filters.update(filters)
    return environment.get_template(name)


def _written(value: object) -> object:
    """A value of a page as it is written there."""
    if isinstance(value, Markup | jinja2.Undefined):
        return value
    return with_minus(str(value))
