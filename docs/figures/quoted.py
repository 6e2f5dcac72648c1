"""The numbers that a page quotes from results files, each bound to a path in one of them.

A comment stands before a block of text or a table (all lines up to the next empty one) and says, in the order of the
numbers of the block and one line for each, where they come from:

    <!-- figures: camvid; besides: .2
    mean learned/*/draws/miou %
    {learned|none}/0/seconds over 60
    -->

``figures`` names a file of ``docs/results`` and, after it, what all paths begin with, below ``results`` of the file
or, if it is not there, at its top; a path with a ``/`` in front begins with a file itself. Each part of a path is a
name, an index, ``*`` (all), ``1:`` (all from the second), ``a,b`` (both) or ``name=value`` (the records that have
it). ``{a|b}`` stands for several lines, the leftmost choice changing last. In front of a path may stand `mean`, `se`,
`sd`, `median`, `min`, `max`, `sum` or `count`, or a ``-`` that turns the sign; ``%`` behind it is a hundred times the
value; `over`, `times`, `minus` and `plus` join paths and numbers from left to right. A number in place of a path says
that this number is no result. ``besides`` lists such numbers wherever they stand in the block: settings, published
figures.

How a number is written stays: its digits, its sign, a comma in thousands. Code, links and formulas are not looked at.
"""

import functools
import itertools
import json
import math
import operator
import re
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]
MARKED = re.compile(
    r"(?P<comment>^<!-- figures:(?P<under>[^;\n]*)(?:; besides:(?P<besides>[^\n]*?))?(?P<items>\n.*?)?\s*-->\n\n?)"
    r"(?P<block>.+?)(?=\n[ \t]*\n|\n*\Z)",
    re.DOTALL | re.MULTILINE,
)
NUMBER = re.compile(
    r"(?<![\w.])(?<![A-Za-z]-)[-+−]?(?=\.?\d)(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w)(?!,\d)"
)
NO_PROSE = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>]*>|arXiv:[\d.]+|\$[^$]*\$", re.DOTALL)
SUMMARIES: dict[str, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "se": lambda values: statistics.stdev(values) / math.sqrt(len(values)),
    "sd": statistics.stdev,
    "median": statistics.median,
    "min": min,
    "max": max,
    "sum": math.fsum,
    "count": len,
}
JOINS: dict[str, Callable[[float, float], float]] = {
    "over": operator.truediv,
    "times": operator.mul,
    "minus": operator.sub,
    "plus": operator.add,
}


@functools.cache
def file(name: str) -> Any:
    """A results file."""
    return json.loads((DOCS / "results" / f"{name}.json").read_text(encoding="utf-8"))


def steps(path: str) -> list[str]:
    """The parts of a path; a slash between spaces, or behind a backslash, belongs to a name."""
    return [step.replace("\\/", "/") for step in re.split(r"(?<![ \\])/(?! )", path)]


def stepped(nodes: list[Any], step: str) -> Iterator[Any]:
    """Go one step down from each node."""
    name, equals, value = step.partition("=")
    for node in nodes:
        if isinstance(node, dict) and step in node:
            yield node[step]
        elif step == "*":
            yield from node.values() if isinstance(node, dict) else node
        elif equals:
            yield from (each for each in (node if isinstance(node, list) else [node]) if str(each.get(name)) == value)
        elif re.search(r",(?! )", step):
            yield from (node[each] for each in re.split(r",(?! )", step))
        elif re.fullmatch(r"-?\d*:-?\d*", step):
            yield from node[slice(*(int(end) if end else None for end in step.split(":")))]
        elif isinstance(node, list):
            yield node[int(step)]
        else:
            raise KeyError(step)


def reached(path: str) -> list[Any]:
    """What stands at a path: one thing, or more where it has a ``*``."""
    name, *more = steps(path)
    results = file(name)["results"]
    of_settings = more[0] in file(name) and not (isinstance(results, dict) and more[0] in results)
    nodes = [file(name) if of_settings else results]
    for step in more:
        nodes = list(stepped(nodes, step))
    return nodes


