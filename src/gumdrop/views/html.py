"""How pages are written: templates, the numbers in them with real minus signs, and what several of them begin with."""

import functools
import math
import re
from pathlib import Path
from typing import NamedTuple

import jinja2
from markupsafe import Markup

from gumdrop.machine.files import replacing
from gumdrop.machine.numerals import MINUS, readable, with_minus

DASH, SPACE = "\N{EN DASH}", "\N{NO-BREAK SPACE}"


class Tile(NamedTuple):
    """A number that a page begins with, what it is, and what else there is to say of it."""

    value: str
    what: str
    note: str


def number(value: float | None, digits: int = 4) -> str:
    """A number as a page shows it."""
    if value is None or not math.isfinite(value):
        return DASH
    return readable(value, digits).replace("-", MINUS)


def beside(value: float, half: float) -> str:
    """A number with as many places as half of its interval, of which the page shows two digits."""
    if not 1e-4 <= half < math.inf:
        return number(value)
    text = f"{rounded(value, half):,.{_places(half)}f}"
    return text.replace("-", MINUS) if re.search("[1-9]", text) else "0"


def rounded(value: float, half: float) -> float:
    """The same as a number, so that what is compared is what a reader sees."""
    return round(value, _places(half)) if 1e-4 <= half < math.inf else value


def _places(half: float) -> int:
    return max(0, 1 - math.floor(math.log10(float(f"{half:.1e}"))))


def percent(share: float | None) -> str:
    """A share as a page shows it."""
    if share is None or not math.isfinite(share):
        return DASH
    value = round(100 * share, 1)
    return f"{100 * share:.{0 if 10 <= value <= 99 or value in (0, 100) else 1}f}{SPACE}%"  # rounded once


def tenths(share: float | None) -> str:
    """A share of the test rows that stands in several places of a page, in all of them like this."""
    if share is None or not math.isfinite(share):
        return DASH
    return f"{math.floor(1000 * share + 0.5001) / 10:.1f}{SPACE}%"  # half up, also where float32 is just below


def spaced(text: str) -> str:
    """A text of the results, whose numbers are set apart from their signs of percent."""
    return re.sub(r"(?<=\d)%", " %", text)


def with_unit(name: str, unit: str) -> str:
    """A name with its unit, if it has one."""
    return f"{name} ({unit})" if unit else name


def signed(share: float) -> str:
    """A share in a sum, with its sign."""
    return f"{'+' if share > 0 else ''}{readable(share, 3)}" if abs(share) >= 5e-4 else "0"


@functools.cache
def template(name: str, *folders: Path) -> jinja2.Template:
    """Look up a template of a page; a name that it uses and that is not given is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, Path(__file__).parent / "templates"]),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_written,
    )
    environment.filters |= {"num": number, "beside": beside, "percent": percent, "tenths": tenths, "signed": signed}
    environment.filters |= {"readable": readable, "spaced": spaced, "count": "{:,}".format, "told": _told}
    return environment.get_template(name)


def _told(value: str) -> str:
    from gumdrop.machine.environment import in_words  # torch, which the page of a comparison does not wait for

    return in_words(value)


def _written(value: object) -> object:
    """A value of a page as it is written there."""
    if isinstance(value, Markup | jinja2.Undefined):
        return value
    return with_minus(str(value))


def write(path: Path, page: str, /, **given: object) -> None:
    """Write a page that needs nothing from outside; it appears whole or not at all."""
    with replacing(path) as file:
        file.write(template(page).render(**given))
