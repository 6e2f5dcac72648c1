"""Change numbers of the pages at random, and count the changes that nothing notices."""

import random
import re
import runpy
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "figures"))
import quoted  # noqa: E402

GENERATED = re.compile(r"^<!-- \w+ -->\n.*?^<!-- end -->", re.DOTALL | re.MULTILINE)


@cache
def generators() -> list[dict]:
    """The modules that fill tables, with each table made once."""
    modules = [
        runpy.run_path(str(ROOT / path))
        for path in ("docs/figures/experiments_page.py", "benchmarks/performance_page.py")
    ]
    for module in modules:
        for tables in module["PAGES"].values():
            tables |= {name: cache(make) for name, make in tables.items()}
    return modules


def filled(page: Path, text: str) -> str:
    """The page as the generators write it."""
    for module in generators():
        if page in module["PAGES"]:
            text = module["filled"](page, text)
    return quoted.filled(text)


def claims(text: str) -> list[re.Match[str]]:
    """The numbers of generated tables and of marked blocks."""
    spans = [each.span() for each in GENERATED.finditer(text)]
    spans += [each.span("block") for each in quoted.MARKED.finditer(text)]
    return [number for number in quoted.numbers(text) if any(start <= number.start() < end for start, end in spans)]


def changed(text: str, number: re.Match[str], chance: random.Random) -> str:
    """Move the last digit of a number by 3 to 7."""
    digits = number[0].partition("e")[0]
    moved = f"{digits[:-1]}{(int(digits[-1]) + chance.randint(3, 7)) % 10}"
    return text[: number.start()] + moved + text[number.start() + len(digits) :]


def missed(count: int, seed: int = 0) -> list[str]:
    """The changed numbers that the generators leave as they are, out of a number of random ones."""
    chance = random.Random(seed)
    texts = {page: page.read_text(encoding="utf-8") for page in quoted.PAGES}
    places = [(page, number) for page, text in texts.items() for number in claims(text)]
    unnoticed = []
    for page, number in chance.sample(places, count):
        wrong = changed(texts[page], number, chance)
        try:
            noticed = filled(page, wrong) != wrong
        except (ValueError, KeyError):
            noticed = True
        if not noticed:
            unnoticed.append(f"{page.name}: {wrong[max(0, number.start() - 40) : number.end() + 20]!r}")
    return unnoticed
