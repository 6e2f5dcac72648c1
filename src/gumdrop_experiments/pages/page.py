"""The page that an experiment leaves: figures and tables with their captions, in one file that can be sent."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gumdrop.views.html import template

if TYPE_CHECKING:
    from matplotlib import figure


@dataclass(frozen=True)
class Figure:
    """A picture of the run."""

    name: str
    """Its name, as given to `Run.figure`."""
    caption: str
    """What you see, and what good looks like."""


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
        """Check the shape."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"each of `rows` must have {len(self.columns)} cells, got {len(row)}: {list(row)}")


@dataclass(frozen=True)
class Page:
    """What the page of an experiment says."""

    title: str
    """What was tried."""
    lead: str
    """What came out, in one or two sentences with figures."""
    body: Sequence[Figure | Table]
    """Figures and tables, in the order of reading."""
    notes: Sequence[str] = ()
    """Protocol, sources and limits, a paragraph each."""


def render(page: Page, results: Mapping[str, Any], figures: Mapping[str, "figure.Figure"]) -> str:
    """Write a page as text."""
    from gumdrop.views.svg import figure_svg  # matplotlib, which a page without figures does not need

    shown = [part for part in page.body if isinstance(part, Figure)]
    pictures = {part.name: figure_svg(figures[part.name], part.name, part.caption) for part in shown}
    return template("experiment.html.j2", Path(__file__).parent).render(page=page, pictures=pictures, results=results)
