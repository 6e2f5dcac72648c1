"""Numbers of the documentation are those of the results files that they name.

A block of text or a table (all lines up to the next empty one) is held to its files by a comment before it:

    <!-- figures: results/rates.json/ensemble/random, results/tables.json/coverage; besides: .82 .96 -->

Each number with a decimal point in the block must then be the rounding of a value in one of the files, of a mean or a
standard error over a list there, or of a hundred times one of these where the block has a ``%``. Paths start at the
page; names after a file narrow it down to values that have all of them above themselves. ``besides`` lists numbers from
elsewhere, such as published ones. Differences are in no file: write both numbers. Code and addresses are not looked at.
"""

import functools
import json
import math
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MARKED = re.compile(
    r"^<!-- figures: (?P<files>[^;]*?)(?:; besides: (?P<besides>.*?))? -->\n\n?(?P<block>.+?)(?=\n[ \t]*\n|\n*\Z)",
    re.DOTALL | re.MULTILINE,
)
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d*\.\d+(?:e[-+]?\d+)?(?![\w.]*\w)")
NO_PROSE = re.compile(r"`[^`]*`|\]\([^)]*\)|arXiv:[\d.]+", re.DOTALL)
RESULTS = re.compile(r"results/[\w-]+\.json")
HELD_ELSEWHERE = {"results/export.json", "results/missing_cells.json", "results/lora.json"}
"""Files that other tests hold: tests/export/test_deployment.py, test_performance_page.py and test_recipes.py."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

Path_ = tuple[str, ...]


def numbers(node: Any, path: Path_ = ()) -> Iterator[tuple[Path_, float]]:
    """All numbers of a results file, each with the names above it; also those in names and texts."""
    match node:
        case dict():
            for name, child in node.items():
                yield from numbers(name, path)
                yield from numbers(child, (*path, name))
        case list():
            yield from summaries(node, path)
            for child in node:
                yield from numbers(child, path)
        case str():
            yield from ((path, float(each)) for each in NUMBER.findall(node))
        case int() | float() if not isinstance(node, bool):
            yield path, node


def summaries(nodes: list[Any], path: Path_) -> Iterator[tuple[Path_, float]]:
    """Mean and standard error of a list of numbers, or of each number of its records."""
    if len(nodes) < 2:
        return
    if all(isinstance(each, int | float) for each in nodes):
        yield path, statistics.fmean(nodes)
        yield path, statistics.stdev(nodes) / math.sqrt(len(nodes))
    elif all(isinstance(each, dict) for each in nodes):
        for name in set.intersection(*(set(each) for each in nodes)):
            yield from summaries([each[name] for each in nodes], (*path, name))
    elif all(isinstance(each, list) for each in nodes) and len({len(each) for each in nodes}) == 1:
        for column in zip(*nodes, strict=True):
            yield from summaries(list(column), path)


@functools.cache
def found(file: Path) -> list[tuple[Path_, float]]:
    return list(numbers(json.loads(file.read_text(encoding="utf-8"))))


def is_rounding(text: str, values: list[float], scales: tuple[int, ...]) -> bool:
    """Whether a number as it is written is the rounding of a value, up to its sign."""
    plain, _, power = text.lstrip("-+−").partition("e")
    step = 10.0 ** (int(power or 0) - len(plain.partition(".")[2]))
    number = float(plain) * 10.0 ** int(power or 0)
    return any(abs(abs(value) * scale - number) <= step * (0.5 + 1e-6) for value in values for scale in scales)


def wrong_numbers(page: str, folder: Path) -> list[str]:
    """The numbers of marked blocks that are in none of their files, and exceptions that no block needs."""
    wrong = []
    for marked in MARKED.finditer(page):
        values = []
        for source in marked["files"].split(", "):
            file, _, names = source.partition(".json")
            under = set(names.strip("/").split("/")) - {""}
            of_file = [value for path, value in found(folder / f"{file}.json") if under <= set(path)]
            assert of_file, f"{source} has no numbers"
            values += of_file
        besides = (marked["besides"] or "").split()
        block = NO_PROSE.sub(" ", marked["block"])
        written = NUMBER.findall(block)
        scales = (1, 100) if "%" in block else (1,)
        wrong += [each for each in written if each not in besides and not is_rounding(each, values, scales)]
        wrong += [f"besides: {each}" for each in besides if each not in written]
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_marked_numbers_are_those_of_the_results(page: Path) -> None:
    assert wrong_numbers(page.read_text(encoding="utf-8"), page.parent) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_held_to_each_results_file_that_it_names(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    held = {file for marked in MARKED.finditer(text) for file in RESULTS.findall(marked["files"])}
    assert set(RESULTS.findall(text)) - held - HELD_ELSEWHERE == set()


def test_a_marker_is_not_misspelt() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert text.count("<!-- figures") == len(MARKED.findall(text)), page.name


def test_wrong_numbers_are_found(tmp_path: Path) -> None:
    runs = [{"scores": {"nats": 0.25, "share": 0.911}}, {"scores": {"nats": 0.75, "share": 0.913}}]
    (tmp_path / "run.json").write_text(json.dumps({"fixed 0.2": runs, "loss": {"nats": -3.21}}))
    page = (
        "Not looked at: 9.9.\n\n"
        "<!-- figures: run.json/scores; besides: 7.5 -->\n"
        "| .25 (0.25), 0.5, `x.8`, [x](2.2) | 91.1 %, 91.2 %, published 7.5 |\n| 0.76 | 3.21 |\n\n"
        "Not looked at: 8.8.\n\n"
        "<!-- figures: run.json/loss -->\n\nA loss of -3.2 with p = .2, and 2.5e-1; besides it 0.25.\n\n"
        "<!-- figures: run.json; besides: 6.5 -->\nFrom .2 to .25 in version 2.13.0 and 1.e."
    )
    assert wrong_numbers(page, tmp_path) == ["0.76", "3.21", ".2", "2.5e-1", "0.25", "besides: 6.5"]
