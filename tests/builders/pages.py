"""The page of a fit from made-up results, and what is written on it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from markupsafe import Markup
from matplotlib.figure import Figure

from gumdrop.tables.results import FitResults
from gumdrop.views import report, svg
from gumdrop.views.report import rows


def render(results: dict[str, Any], **options: Any) -> str:
    """Return the page."""
    return report.render(FitResults.from_json(results), **options)


def words_of(page: str) -> str:
    """Return the words of a page."""
    body = re.sub(r"<style>.*?</style>|<svg.*?</svg>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", body))


def frame(figure: Figure, key: str, label: str) -> Markup:
    """Stand in for a figure, whose drawing takes most of the time of a page."""
    return Markup(f'<svg aria-label="{key}"></svg>')


def undrawn(results: dict[str, Any], **options: Any) -> str:
    """Return the page without what is in its figures, and with chance from fewer draws."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svg, "figure_svg", frame)
        patch.setattr(rows, "DRAWS", 400)
        return render(results, **options)


def told(results: dict[str, Any], **options: Any) -> str:
    """Return the words of a page, with plain spaces."""
    return words_of(undrawn(results, **options)).replace("\N{NO-BREAK SPACE}", " ")
