"""The model beside others: a table of scores, and comparisons row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gumdrop.report.rows import DASH, MINUS, SPACE, Results, TestRows, asked_coverage, number

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
    target = (goal, 2 * math.sqrt(goal * (1 - goal) / test.rows))
    names = dict.fromkeys(name for row in rows for name in row["values"])
    skilled = [_is_skilled(row) for row in rows]
    columns = [
        _column(name, [row["values"].get(name) for row in rows], notes.get(name, ""), target, skilled) for name in names
    ]
    ours = next(i for i, row in enumerate(rows) if row["ours"])
    beaten = [column["name"] for column in columns if column["best"] and ours not in column["best"]]
    main = next((c for c in columns if c["name"] in ("RMSE", "accuracy")), columns[0])
    pairs = _pairs(results)
    view = {"rows": rows, "columns": columns, "beaten": beaten, "wobble": test.wobble(), "verdict": None}
    view |= {"pairs": pairs, "pair": None, "skilled": skilled[ours], "guesses_skilled": _guesses_better(rows[ours])}
    view |= {"unskilled": next((row["name"] for row in rows if row.get("unskilled")), None)}
    doubts = [pair for pair in pairs if pair["likelihood_verdict"] == "worse"]
    view["doubts"] = min(doubts, key=lambda pair: pair["likelihood"]["mean"], default=None)
    texts = {row["name"]: text for row, text in zip(rows, main["texts"], strict=True)}
    view["beyond_unskilled"] = _is_farther(main, rows, ours) and texts[view["unskilled"]]
    knowing = {row["name"] for row, is_skilled in zip(rows, skilled, strict=True) if is_skilled}
    rivals_by_row = [pair for pair in pairs if pair["name"] in knowing]
    if pairs and not rivals_by_row:  # none of the others is better than one that does not look at the columns
        return view
    if pairs:  # row by row the luck of the rows cancels, so less is left to chance
        ranks = ("worse", "equal", "better")
        pair = min(rivals_by_row, key=lambda pair: (ranks.index(pair["verdict"]), pair["gain"]["mean"]))
        found = {"pair": pair, "verdict": pair["verdict"], "rival": pair["name"], "rival_text": texts[pair["name"]]}
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


def _is_skilled(row: dict[str, Any]) -> bool:
    """Whether a model is better than one that does not look at the inputs, in guesses or in probabilities."""
    gains = row.get("skill")
    return not row.get("unskilled") and (gains is None or any(_verdict(gain) == "better" for gain in gains.values()))


def _guesses_better(row: dict[str, Any]) -> bool:
    """The same of its guesses alone."""
    gains = row.get("skill") or {}
    return all(_verdict(gain) == "better" for name, gain in gains.items() if name != "log likelihood")


def _pairs(results: Results) -> list[dict[str, Any]]:
    """For each other model how much nearer the truth, or how much more often right, the mean row is."""
    pairs = []
    for other in results.get("paired") or []:
        gains = dict(other["gains"])
        likelihood = gains.pop("log likelihood")
        (gain,) = gains.values()
        pairs.append({"name": other["name"], "verdict": _verdict(gain), "gain": gain, "likelihood": likelihood}
                     | {"likelihood_verdict": _verdict(likelihood)})  # fmt: skip
    return pairs


def _verdict(gain: dict[str, float]) -> str:
    return "equal" if abs(gain["mean"]) <= 2 * gain["se"] else "better" if gain["mean"] > 0 else "worse"


def _column(
    name: str, values: Sequence[float | None], note: str, target: tuple[float, float], skilled: Sequence[bool]
) -> dict[str, Any]:
    aim = _aim(f"{name} {note}".lower(), name.lower())
    largest = max((abs(v) for v in values if v is not None), default=0) or 1
    places = int(np.clip(2 - math.floor(math.log10(largest)), 2 if "likelihood" in name else 0, 6))
    share = name.lower().startswith(("coverage", "accuracy", "calibration"))
    tiny = not share and largest < 1e-4
    shown = [
        DASH if v is None else f"{100 * v:.1f}{SPACE}%" if share else number(v) if tiny else f"{v:,.{places}f}"
        for v in values
    ]
    texts = [text.replace("-", MINUS) for text in shown]
    known = {i: _cost(v, aim, target) for i, v in enumerate(values) if v is not None and aim}
    if aim == "target" or "calibration" in name:  # those of a model that knows nothing are right, and of no use
        known = {i: cost for i, cost in known.items() if skilled[i]}
    top = min(known, key=lambda i: known[i], default=0)
    best = [i for i in known if len(values) > 1 and (known[i] == known[top] or texts[i] == texts[top])]
    best = [i for i in best if skilled[i]]
    return {"name": name, "values": values, "texts": texts, "aim": aim, "best": best}


def _cost(value: float, aim: str | None, target: tuple[float, float]) -> float:
    if aim == "target":  # as near as chance lets any model come is as good as exact
        return max(abs(value - target[0]) - target[1], 0.0)
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
