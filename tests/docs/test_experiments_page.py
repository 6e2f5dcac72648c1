"""The page of the experiments has the figures of the results files, and names files that there are."""

import re
import runpy
from pathlib import Path

import pytest

FIGURES = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "figures" / "experiments_page.py"))
PAGE = FIGURES["PAGE"].read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_results() -> None:
    assert FIGURES["filled"](PAGE) == PAGE, "run `make experiments-page`"
    with pytest.raises(ValueError, match=r"must have one place for the table 'evidence', got 0"):
        FIGURES["filled"]("")


def test_every_experiment_is_in_the_first_table() -> None:
    named = re.findall(r"^\| `(\w+)` \|", FIGURES["evidence"](), re.M)
    assert set(named) == set(FIGURES["EXPERIMENTS"]), "add a row to docs/figures/evidence.toml"


def test_the_files_that_the_page_names_are_there() -> None:
    links = re.findall(r"\]\(([\w./-]+)\)", PAGE)
    assert [link for link in links if not (FIGURES["DOCS"] / link).exists()] == []
