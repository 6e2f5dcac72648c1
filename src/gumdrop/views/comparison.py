"""Fits side by side: for the terminal, and as a page."""

import math
from pathlib import Path

from gumdrop.machine.numerals import readable
from gumdrop.tables.comparison import Against, Difference, RunComparison
from gumdrop.views.html import write
from gumdrop.views.terminal import Voice, columns_table


def show_comparison(voice: Voice, found: RunComparison) -> None:
    """Show a comparison in a terminal."""
    names = [run.name for run in found.runs]
    scores = columns_table(title(found), "", *names)
    for name in score_names(found):
        scores.add_row(name, *(shown_score(run.scores.get(name)) for run in found.runs))
    scores.add_row("rows to train on", *(f"{run.train_rows:,}" for run in found.runs))
    scores.add_row("test rows", *(f"{run.test_rows:,}" for run in found.runs))
    voice.show(scores)
    for each in found.against:
        if each.differences:
            rows = columns_table(headline(found, each), "", "difference", "95% interval", "")
            for difference in each.differences:
                rows.add_row(difference.score, *told(difference))
            voice.show(rows)
        if words := refusal(found, each):
            voice.say(words)
    if found.settings:
        rows = columns_table("Settings that differ", "", *names)
        for name, values in found.settings.items():
            rows.add_row(name.replace("_", " "), *map(shown_setting, values))
        voice.show(rows)
    if found.columns:
        rows = columns_table("Columns that differ", "", *names)
        for name, used in found.columns.items():
            rows.add_row(name, *("used" if each else "" for each in used))
        voice.show(rows)


def title(found: RunComparison) -> str:
    """What is predicted."""
    return f"Predicting {found.target}" + (f" ({found.unit})" if found.unit else "")


def score_names(found: RunComparison) -> list[str]:
    """Scores of any of the runs."""
    return list(dict.fromkeys(name for run in found.runs for name in run.scores))


def headline(found: RunComparison, each: Against) -> str:
    """What is compared row by row."""
    return f"{each.name} against {found.runs[0].name}, on the same {each.rows:,} test rows"


def refusal(found: RunComparison, each: Against) -> str:
    """Why a run is not compared row by row; empty if it is."""
    if each.same:
        return "" if each.differences else f"{each.name}: the results hold no numbers of single rows."
    first = found.runs[0]
    own = next(run for run in found.runs if run.name == each.name)
    return (
        f"{first.name} and {each.name} were not tested on the same rows ({first.test_rows:,} and {own.test_rows:,} "
        f"rows, {each.rows:,} in both): the luck of the rows is part of how their scores differ, so nothing is said of "
        "which is better. Fits with the same table, --test-fraction and --seed, or the same --test, are tested alike."
    )


def told(difference: Difference) -> tuple[str, str, str]:
    """A difference, its interval and what it says, with the places of three digits of half of the interval."""
    words = {"better": "better", "worse": "worse", "equal": "may be chance", None: ""}[difference.verdict]
    half = (difference.high - difference.low) / 2
    if not math.isfinite(half):
        return f"{difference.mean:+,.3g}", "", "one row tells nothing"
    places = max(0, 2 - math.floor(math.log10(half))) if half else 0
    mean, low, high = (f"{value:+,.{places}f}" for value in (difference.mean, difference.low, difference.high))
    return mean, f"{low} to {high}", words


def shown_score(value: float | None) -> str:
    """A score."""
    return "" if value is None else readable(value)


def shown_setting(value: object) -> str:
    """A setting."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def write_page(found: RunComparison, place: Path) -> None:
    """Write a comparison as a page."""
    write(
        place,
        "compare.html.j2",
        found=found,
        title=title(found),
        names=score_names(found),
        against=[(headline(found, x), refusal(found, x), x, [*map(told, x.differences)]) for x in found.against],
        score=shown_score,
        setting=shown_setting,
    )