def looked_up(path: str) -> float:
    """The number at a path, or the summary of several.

    Args:
        path: The path, with the name of a summary in front or without.

    Returns:
        The number.

    Raises:
        ValueError: Where a path without a summary leads to anything but one number.
    """
    summary, _, rest = path.partition(" ")
    nodes = reached(rest if summary in SUMMARIES else path)
    if summary in SUMMARIES:
        return SUMMARIES[summary]([value for node in nodes for value in (node if isinstance(node, list) else [node])])
    if len(nodes) != 1 or isinstance(nodes[0], bool) or not isinstance(nodes[0], int | float):
        raise ValueError(f"one number expected at {path}")
    return nodes[0]


def value(item: str, under: str = "") -> float:
    """The number that one line of a comment stands for."""

    def operand(text: str) -> float:
        if re.fullmatch(r"[\d.e+-]+", text):
            return float(text)
        sign = -1 if text.startswith("- ") else 1
        text, scale = (text.removesuffix(" %"), 100) if text.endswith(" %") else (text, 1)
        words = re.fullmatch(rf"((?:{'|'.join(SUMMARIES)}) )?(.*)", text.removeprefix("- "), re.DOTALL)
        assert words is not None
        path = words[2].removeprefix("/") if words[2].startswith("/") or not under else f"{under}/{words[2]}"
        return sign * scale * looked_up((words[1] or "") + path)

    first, *rest = re.split(rf" ({'|'.join(JOINS)}) ", item)
    total = operand(first)
    for join, text in zip(rest[::2], rest[1::2], strict=True):
        total = JOINS[join](total, operand(text))
    return total


def expanded(items: str) -> list[str]:
    """The lines of a comment, with each choice in braces written out."""
    lines = []
    for line in items.split("\n"):
        if line.strip():
            parts = [part.split("|") for part in re.split(r"\{([^}]*)\}", line.strip())]
            parts[::2] = [["|".join(part)] for part in parts[::2]]
            lines += ["".join(chosen) for chosen in itertools.product(*parts)]
    return lines


def written(number: float, like: str) -> str:
    """Write a number as another one is written."""
    digits = re.sub(r"^[-+−]|e.*", "", like)
    decimals = len(digits.partition(".")[2])
    text = f"{abs(number):,.{decimals}{'e' if 'e' in like else 'f'}}"
    text = text.replace(",", "") if re.match(r"\d{4}", digits) else text
    text = re.sub(r"e([-+])0?(\d)", lambda power: f"e{power[1].strip('+')}{power[2]}", text)
    text = text.removeprefix("0") if digits.startswith(".") and text.startswith("0.") else text
    if number < 0 and text.strip("0.,"):
        return ("−" if like.startswith("−") else "-") + text
    return ("+" if like[0] in "+-−" and text.strip("0.,") else "") + text if like.startswith("+") else text


def numbers(text: str) -> list[re.Match[str]]:
    """The numbers of a text, but for those in code, links and formulas."""
    return list(NUMBER.finditer(NO_PROSE.sub(lambda part: " " * len(part[0]), text)))


def filled_block(marked: re.Match[str]) -> str:
    """The block with the numbers of its paths.

    Args:
        marked: A match of ``MARKED``.

    Returns:
        Its comment and its block.

    Raises:
        ValueError: Where numbers and paths are not equally many, or no number is the one that stands in ``besides``.
    """
    block, besides = marked["block"], (marked["besides"] or "").split()
    places = numbers(block)
    bound = [place for place in places if place[0] not in besides]
    items = expanded(marked["items"] or "")
    unused = set(besides) - {place[0] for place in places}
    if len(bound) != len(items) or unused:
        pairs = itertools.zip_longest((place[0] for place in bound), items, fillvalue="nothing")
        raise ValueError(
            "\n".join([f"besides, but not in the block: {unused}", *(f"{n}: {item}" for n, item in pairs)])
        )
    for place, item in reversed(list(zip(bound, items, strict=True))):
        number = written(value(item, marked["under"].strip()), place[0])
        block = block[: place.start()] + number + block[place.end() :]
    return marked["comment"] + block


def filled(text: str) -> str:
    """The page with the numbers of its results."""
    return MARKED.sub(filled_block, text)
