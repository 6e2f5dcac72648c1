"""The page that an experiment leaves: figures and tables with their captions, and numbers as they are written."""

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gumdrop.views.html import template
from gumdrop_experiments.harness.plain import Plain


def rounded(values: Any, digits: int = 4) -> Any:
    """Round numbers, or arrays of them as lists, for `results.json`, where figures need no more.

    Example:
        >>> rounded([0.123456, [98765.4]])
        [0.1235, [98770.0]]
    """
    numbers = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(numbers, (list, tuple)):
        return [rounded(each, digits) for each in numbers]
    return float(f"{numbers:.{digits}g}")


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """Mean over seeds or splits with its standard error, 0 where there is only one.

    Example:
        >>> mean_and_error([1.0, 2.0, 3.0])
        (2.0, 0.5773502691896258)
    """
    numbers = [float(value) for value in values]
    error = statistics.stdev(numbers) / len(numbers) ** 0.5 if len(numbers) > 1 else 0.0
    return statistics.fmean(numbers), error


def with_error(pair: Sequence[float], form: str = ".3f") -> str:
    """Write a mean with its standard error in brackets; a sign in the form is the mean's alone.

    Example:
        >>> with_error((1.25, 0.5), "+.2f")
        '+1.25 (0.50)'
    """
    mean, error = pair
    return f"{mean:{form}} ({error:{form.removeprefix('+')}})"


if TYPE_CHECKING:
    from matplotlib.figure import Figure


def paragraph(text: str) -> str:
    """Put text that is written over several lines into one."""
    return " ".join(text.split())


@dataclass(frozen=True)
class Picture:
    """A figure with its caption."""

    name: str
    """The name of its file, without the ending."""
    caption: str
    """What you see, and what good looks like."""
    drawing: "Figure"
    """The figure."""

    def __post_init__(self) -> None:
        """Lay out the caption."""
        object.__setattr__(self, "caption", paragraph(self.caption))


@dataclass(frozen=True)
class Table:
    """Numbers as they are to be read, published ones beside ours."""

    caption: str
    """What the numbers are, with their unit."""
    columns: Sequence[str]
    """Heads of the columns; the first column names the rows."""
    rows: Sequence[Sequence[str]]
    """The cells."""
    ours: Collection[int] = ()
    """Rows to highlight, counted from 0."""
    best: Collection[tuple[int, int]] = ()
    """Cells to mark with a star, as row and column, counted from 0."""

    def __post_init__(self) -> None:
        """Lay out the caption, and check the shape."""
        object.__setattr__(self, "caption", paragraph(self.caption))
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"each of `rows` must have {len(self.columns)} cells, got {len(row)}: {list(row)}")


Cell = str | Callable[[Plain], str]
"""A format of the fields of a record, or a function of it."""


def table_of(
    caption: str,
    records: Mapping[str, Plain],
    cells: Mapping[str, Cell],
    *,
    first: str = "",
    ours: Callable[[str], bool] = lambda name: False,
    best: Collection[tuple[int, int]] = (),
) -> Table:
    """Put records into rows, each behind its name; a cell stands with the head of its column."""
    rows = [
        [name, *(cell.format(**record) if isinstance(cell, str) else cell(record) for cell in cells.values())]
        for name, record in records.items()
    ]
    return Table(caption, [first, *cells], rows, [i for i, name in enumerate(records) if ours(name)], best)


def cell(score: str, form: str = ".3f", *, error: bool = False, scale: float = 1) -> Callable[[Plain], str]:
    """Write a score, or of several seeds or splits its mean, and the standard error if asked for."""

    def write(summary: Plain) -> str:
        return with_error(summary[score], form) if error else f"{scale * mean_of(summary[score]):{form}}"

    return write


def mean_of(value: float | Sequence[float]) -> float:
    """Give a number, or the mean of a mean and its standard error."""
    return value[0] if isinstance(value, Sequence) else value


@dataclass(frozen=True)
class Page:
    """What the page of an experiment says."""

    title: str
    """What was tried."""
    lead: str
    """What came out, in one or two sentences with figures."""
    body: Sequence[Picture | Table]
    """Figures and tables, in the order of reading."""
    notes: Sequence[str] = ()
    """Protocol, sources and limits, a paragraph each."""

    def __post_init__(self) -> None:
        """Lay out the text."""
        object.__setattr__(self, "lead", paragraph(self.lead))
        object.__setattr__(self, "notes", [paragraph(note) for note in self.notes])

    @property
    def pictures(self) -> list[Picture]:
        """Its figures, in the order of reading."""
        return [part for part in self.body if isinstance(part, Picture)]


def render(page: Page, results: Plain) -> str:
    """Write a page as text."""
    from gumdrop.views.svg import figure_svg  # matplotlib, which a page without figures does not need

    pictures = {each.name: figure_svg(each.drawing, each.name, each.caption) for each in page.pictures}
    return template("experiment.html.j2", Path(__file__).parent).render(page=page, pictures=pictures, results=results)
