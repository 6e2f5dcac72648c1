"""What the folds of `tables` say together: scores, gaps to ours, and on which sets ours is best."""

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.work import pooled, scores

__all__ = ["OURS", "WANTED_COVERAGE", "summaries", "verdicts"]

OURS = "gumdrop"
"""The method that others are compared with."""
WANTED_COVERAGE = (0.88, 0.92)


def summaries(parts: Mapping[str, list[Plain]]) -> dict[str, Plain]:
    """Scores over all rows and in each fold, and how far each method is from ours, fold by fold."""
    found: dict[str, Plain] = {}
    for key, folds in parts.items():
        by_fold = [scores(part["rows"]) for part in folds]
        summary: Plain = dict(scores(pooled([part["rows"] for part in folds])))
        summary["folds"] = by_fold
        summary["seconds"] = float(np.mean([part["seconds"] for part in folds]))
        if OURS in parts and key != OURS:
            ours = [each["log_likelihood"] for each in found[OURS]["folds"]]
            gap = np.array([each["log_likelihood"] for each in by_fold]) - ours
            summary["gap"], summary["gap_error"] = float(gap.mean()), float(gap.std(ddof=1) / math.sqrt(len(gap)))
        found[key] = summary
    return found


def verdicts(sets: Mapping[str, Any]) -> Plain:
    """On which sets ours is best, or within one standard error of the best; and where coverage is as wanted."""
    found = {}
    for name, each in sets.items():
        others = {key: summary for key, summary in each["methods"].items() if "gap" in summary}
        low, high = WANTED_COVERAGE
        coverage = each["methods"][OURS].get("coverage")
        found[name] = {
            "best_network": _holds(summary for key, summary in others.items() if METHODS[key].network),
            "best_of_all": _holds(others.values()),
            "coverage": None if coverage is None else low <= coverage <= high,
        }
    return found


def _holds(others: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the best of the others is no more than a standard error ahead."""
    best = max(others, key=operator.itemgetter("gap"), default=None)
    return best is None or bool(best["gap"] <= best["gap_error"])
