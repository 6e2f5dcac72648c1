"""The model beside others: a table of scores, with the differences row by row and what they say."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from gumdrop.machine.numerals import MINUS
from gumdrop.tables.results import LIKELIHOOD, Better, FitResults, Gain, Score
from gumdrop.views.html import DASH, number, rounded, tenths
from gumdrop.views.report.rows import TestRows

Verdict = Literal["worse", "equal", "better"]
VERDICTS: tuple[Verdict, ...] = ("worse", "equal", "better")


class JudgedGain(NamedTuple):
    """A mean gain, half of its 95 % interval, and which side of 0 that lies on, as it is written."""

    mean: float
    margin: float
    verdict: Verdict


class Pair(NamedTuple):
    """This model beside another, row by row, and in what the other is ahead by more than chance, in words."""

    name: str
    gain: JudgedGain
    likelihood: JudgedGain
    ahead: list[str]


class Column(NamedTuple):
    """A score of all models, as it stands on the page, and which way it is better."""

    name: str
    values: list[float | None]
    texts: list[str]
    aim: Better | None


class Scores(NamedTuple):
    """What the page says of the model beside others; models are indices of `rows`."""

    rows: Sequence[Score]
    columns: list[Column]
    pairs: dict[str, Pair]
    """The model beside each other one, by its name."""
    skilled: bool
    """Whether it is better than one that does not look at the inputs, in guesses or in probabilities."""
    guesses_skilled: bool
    """The same of its guesses alone."""
    null_model: str | None
    """The model that does not look at the inputs."""
    beyond_null: str | None
    """The error of that one, if it is less."""
    likelier: Pair | None
    """The model whose log likelihood is ahead most, by more than chance."""
    verdict: Verdict | None
    """How the model compares with the best other one."""
    rival: str | None
    """Which that is."""
    rival_text: str | None
    """Its error."""
    is_mixed: bool
    """Whether the error says the opposite of the verdict row by row, as a few rows that are far off can make it."""


def scores_view(results: FitResults, test: TestRows) -> Scores:
    """What the page says of the model beside others."""
    rows = results.scores
    names = dict.fromkeys(name for row in rows for name in row.values)
    columns = [_column(results, name) for name in names]
    ours = next(i for i, row in enumerate(rows) if row.ours)
    main = next((c for c in columns if c.name in ("RMSE", "accuracy")), columns[0])
    pairs = _pairs(results, test)
    ahead = [pair for pair in pairs.values() if pair.likelihood.verdict == "worse"]
    verdict, rival = _verdict(rows, main, pairs, test)
    null = next((i for i, row in enumerate(rows) if row.null_model), None)
    return Scores(
        rows=rows,
        columns=columns,
        pairs=pairs,
        skilled=_is_skilled(rows[ours], test.rows),
        guesses_skilled=_guesses_better(rows[ours], test.rows),
        null_model=None if null is None else rows[null].name,
        beyond_null=main.texts[null] if null is not None and _is_farther(main, ours, null) else None,
        likelier=min(ahead, key=lambda pair: pair.likelihood.mean, default=None),
        verdict=verdict,
        rival=None if rival is None else rows[rival].name,
        rival_text=None if rival is None else main.texts[rival],
        is_mixed=rival is not None
        and verdict == ("better" if _is_farther(main, ours, rival) else "worse")
        and main.aim == "lower"
        and main.texts[ours] != main.texts[rival],
    )


def _verdict(
    rows: Sequence[Score], main: Column, pairs: dict[str, Pair], test: TestRows
) -> tuple[Verdict | None, int | None]:
    """How the model compares with the best other, and which that is."""
    names, ours = [row.name for row in rows], next(i for i, row in enumerate(rows) if row.ours)
    if pairs:  # row by row the luck of the rows cancels, so less is left to chance
        rivals = [pairs[row.name] for row in rows if row.name in pairs and _is_skilled(row, test.rows)]
        if not rivals:  # none of the others is better than one that does not look at the columns
            return None, None
        pair = min(rivals, key=lambda pair: (VERDICTS.index(pair.gain.verdict), pair.gain.mean))
        return pair.gain.verdict, names.index(pair.name)
    sign = -1 if main.aim == "lower" else 1
    known = {i: sign * value for i, value in enumerate(main.values) if value is not None}
    rival = max((i for i in known if i != ours), key=lambda i: known[i], default=None)
    if rival is None or ours not in known:
        return None, None
    gain = known[ours] - known[rival]
    return "equal" if abs(gain) <= test.error_margin() else "better" if gain > 0 else "worse", rival


def _is_farther(main: Column, ours: int, null: int) -> bool:
    """Whether the error of the model is larger than that of one that does not look at the inputs."""
    error, usual = main.values[ours], main.values[null]
    return main.aim == "lower" and error is not None and usual is not None and error > usual


def _is_skilled(row: Score, num_rows: int) -> bool:
    """Whether a model is better than one that does not look at the inputs, in guesses or in probabilities."""
    gains = row.skill
    better = gains is None or any(_judged(gain, num_rows).verdict == "better" for gain in gains.values())
    return better and not row.null_model


def _guesses_better(row: Score, num_rows: int) -> bool:
    """The same of its guesses alone."""
    gains = row.skill or {}
    return all(_judged(gain, num_rows).verdict == "better" for name, gain in gains.items() if name != LIKELIHOOD)


def _pairs(results: FitResults, test: TestRows) -> dict[str, Pair]:
    """For each other model how much nearer the truth, or how much more often right, the mean row is."""
    pairs, guess = {}, "nearer to the true value" if test.regression else "right more often"
    for other in results.paired:
        gain, likelihood = _judged(other.guess, test.rows), _judged(other.likelihood, test.rows)
        in_words = {guess: gain, "higher log likelihood": likelihood}
        ahead = [words for words, each in in_words.items() if each.verdict == "worse"]
        pairs[other.name] = Pair(other.name, gain, likelihood, ahead)
    return pairs


def _judged(gain: Gain, num_rows: int) -> JudgedGain:
    """A mean gain with half of its 95 % interval, and which side of 0 that lies on once both are rounded."""
    mean, half = gain.mean, gain.margin(num_rows)
    written = rounded(mean, half)
    return JudgedGain(mean, half, "equal" if abs(written) <= rounded(half, half) else "better" if mean > 0 else "worse")


def _column(results: FitResults, name: str) -> Column:
    values = [row.values.get(name) for row in results.scores]
    return Column(name, values, _texts(name.lower(), values), results.better(name))


def _texts(name: str, values: Sequence[float | None]) -> list[str]:
    """Numbers as they stand everywhere on the page; log likelihoods, whose 0 means nothing, with the same places."""
    if name.startswith(("coverage", "accuracy", "calibration")):
        return [tenths(value) for value in values]
    if name != LIKELIHOOD:
        return [number(value) for value in values]
    largest = max((abs(v) for v in values if v is not None), default=0) or 1
    digits = int(np.clip(2 - math.floor(math.log10(largest)), 2, 6))
    return [DASH if v is None else f"{v:,.{digits}f}".replace("-", MINUS) for v in values]
