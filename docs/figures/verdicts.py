"""The verdict on each finding, by one rule, from the 95 % interval of what was measured.

``findings.toml`` gives each finding one of these:

``gain``
    Two paths with a value for each seed or split: the sample is the first less the second. Where the second is a list
    of paths, it is the one with the largest mean: the best rival of the run.
``values``
    Paths with a value for each seed or split; `over`, `times`, `minus` and `plus` join the values one by one.
``moments``
    Path to a mean and its standard error, with ``count``, the number of values that they are of, or a path to it.
    With ``log``, the sample is the logarithms to base 10.
``slope``
    Paths of several values, and ``against``, numbers as many: the slope against their logarithm to base 10.
``parts``
    Several of these, which all have to hold.
``undecided``
    The reason why no run here is a test of the claim.
``missing``
    What a test would need that is not there.

``least`` and ``most`` bound what is claimed, ``published`` is a figure as it is printed, which stands for all numbers
that round to it. With none of them the claim is that the quantity is above 0. A finding is reproduced where the whole
interval lies within the bounds, or holds the published figure, contradicted where none of it does, else undecided, as
it is with a single value. `{gain}` in ``test`` is the interval, `{1}`, `{2}` those of the parts, times ``scale`` with
``digits``.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import quoted
from scipy.stats import linregress
from scipy.stats import t as student

from gumdrop_experiments.rows.results import LEVEL, interval

FINDINGS = Path(__file__).with_name("findings.toml")
VERDICTS = ("reproduced", "contradicted", "undecided", "not tested")
REPRODUCED, CONTRADICTED, UNDECIDED, NOT_TESTED = VERDICTS
QUOTE = re.compile(r"\{([^{}|]+)\|([^{}|]+)\}")
"""A path, and a number that is written like the one at the path."""
KINDS = ("gain", "values", "moments", "slope", "parts", "undecided", "missing")


class Measured(NamedTuple):
    """What a sample says of a quantity."""

    mean: float
    half: float | None
    """Half of the width of the 95 % interval; None for a single value."""
    size: int
    """Number of values."""

    def written(self, scale: float, digits: int, *, signed: bool) -> str:
        """Write the mean, and the interval in brackets."""
        sign = "+" if signed else ""
        text = f"{scale * self.mean:{sign}.{digits}f}"
        if self.half is None:
            return text
        ends = sorted(scale * (self.mean + side * self.half) for side in (-1, 1))
        return f"{text} ({' to '.join(f'{end:.{digits}f}' for end in ends)})"


class Row(NamedTuple):
    """A finding as the page shows it."""

    source: str
    claim: str
    test: str
    over: str
    verdict: str


def rows(name: str = "findings") -> list[Row]:
    """Judge the findings of others, or, as ``ours``, those that no source has."""
    return [_row(finding) for finding in tomllib.loads(FINDINGS.read_text(encoding="utf-8"))[name]]


def counted(judged: Sequence[Row]) -> str:
    """Say how many findings have each verdict."""
    verdicts = Counter(row.verdict for row in judged)
    return f"{len(judged)} published findings: {', '.join(f'{verdicts[name]} {name}' for name in VERDICTS)}."


def measured(measure: Mapping[str, Any]) -> Measured:
    """Measure a quantity: its mean or slope, with the interval."""
    if "moments" in measure:
        (mean, error), count = quoted.reached(measure["moments"])[0], int(quoted.value(str(measure["count"])))
        return Measured(mean, float(student.ppf((1 + LEVEL) / 2, count - 1)) * error, count)
    if "slope" in measure:
        fit = linregress([math.log10(x) for x in measure["against"]], _sample(measure["slope"]))
        freedom = len(measure["against"]) - 2
        half = float(student.ppf((1 + LEVEL) / 2, freedom) * fit.stderr)
        return Measured(float(fit.slope), half, len(measure["against"]))
    sample = _sample(measure["values"]) if "values" in measure else _differences(*measure["gain"])
    sample = [math.log10(value) for value in sample] if measure.get("log") else sample
    return Measured(*interval(sample, [0.0] * len(sample)), len(sample))


def verdict(measure: Mapping[str, Any], found: Measured) -> str:
    """Judge a claim by the interval of what was measured."""
    if found.half is None:
        return UNDECIDED
    least, most = found.mean - found.half, found.mean + found.half
    if "published" in measure:
        figure, half_a_digit = float(measure["published"]), 0.5 * 10.0 ** -len(measure["published"].partition(".")[2])
        return REPRODUCED if least <= figure + half_a_digit and figure - half_a_digit <= most else CONTRADICTED
    lower, upper = _bounds(measure)
    if lower < least and most < upper:
        return REPRODUCED
    return CONTRADICTED if most < lower or upper < least else UNDECIDED


def _bounds(measure: Mapping[str, Any]) -> tuple[float, float]:
    is_direction = "least" not in measure and "most" not in measure
    return measure.get("least", 0.0 if is_direction else -math.inf), measure.get("most", math.inf)


def _row(finding: Mapping[str, Any]) -> Row:
    kinds = [kind for kind in KINDS if kind in finding]
    if len(kinds) != 1 or "verdict" in finding:
        raise ValueError(f"a finding must have one of {', '.join(KINDS)}, and no verdict, got {dict(finding)}")
    measures = finding.get("parts", [finding] if kinds[0] in KINDS[:4] else [])
    found = [measured(measure) for measure in measures]
    words = {verdict(measure, each) for measure, each in zip(measures, found, strict=True)}
    if measures:
        word = next(each for each in (CONTRADICTED, UNDECIDED, REPRODUCED) if each in words)
    else:
        word = UNDECIDED if kinds[0] == UNDECIDED else NOT_TESTED
    link = f"[{finding['claim']}]({finding['page']})"
    return Row(finding.get("source", ""), link, _test(finding, measures, found), _over(finding, found), word)


def _test(finding: Mapping[str, Any], measures: Sequence[Mapping[str, Any]], found: Sequence[Measured]) -> str:
    text = QUOTE.sub(lambda quote: quoted.written(quoted.value(quote[1]), quote[2]), finding["test"])
    for number, (measure, each) in enumerate(zip(measures, found, strict=True), start=1):
        settings = {"scale": 1, "digits": 2} | {key: finding[key] for key in ("scale", "digits") if key in finding}
        settings |= {key: measure[key] for key in ("scale", "digits") if key in measure}
        signed = "gain" in measure or "slope" in measure
        written = each.written(settings["scale"], settings["digits"], signed=signed)
        text = text.replace("{gain}" if "parts" not in finding else f"{{{number}}}", written)
    direction = measures and all(not {"least", "most", "published"} & set(measure) for measure in measures)
    reason = finding.get("undecided") or finding.get("missing")
    return "direction: " * bool(direction) + text + (f"; {reason}" if reason else "")


def _over(finding: Mapping[str, Any], found: Sequence[Measured]) -> str:
    if not found:
        return "–"
    least, most = (limit(each.size for each in found) for limit in (min, max))
    return f"{least if least == most else f'{least} to {most}'} {finding.get('over', 'seeds')}"


def _differences(ahead: str, behind: str | Sequence[str]) -> list[float]:
    rivals = [_sample(paths) for paths in ([behind] if isinstance(behind, str) else behind)]
    return [a - b for a, b in zip(_sample(ahead), max(rivals, key=fmean), strict=True)]


def _sample(paths: str) -> list[float]:
    return [value for item in quoted.expanded(paths) for value in _values(item)]


def _values(item: str) -> list[float]:
    """Values at a path, or those of several paths that are joined one by one."""
    first, *rest = re.split(rf" ({'|'.join(quoted.JOINS)}) ", item)
    values = _operand(first)
    for join, text in zip(rest[::2], rest[1::2], strict=True):
        others = _operand(text)
        others = others * len(values) if len(others) == 1 else others
        values = [quoted.JOINS[join](a, b) for a, b in zip(values, others, strict=True)]
    return values


def _operand(text: str) -> list[float]:
    if text.startswith("- "):
        return [-value for value in _operand(text.removeprefix("- "))]
    if re.fullmatch(r"[\d.e+-]+", text):
        return [float(text)]
    if text.partition(" ")[0] in quoted.SUMMARIES:
        return [quoted.looked_up(text)]
    return list(_flat(quoted.reached(text)))


def _flat(nodes: Sequence[Any]) -> Iterator[float]:
    for node in nodes:
        if isinstance(node, list):
            yield from _flat(node)
        else:
            yield float(node)
