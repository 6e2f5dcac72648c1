"""The model beside others: a table of scores, and comparisons row by row."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from gumdrop.machine.numerals import MINUS
from gumdrop.tables.results import LIKELIHOOD, Better, FitResults, Gain, Score
from gumdrop.views.html import DASH, number, tenths
from gumdrop.views.report.rows import TestRows, margin, wilson

Verdict = Literal["worse", "equal", "better"]
VERDICTS: tuple[Verdict, ...] = ("worse", "equal", "better")


class JudgedGain(NamedTuple):
    """A mean gain, half of its 95 % interval, and which side of 0 it lies on."""

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
    """A score of all models, as it stands on the page, which way it is better, and indices of the best models."""

    name: str
    values: list[float | None]
    texts: list[str]
    aim: Better | None
    best: list[int]


def scores_view(results: FitResults, test: TestRows) -> dict[str, object]:
    """What the page says of the model beside others."""
    rows = results.scores
    skilled = [_is_skilled(row, test.rows) for row in rows]
    columns = [
        _column(results, name, skilled, test.rows)
        for name in dict.fromkeys(name for row in rows for name in row.values)
    ]
    ours = next(i for i, row in enumerate(rows) if row.ours)
    main = next((c for c in columns if c.name in ("RMSE", "accuracy")), columns[0])
    pairs = _pairs(results, test)
    ahead = [pair for pair in pairs if pair.likelihood.verdict == "worse"]
    verdict, rival, pair = _verdict(rows, main, pairs, skilled, test)
    blind = next((i for i, row in enumerate(rows) if row.unskilled), None)
    return {
        "rows": rows,
        "columns": columns,
        "beaten": [column.name for column in columns if column.best and ours not in column.best],
        "error_margin": test.error_margin(),
        "pairs": pairs,
        "skilled": skilled[ours],
        "guesses_skilled": _guesses_better(rows[ours], test.rows),
        "unskilled": None if blind is None else rows[blind].name,
        "likelier": min(ahead, key=lambda pair: pair.likelihood.mean, default=None),
        "beyond_unskilled": main.texts[blind] if blind is not None and _is_farther(main, ours, blind) else None,
        "verdict": verdict,
        "rival": None if rival is None else rows[rival].name,
        "rival_text": None if rival is None else main.texts[rival],
        "pair": pair,
    }


def _verdict(
    rows: Sequence[Score], main: Column, pairs: Sequence[Pair], skilled: Sequence[bool], test: TestRows
) -> tuple[Verdict | None, int | None, Pair | None]:
    """How the model compares with the best other, which that is, and the two row by row."""
    names, ours = [row.name for row in rows], next(i for i, row in enumerate(rows) if row.ours)
    if pairs:  # row by row the luck of the rows cancels, so less is left to chance
        knowing = {name for name, is_skilled in zip(names, skilled, strict=True) if is_skilled}
        rivals = [pair for pair in pairs if pair.name in knowing]
        if not rivals:  # none of the others is better than one that does not look at the columns
            return None, None, None
        pair = min(rivals, key=lambda pair: (VERDICTS.index(pair.gain.verdict), pair.gain.mean))
        return pair.gain.verdict, names.index(pair.name), pair
    sign = -1 if main.aim == "lower" else 1
    known = {i: sign * value for i, value in enumerate(main.values) if value is not None}
    rival = max((i for i in known if i != ours), key=lambda i: known[i], default=None)
    if rival is None or ours not in known:
        return None, None, None
    gain = known[ours] - known[rival]
    return "equal" if abs(gain) <= test.error_margin() else "better" if gain > 0 else "worse", rival, None


def _is_farther(main: Column, ours: int, blind: int) -> bool:
    """Whether the error of the model is larger than that of one that does not look at the inputs."""
    error, usual = main.values[ours], main.values[blind]
    return main.aim == "lower" and error is not None and usual is not None and error > usual


def _is_skilled(row: Score, num_rows: int) -> bool:
    """Whether a model is better than one that does not look at the inputs, in guesses or in probabilities."""
    gains = row.skill
    return not row.unskilled and (gains is None or any(_is_better(gain, num_rows) for gain in gains.values()))


def _guesses_better(row: Score, num_rows: int) -> bool:
    """The same of its guesses alone."""
    gains = row.skill or {}
    return all(_is_better(gain, num_rows) for name, gain in gains.items() if name != LIKELIHOOD)


def _is_better(gain: Gain, num_rows: int) -> bool:
    return _judged(gain, num_rows).verdict == "better"


def _pairs(results: FitResults, test: TestRows) -> list[Pair]:
    """For each other model how much nearer the truth, or how much more often right, the mean row is."""
    pairs, guess = [], "nearer to the true value" if test.regression else "right more often"
    for other in results.paired:
        gain, likelihood = _judged(other.guess, test.rows), _judged(other.likelihood, test.rows)
        in_words = {guess: gain, "higher log likelihood": likelihood}
        ahead = [words for words, each in in_words.items() if each.verdict == "worse"]
        pairs.append(Pair(other.name, gain, likelihood, ahead))
    return pairs


def _judged(gain: Gain, num_rows: int) -> JudgedGain:
    """A mean gain with half of its 95 % interval, and which side of 0 that lies on."""
    mean, half = gain.mean, margin(gain.se, num_rows)
    if abs(mean) == 1 and not gain.se:  # right in each row where the other is wrong: Clopper & Pearson's interval
        half = 2 * (1 - 0.025 ** (1 / num_rows))
    return JudgedGain(mean, half, "equal" if abs(mean) <= half else "better" if mean > 0 else "worse")


def _column(results: FitResults, name: str, skilled: Sequence[bool], num_rows: int) -> Column:
    values, aim = [row.values.get(name) for row in results.scores], results.better(name)
    texts = _texts(name.lower(), values)
    known = {i: _cost(v, aim, results.coverage, num_rows) for i, v in enumerate(values) if v is not None and aim}
    if aim == "target" or name.startswith("calibration"):  # those of a model that knows nothing are right, and no use
        known = {i: cost for i, cost in known.items() if skilled[i]}
    top = min(known, key=lambda i: known[i], default=0)
    best = [i for i in known if len(values) > 1 and (known[i] == known[top] or texts[i] == texts[top])]
    best = [i for i in best if skilled[i]]
    if aim == "target" and not any(known.values()):  # chance may be all that keeps any of them from it
        best = []
    return Column(name, values, texts, aim, best)


def _texts(name: str, values: Sequence[float | None]) -> list[str]:
    """Numbers as they stand everywhere on the page; log likelihoods, whose 0 means nothing, with the same places."""
    if name.startswith(("coverage", "accuracy", "calibration")):
        return [tenths(value) for value in values]
    if name != LIKELIHOOD:
        return [number(value) for value in values]
    largest = max((abs(v) for v in values if v is not None), default=0) or 1
    places = int(np.clip(2 - math.floor(math.log10(largest)), 2, 6))
    return [DASH if v is None else f"{v:,.{places}f}".replace("-", MINUS) for v in values]


def _cost(value: float, aim: Better | None, goal: float, num_rows: int) -> float:
    if aim == "target":  # as near as chance lets any model come is as good as exact
        low, high = wilson(round(value * num_rows), num_rows)
        return 0.0 if low <= goal <= high else abs(value - goal)
    return -value if aim == "higher" else value
