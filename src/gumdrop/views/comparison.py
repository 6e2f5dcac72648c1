"""Fits side by side: for the terminal, and as a page."""

import math
from pathlib import Path

from gumdrop.tables.comparison import Against, Difference, RunComparison
from gumdrop.views.html import with_unit, write
from gumdrop.views.terminal import Voice, shown_score


def show_comparison(voice: Voice, comparison: RunComparison) -> None:
    """Show a comparison in a terminal."""
    runs = comparison.runs
    heads = ["", *(run.name for run in runs)]
    scores = [(name, *(shown_score(run.scores.get(name)) for run in runs)) for name in score_names(comparison)]
    scores.append(("rows to train on", *(f"{run.train_rows:,}" for run in runs)))
    scores.append(("test rows", *(f"{run.test_rows:,}" for run in runs)))
    voice.show(title(comparison), heads, scores)
    for other in comparison.against:
        if other.differences:
            differences = [(difference.score, *told(difference)) for difference in other.differences]
            voice.show(headline(comparison, other), ("", "difference", "95% interval", ""), differences)
        if words := refusal(comparison, other):
            voice.say(words)
    if comparison.settings:
        settings = [(k.replace("_", " "), *map(shown_setting, values)) for k, values in comparison.settings.items()]
        voice.show("Settings that differ", heads, settings)
    if comparison.columns:
        columns = [(k, *("used" if is_used else "" for is_used in used)) for k, used in comparison.columns.items()]
        voice.show("Columns that differ", heads, columns)


def title(comparison: RunComparison) -> str:
    """What is predicted."""
    return f"Predicting {with_unit(comparison.target, comparison.unit)}"


def score_names(comparison: RunComparison) -> list[str]:
    """Scores of any of the runs."""
    return list(dict.fromkeys(name for run in comparison.runs for name in run.scores))


def headline(comparison: RunComparison, other: Against) -> str:
    """What is compared row by row."""
    return f"{other.name} against {comparison.runs[0].name}, on the same {other.rows:,} test rows"


def refusal(comparison: RunComparison, other: Against) -> str:
    """Why a run is not compared row by row; empty if it is."""
    if other.same:
        return "" if other.differences else f"{other.name}: the results hold no numbers of single rows."
    first = comparison.runs[0]
    own = next(run for run in comparison.runs if run.name == other.name)
    return (
        f"{first.name} and {other.name} were not tested on the same rows ({first.test_rows:,} and {own.test_rows:,} "
        f"rows, {other.rows:,} in both): the luck of the rows is part of how their scores differ, so nothing is said "
        "of which is better. Fits with one table, --test-fraction and --seed, or with one --test, are tested alike."
    )


def told(difference: Difference) -> tuple[str, str, str]:
    """A difference, its interval and what it says, with the places of three digits of half of the interval."""
    words = {"better": "better", "worse": "worse", "equal": "may be chance", None: ""}[difference.verdict]
    half = (difference.high - difference.low) / 2
    if not math.isfinite(half):
        return f"{difference.mean:+,.3g}", "", "one row tells nothing"
    digits = max(0, 2 - math.floor(math.log10(half))) if half else 0
    mean, low, high = (f"{value:+,.{digits}f}" for value in (difference.mean, difference.low, difference.high))
    return mean, f"{low} to {high}", words


def shown_setting(value: object) -> str:
    """A setting."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def write_page(comparison: RunComparison, path: Path) -> None:
    """Write a comparison as a page."""
    write(
        path,
        "compare.html.j2",
        found=comparison,
        title=title(comparison),
        names=score_names(comparison),
        against=[
            (headline(comparison, x), refusal(comparison, x), x, [*map(told, x.differences)])
            for x in comparison.against
        ],
        score=shown_score,
        setting=shown_setting,
    )
