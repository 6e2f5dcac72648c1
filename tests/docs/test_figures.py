"""Numbers of the documentation are those of the results files, each at its own place in them.

Which numbers are claims of ours: all that stand in a generated table, and all in a block with a comment `figures` (see
docs/figures/quoted.py), where each one is bound to a path or listed as no result of a run. A page that names a results
file has such a block, or a table, for it. Numbers elsewhere are settings, versions, code and what others published.
"""

import json
import random
import re
from pathlib import Path

import pytest

from builders.generated import ROOT, filled, quoted

RESULTS = re.compile(r"results/([\w-]+)\.json")
GENERATORS = "".join(
    (ROOT / path).read_text(encoding="utf-8")
    for path in (
        "docs/figures/experiments_page.py",
        "benchmarks/performance_page.py",
        "tests/export/test_deployment.py",
        "tests/docs/test_recipes.py",
    )
)
"""They name the files whose tables they hold."""


@pytest.mark.parametrize("page", quoted.PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_numbers_of_the_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert filled(page, text) == text, "run `make docs-evidence`"
    assert text.count("<!-- figures:") == len(quoted.MARKED.findall(text)), "a marker is misspelt"
    bound = "".join(marked["comment"] for marked in quoted.MARKED.finditer(text))
    for name in RESULTS.findall(text):
        assert f'"{name}' in GENERATORS or f"{name}.json" in GENERATORS or re.search(rf"[ /\n]{name}[/;\n]", bound), (
            name
        )


def test_a_page_without_the_place_of_its_table_is_refused() -> None:
    for page in (quoted.DOCS / "experiments.md", quoted.DOCS / "performance.md"):
        with pytest.raises(ValueError, match=r"must have one place for the table '\w+', got 0"):
            filled(page, "")


GENERATED = re.compile(r"^<!-- \w+ -->\n.*?^<!-- end -->", re.DOTALL | re.MULTILINE)


def claims(text: str) -> list[re.Match[str]]:
    """The numbers of generated tables and of marked blocks."""
    spans = [each.span() for each in GENERATED.finditer(text)]
    spans += [each.span("block") for each in quoted.MARKED.finditer(text)]
    return [number for number in quoted.numbers(text) if any(start <= number.start() < end for start, end in spans)]


def is_noticed(page: Path, text: str, number: re.Match[str], chance: random.Random) -> bool:
    """Whether a number whose last digit is moved by 3 to 7 does not stay."""
    digits = number[0].partition("e")[0]
    moved = f"{digits[:-1]}{(int(digits[-1]) + chance.randint(3, 7)) % 10}"
    wrong = text[: number.start()] + moved + text[number.start() + len(digits) :]
    try:
        return filled(page, wrong) != wrong
    except (ValueError, KeyError):
        return True


def test_changed_numbers_are_noticed() -> None:
    chance, texts = random.Random(0), {page: page.read_text(encoding="utf-8") for page in quoted.PAGES}
    places = [(page, text, number) for page, text in texts.items() for number in claims(text)]
    assert sum(is_noticed(*place, chance) for place in chance.sample(places, 20)) >= 19


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [{"scores": {"nats": 0.25, "share": 0.911}}, {"scores": {"nats": 0.75, "share": 0.913}}]
    results = {"fixed 0.2": runs, "loss / row": -3.21, "count": 12345, "speed": [{"rows": 8, "ms": 2.0}]}
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "made.json").write_text(json.dumps({"seeds": [1, 2], "results": results}))
    monkeypatch.setattr(quoted, "DOCS", tmp_path)


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("item", "like", "written"),
    [
        ("made/fixed 0.2/0/scores/nats", "0.9", "0.2"),
        ("mean made/fixed 0.2/*/scores/share %", "9.9", "91.2"),
        ("se made/fixed 0.2/*/scores/nats", ".99", ".25"),
        ("max made/fixed 0.2/*/scores/nats", "+9.9", "+0.8"),
        ("- made/loss / row", "9.9", "3.2"),
        ("made/loss / row", "−9.9", "−3.2"),
        ("made/count", "9", "12,345"),
        ("made/count", "9e3", "1e4"),
        ("made/speed/rows=8/ms over made/fixed 0.2/1/scores/nats minus 1 times 100", "99", "167"),
        ("count made/seeds", "9", "2"),
    ],
)
def test_a_path_leads_to_a_number(item: str, like: str, written: str) -> None:
    assert quoted.written(quoted.value(item), like) == written


@pytest.mark.usefixtures("runs")
def test_a_block_is_filled_in_order_and_refused_where_numbers_and_paths_differ() -> None:
    page = (
        "No claim: 9.9.\n\n<!-- figures: made/fixed 0.2; besides: .2\n{0|1}/scores/{nats|share %}\n-->\n"
        "At .2 `x.8` [y](2.2): 0.1 and 9.1 %,\n| 0.1 | 9.1 %\n\nNo claim: 8.8."
    )
    right = page.replace("0.1 and 9.1", "0.2 and 91.1").replace("| 0.1 | 9.1", "| 0.8 | 91.3")
    assert quoted.filled(page) == right
    for wrong in (page.replace("At .2", "At .3"), page.replace("| 0.1", "|"), page.replace("0.1 and", "0.1, 3 and")):
        with pytest.raises(ValueError, match="besides, but not in the block"):
            quoted.filled(wrong)
    with pytest.raises(ValueError, match="one number expected"):
        quoted.value("made/fixed 0.2")
