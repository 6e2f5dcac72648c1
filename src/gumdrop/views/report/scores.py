"""The model beside others: a table of scores, and comparisons row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gumdrop.views.report.rows import DASH, MINUS, Results, TestRows, asked_coverage, margin, number, tenths, wilson

__all__ = ["scores_view"]


def scores_view(results: Results, test: TestRows) -> dict[str, Any]:
    """What the page says of the model beside others.

    Args:
        results: The content of a `results.json`.
        test: Its test rows.

    Returns:
        Columns of the table, what is better where, and the verdict on the best other model.
    """
    rows, notes = results["scores"], results.get("score_notes") or {}
    goal = asked_coverage(results)
    names = dict.fromkeys(name for row in rows for name in row["values"])
    skilled = [_is_skilled(row, test.rows) for row in rows]
    told = {name: [row["values"].get(name) for row in rows] for name in names}
    columns = [_column(name, told[name], notes.get(name, ""), skilled, goal, test.rows) for name in names]
    ours = next(i for i, row in enumerate(rows) if row["ours"])
    beaten = [column["name"] for column in columns if column["best"] and ours not in column["best"]]
    main = next((c for c in columns if c["name"] in ("RMSE", "accuracy")), columns[0])
    pairs = _pairs(results, test)
    view = {"rows": rows, "columns": columns, "beaten": beaten, "wobble": test.wobble(), "verdict": None}
    view |= {
        "pairs": pairs,
        "pair": None,
        "skilled": skilled[ours],
        "guesses_skilled": _guesses_better(rows[ours], test.rows),
    }
    view |= {"unskilled": next((row["name"] for row in rows if row.get("unskilled")), None)}
    doubts = [pair for pair in pairs if pair["likelihood"]["verdict"] == "worse"]
    view["doubts"] = min(doubts, key=lambda pair: pair["likelihood"]["mean"], default=None)
    texts = {row["name"]: text for row, text in zip(rows, main["texts"], strict=True)}
    view["beyond_unskilled"] = _is_farther(main, rows, ours) and texts[view["unskilled"]]
    knowing = {row["name"] for row, is_skilled in zip(rows, skilled, strict=True) if is_skilled}
    rivals_by_row = [pair for pair in pairs if pair["name"] in knowing]
    if pairs and not rivals_by_row:  # none of the others is better than one that does not look at the columns
        return view
    if pairs:  # row by row the luck of the rows cancels, so less is left to chance
        ranks = ("worse", "equal", "better")
        pair = min(rivals_by_row, key=lambda pair: (ranks.index(pair["gain"]["verdict"]), pair["gain"]["mean"]))
        found = {
            "pair": pair,
            "verdict": pair["gain"]["verdict"],
            "rival": pair["name"],
            "rival_text": texts[pair["name"]],
        }
        return view | found
    rivals = [i for i, value in enumerate(main["values"]) if i != ours and value is not None]
    sign = -1 if main["aim"] == "lower" else 1
    rival = max(rivals, key=lambda i: sign * main["values"][i], default=None)
    if rival is None or main["values"][ours] is None:
        return view
    gain = sign * (main["values"][ours] - main["values"][rival])
    verdict = "equal" if abs(gain) <= test.wobble() else "better" if gain > 0 else "worse"
    return view | {"verdict": verdict, "rival": rows[rival]["name"], "rival_text": main["texts"][rival]}


def _is_farther(main: dict[str, Any], rows: Sequence[dict[str, Any]], ours: int) -> bool:
    """Whether the error of the model is larger than that of one that does not look at the inputs."""
    values = [main["values"][i] for i, row in enumerate(rows) if row.get("unskilled")]
    return (
        main["aim"] == "lower"
        and bool(values)
        and None not in (*values, main["values"][ours])
        and (main["values"][ours] > min(values))
    )


def _is_skilled(row: dict[str, Any], num_rows: int) -> bool:
    """Whether a model is better than one that does not look at the inputs, in guesses or in probabilities."""
    gains = row.get("skill")
    return not row.get("unskilled") and (gains is None or any(_is_better(gain, num_rows) for gain in gains.values()))


def _guesses_better(row: dict[str, Any], num_rows: int) -> bool:
    """The same of its guesses alone."""
    gains = row.get("skill") or {}
    return all(_is_better(gain, num_rows) for name, gain in gains.items() if name != "log likelihood")


def _is_better(gain: dict[str, float], num_rows: int) -> bool:
    return bool(_judged(gain, num_rows)["verdict"] == "better")


def _pairs(results: Results, test: TestRows) -> list[dict[str, Any]]:
    """For each other model how much nearer the truth, or how much more often right, the mean row is."""
    pairs, guess = [], "nearer to the true value" if test.regression else "right more often"
    for other in results.get("paired") or []:
        gains = {name: _judged(gain, test.rows) for name, gain in other["gains"].items()}
        likelihood = gains.pop("log likelihood")
        (gain,) = gains.values()
        in_words = {guess: gain, "higher log likelihood": likelihood}
        ahead = [words for words, each in in_words.items() if each["verdict"] == "worse"]
        pairs.append({"name": other["name"], "gain": gain, "likelihood": likelihood, "ahead": ahead})
    return pairs


def _judged(gain: dict[str, float], num_rows: int) -> dict[str, Any]:
    """A mean gain with half of its 95 % interval, and which side of 0 that lies on."""
    mean, half = gain["mean"], margin(gain["se"], num_rows)
    if abs(mean) == 1 and not gain["se"]:  # right in each row where the other is wrong: Clopper & Pearson's interval
        half = 2 * (1 - 0.025 ** (1 / num_rows))
    return {
        "mean": mean,
        "margin": half,
        "verdict": "equal" if abs(mean) <= half else "better" if mean > 0 else "worse",
    }


def _column(
    name: str, values: Sequence[float | None], note: str, skilled: Sequence[bool], goal: float, num_rows: int
) -> dict[str, Any]:
    aim = _aim(f"{name} {note}".lower(), name.lower())
    texts = _texts(name.lower(), values)
    known = {i: _cost(v, aim, goal, num_rows) for i, v in enumerate(values) if v is not None and aim}
    if aim == "target" or "calibration" in name:  # those of a model that knows nothing are right, and of no use
        known = {i: cost for i, cost in known.items() if skilled[i]}
    top = min(known, key=lambda i: known[i], default=0)
    best = [i for i in known if len(values) > 1 and (known[i] == known[top] or texts[i] == texts[top])]
    best = [i for i in best if skilled[i]]
    if aim == "target" and not any(known.values()):  # chance may be all that keeps any of them from it
        best = []
    return {"name": name, "values": values, "texts": texts, "aim": aim, "best": best}


def _texts(name: str, values: Sequence[float | None]) -> list[str]:
    """Numbers as they stand everywhere on the page; log likelihoods, whose 0 means nothing, with the same places."""
    if name.startswith(("coverage", "accuracy", "calibration")):
        return [tenths(value) for value in values]
    if "likelihood" not in name:
        return [number(value) for value in values]
    largest = max((abs(v) for v in values if v is not None), default=0) or 1
    places = int(np.clip(2 - math.floor(math.log10(largest)), 2, 6))
    return [DASH if v is None else f"{v:,.{places}f}".replace("-", MINUS) for v in values]


def _cost(value: float, aim: str | None, goal: float, num_rows: int) -> float:
    if aim == "target":  # as near as chance lets any model come is as good as exact
        low, high = wilson(round(value * num_rows), num_rows)
        return 0.0 if low <= goal <= high else abs(value - goal)
    return -value if aim == "higher" else value


def _aim(described: str, name: str) -> str | None:
    for aim in ("lower", "higher"):
        if f"{aim} is better" in described:
            return aim
    if "coverage" in name:
        return "target"
    if any(word in name for word in ("accuracy", "log likelihood", "r2", "r²", "auc", "f1")) and "negative" not in name:
        return "higher"
    return "lower" if any(word in name for word in ("rmse", "mae", "crps", "error", "nll", "brier", "loss")) else None
