"""The tables of the README, docs/performance.md, its notebook, method.md and tables.md are those of the results."""

import importlib.util
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[2] / "benchmarks" / "performance_page.py"


def test_tables_are_those_of_the_results() -> None:
    spec = importlib.util.spec_from_file_location("performance_page", PLACE)
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    for place in page.PAGES:
        text = place.read_text(encoding="utf-8")
        assert page.filled(place, text) == text, "run `make performance-page`"
    with pytest.raises(ValueError, match=r"performance\.md must have one place for the table 'quick', got 0"):
        page.filled(page.PAGE, "")
