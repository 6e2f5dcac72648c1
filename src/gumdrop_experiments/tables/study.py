"""Every method on every set, fold by fold; gaps to ours, and on which sets ours is best."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from gumdrop_experiments.harness import Plain, RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.tables import Settings
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.predictions import pooled, scores
from gumdrop_experiments.tables.running import cost, fails, installed, measured
from gumdrop_experiments.tables.work import TableSet, Task, table_sets

OURS = "gumdrop"
"""The method that others are compared with."""
WANTED_COVERAGE = (0.88, 0.92)
FOLDS, QUICK_FOLDS, QUICK_EPOCHS, QUICK_SETS = 5, 2, 5, 3


@threadpool_limits.wrap(limits=1)
def study(settings: Settings, run: Run) -> Plain:
    """Train the methods on all but a fold of each set, and score that."""
    usual = [key for key, method in METHODS.items() if method.default]
    methods = installed(list(dict.fromkeys(settings.methods)) or usual, run.name)
    sets = {}
    for table in list(table_sets(run.options.data, most=QUICK_SETS if run.options.quick else None)):
        keys = [key for key in methods if METHODS[key].classes or not table.num_classes]
        sets[table.name] = {
            "rows": len(table.x),
            "columns": table.x.shape[1],
            "classes": table.num_classes,
            "methods": summaries({key: _folds(run, key, table) for key in keys}),
        }
    return {"sets": sets, "verdicts": verdicts(sets) if OURS in methods else {}}


def _folds(run: Run, key: str, table: TableSet) -> list[Plain]:
    folds = table.folds(QUICK_FOLDS if run.options.quick else FOLDS, run.options.seed)
    return [
        run.part(f"{table.name}.{key}.{number}", partial(_part, run.options, key, table, train, test))
        for number, (train, test) in enumerate(folds)
    ]


def _part(options: RunOptions, key: str, table: TableSet, train: Any, test: Any) -> Plain:
    """Train one method on one fold and take down its predictions."""
    epochs = QUICK_EPOCHS if options.quick else None
    task = Task(table.x[train], table.y[train], table.x[test], table.num_classes, options.seed, epochs)
    return measured(key, task, table.y[test])


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
    return mean_and_error(each[score] - other[score] for each, other in zip(folds, ours, strict=True))


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
