"""What a report begins with, and a fit ends with in a terminal: how good the model is, beside others, in sentences."""

import math

from gumdrop.tables.results import LINEAR, FitResults, Ranking
from gumdrop.views.html import beside, number, percent, tenths
from gumdrop.views.report.rows import TestRows, auroc_interval, wilson
from gumdrop.views.report.scores import Pair, Scores, scores_view


def verdict_words(results: FitResults) -> str:
    """The verdict on a fit in a terminal: the sentences of the page's lead that judge it."""
    test = TestRows(results)
    scores = scores_view(results, test)
    reach = f"; 95 % interval ± {number(test.error_margin(), 2)}"
    if not test.regression:
        low, high = wilson(int(test.rows - test.error.sum()), test.rows)
        reach = f" (95 % interval {percent(low)} to {percent(high)})"
    return " ".join([_error(results, test, reach), *judgement(results, test, scores)])


def lead(results: FitResults, test: TestRows, scores: Scores) -> list[str]:
    """The sentences of the page."""
    count = len(results.table.features)
    columns = f"From {count} column{'s' if count != 1 else ''} of {results.table.name}, this model"
    name = results.target.name
    what = f"predicts {name} and says how far off it may be."
    if not test.regression:
        what = f"tells {len(results.target.classes)} kinds of {name} apart and says how sure it is."
    return [f"{columns} {what}", _error(results, test), *judgement(results, test, scores)]


def _error(results: FitResults, test: TestRows, reach: str = "") -> str:
    kept = f"On the {test.rows:,} rows kept away from it until the end,"
    if not test.regression:
        return f"{kept} it is right for {tenths(1 - float(test.error.mean()))}{reach}."
    return f"{kept} it is off by {_amount(results, number(test.typical_error))} (root mean square{reach})."


def judgement(results: FitResults, test: TestRows, scores: Scores) -> list[str]:
    """How the model compares with the others; of several that are ahead the one that is so most."""
    if not scores.skilled:
        return [*_beyond(scores), *_no_better_than_null(results, test, scores)]
    said = [*_beyond(scores), *_rival(results, test, scores)]
    if (other := scores.likelier) is not None and scores.verdict not in ("worse", None):
        apart = f"{beside(-other.likelihood.mean, other.likelihood.margin)} ± {number(other.likelihood.margin, 2)}"
        said.append(f"In log likelihood {other.name} is ahead of this model, by {apart} nats per row.")
    linear = scores.pairs.get(LINEAR)
    if linear is not None and "better" not in (linear.gain.verdict, linear.likelihood.verdict):
        how = "better" if "worse" in (linear.gain.verdict, linear.likelihood.verdict) else "as good"
        said.append(f"As far as these rows can tell, the {LINEAR} is {how}, and it is simpler and quicker.")
    return said + _always(test, scores)


def _beyond(scores: Scores) -> list[str]:
    if not scores.beyond_null or not scores.skilled:
        return []
    why = ": a few rows are very far off" if scores.guesses_skilled else ""
    than = f"is larger than that of the {scores.null_model} ({scores.beyond_null})"
    return [f"Its root mean square error {than}, which does not look at the columns{why}."]


def _no_better_than_null(results: FitResults, test: TestRows, scores: Scores) -> list[str]:
    if test.regression:
        beat = f"it does not beat the {scores.null_model}, which does not look at the columns, by more than chance."
        return [f"In distance from the true values and in log likelihood {beat}"]
    always = f"always saying “{test.usual[0]}” would be right for {tenths(test.usual[1])}."
    beat = f"it does not beat {scores.null_model}, which do not look at the columns, by more than chance: {always}"
    return [f"In accuracy and in log likelihood {beat}", *_ranked(results.ranking, test)]


def _ranked(ranking: Ranking | None, test: TestRows) -> list[str]:
    if ranking is None:
        return []
    low, high = auroc_interval(ranking.auroc, ranking.rows, ranking.other_rows)
    interval = f"AUROC; 95 % interval {percent(low)} to {percent(high)}, chance 50 %"
    how = f"its probability of “{ranking.name}” is higher for a row of that class than for another row in "
    how += f"{percent(ranking.auroc)} of all such pairs ({interval})."
    if low <= 0.5 <= high:
        return [f"Nor does it rank rows better than chance, as far as {test.rows:,} rows can tell: {how}"]
    return [f"{'But it ranks rows better' if low > 0.5 else 'And it ranks rows worse'} than chance: {how}"]


def _rival(results: FitResults, test: TestRows, scores: Scores) -> list[str]:
    """The best of the others."""
    begin = {
        "better": "That beats the best of the models beside it,",
        "equal": "That is level with the best of the models beside it,",
        "worse": "On this table better guesses come from",
    }
    if scores.verdict is None:
        return []
    said = f"{begin[scores.verdict]} {scores.rival} ({scores.rival_text})"
    if (pair := scores.pairs.get(str(scores.rival))) is not None:
        if scores.is_mixed:
            less = "smaller" if scores.verdict == "better" else "larger"
            said = f"The best of the models beside it, {scores.rival}, has the {less} error ({scores.rival_text}); but"
            return [f"{said} compared row by row, {_apart(results, test, pair)}."]
        return [f"{said}: compared row by row, {_apart(results, test, pair)}."]
    reach = number(test.error_margin(), 2) if test.regression else percent(test.error_margin())
    luck = f": with {test.rows:,} test rows, the 95 % interval of this number reaches ±{reach}"
    return [f"{said}{luck if scores.verdict == 'equal' else ''}."]


def _apart(results: FitResults, test: TestRows, pair: Pair) -> str:
    """How far this model is ahead of another one or behind it."""
    mean, half = pair.gain.mean, pair.gain.margin
    if test.regression:
        text = beside(abs(mean), half)
        near = f"{_amount(results, text)} {'nearer to' if mean > 0 else 'farther from'}"
        near = "as near to" if text == "0" else near
        return f"the guess of this model is {near} the true value on average, {within(half)}"
    mean, half = 100 * mean, 100 * half
    if not mean:
        return f"this model is right just as often{'' if half else ', and on the same rows'}"
    more = f"{beside(abs(mean), half)} {'more' if mean > 0 else 'fewer'} rows in a hundred"
    return f"this model is right for {more}, {within(half)}"


def _always(test: TestRows, scores: Scores) -> list[str]:
    """What the commonest class is right for, where that is much."""
    if test.regression or (scores.guesses_skilled and test.usual[1] < 0.8):
        return []
    only = "" if scores.guesses_skilled else ": only its probabilities are better than that"
    return [f"Always saying “{test.usual[0]}” would be right for {tenths(test.usual[1])}{only}."]


def within(half: float) -> str:
    """Half of a 95 % interval, in words."""
    if not math.isfinite(half):
        return "which one row cannot tell from chance"
    return f"± {number(half, 2)} (95 % interval)"


def _amount(results: FitResults, text: str) -> str:
    return f"{text} {results.target.unit}".strip()
