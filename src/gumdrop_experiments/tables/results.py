"""What the folds of `tables` say together: scores, gaps to ours, and on which sets ours is best."""

import math
from collections.abc import Iterable, Mapping

import numpy as np

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.running import cost, fails
from gumdrop_experiments.tables.scores import pooled, scores

OURS = "gumdrop"
"""The method that others are compared with."""
WANTED_COVERAGE = (0.88, 0.92)


def summaries(parts: Mapping[str, list[Plain]]) -> dict[str, Plain]:
    """Scores over all rows and in each fold, and how far each method is from ours, fold by fold."""
    found: dict[str, Plain] = {}
    for key, folds in parts.items():
        if problem := fails(folds):
            found[key] = {"failed": problem}
            continue
        by_fold = [scores(part["rows"]) | _crps(part) for part in folds]
        summary: Plain = dict(scores(pooled([part["rows"] for part in folds])))
        if "crps" in by_fold[0]:
            sizes = [len(part["rows"]["y"]) for part in folds]
            summary["crps"] = float(np.average([each["crps"] for each in by_fold], weights=sizes))
        summary["folds"] = by_fold
        summary |= cost(folds)
        if OURS in parts and key != OURS:
            ours = found[OURS]["folds"]
            summary["gap"], summary["gap_error"] = _gap(by_fold, ours, "log_likelihood")
            if "crps" in summary:
                summary["crps_gap"], summary["crps_gap_error"] = _gap(by_fold, ours, "crps")
        found[key] = summary
    return found


def _crps(part: Plain) -> dict[str, float]:
    return {} if part["crps"] is None else {"crps": part["crps"]}


def _gap(folds: list[dict[str, float]], ours: list[dict[str, float]], score: str) -> tuple[float, float]:
    """Mean over folds of a score less ours, with its standard error."""
    gap = np.array([each[score] for each in folds]) - [each[score] for each in ours]
    return float(gap.mean()), float(gap.std(ddof=1) / math.sqrt(len(gap)))


def verdicts(sets: Plain) -> Plain:
    """On which sets ours is best, or within one standard error of the best; and where coverage is as wanted."""
    found = {}
    for name, each in sets.items():
        others = {key: summary for key, summary in each["methods"].items() if "gap" in summary}
        low, high = WANTED_COVERAGE
        coverage = each["methods"][OURS].get("coverage_90")
        scored = [summary for summary in others.values() if "crps_gap" in summary]
        found[name] = {
            "best_network": _holds(summary for key, summary in others.items() if METHODS[key].network),
            "best_of_all": _holds(others.values()),
            "best_crps": None if coverage is None else _holds(scored, "crps_gap", -1),
            "coverage": None if coverage is None else low <= coverage <= high,
        }
    return found


def _holds(others: Iterable[Plain], score: str = "gap", sign: int = 1) -> bool:
    """Whether the best of the others is no more than a standard error ahead; a sign of -1 where less is better."""
    best = max(others, key=lambda each: sign * each[score], default=None)
    return best is None or bool(sign * best[score] <= best[f"{score}_error"])
