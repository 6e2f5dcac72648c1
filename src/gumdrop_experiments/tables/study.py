"""Every method on every set, fold by fold; gaps to ours, and on which sets ours is best."""

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np

from gumdrop_experiments.harness import Plain
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.tables import Settings
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.predictions import pooled, scores
from gumdrop_experiments.tables.running import cost, fails, measured, methods_of
from gumdrop_experiments.tables.work import table_sets, unseen_sets

OURS = "gumdrop"
"""The method that others are compared with."""
WANTED_COVERAGE = (0.88, 0.92)
FOLDS, QUICK_FOLDS, QUICK_EPOCHS, QUICK_SETS = 5, 2, 5, 3


def study(settings: Settings, run: Run) -> Plain:
    """Train the methods on all but a fold of each set, and score that."""
    quick, seed = run.options.quick, run.options.seed
    usual = [key for key, method in METHODS.items() if method.default]
    methods = methods_of(settings.methods, usual, run.name)
    sets = {}
    loaded = unseen_sets() if settings.unseen else table_sets(run.options.data, most=QUICK_SETS if quick else None)
    for table in list(loaded):
        tasks = table.folds(QUICK_FOLDS if quick else FOLDS, seed, QUICK_EPOCHS if quick else None)
        parts = {
            key: [run.part(f"{table.name}.{key}.{i}", partial(measured, key, task)) for i, task in enumerate(tasks)]
            for key in methods
            if METHODS[key].classes or not table.num_classes
        }
        sets[table.name] = {
            "rows": len(table.x),
            "columns": table.x.shape[1],
            "classes": table.num_classes,
            "methods": summaries(parts),
        }
    return {"sets": sets, "verdicts": verdicts(sets) if OURS in methods else {}}


def summaries(parts: Mapping[str, list[Plain]]) -> dict[str, Plain]:
    """Scores over all rows and in each fold, and how far each method is from ours, fold by fold."""
    found: dict[str, Plain] = {}
    for key, folds in parts.items():
        if problem := fails(folds):
            found[key] = {"failed": problem}
            continue
        by_fold: list[Plain] = [scores(part["rows"]) for part in folds]
        summary: Plain = dict(scores(pooled([part["rows"] for part in folds])))
        if folds[0]["crps"] is not None:
            by_fold = [each | {"crps": part["crps"]} for each, part in zip(by_fold, folds, strict=True)]
            sizes = [len(part["rows"]["y"]) for part in folds]
            summary["crps"] = float(np.average([each["crps"] for each in by_fold], weights=sizes))
        summary |= {"folds": by_fold, **cost(folds)}
        if OURS in parts and key != OURS:
            for score, gap in (("log_likelihood", "gap"), ("crps", "crps_gap")):
                if score in summary:
                    pairs = zip(by_fold, found[OURS]["folds"], strict=True)
                    summary[gap], summary[f"{gap}_error"] = mean_and_error(a[score] - b[score] for a, b in pairs)
        found[key] = summary
    return found


def verdicts(sets: Plain) -> Plain:
    """On which sets ours is best, or within one standard error of the best; and where coverage is as wanted."""
    found = {}
    low, high = WANTED_COVERAGE
    for name, each in sets.items():
        others = {key: summary for key, summary in each["methods"].items() if "gap" in summary}
        coverage = each["methods"][OURS].get("coverage_90")
        with_crps = [summary for summary in others.values() if "crps_gap" in summary]
        found[name] = {
            "best_network": _holds(summary for key, summary in others.items() if METHODS[key].network),
            "best_of_all": _holds(others.values()),
            "best_crps": None if coverage is None else _holds(with_crps, "crps_gap", -1),
            "coverage": None if coverage is None else low <= coverage <= high,
        }
    return found


def _holds(others: Iterable[Plain], score: str = "gap", sign: int = 1) -> bool:
    """Whether the best of the others is no more than a standard error ahead; a sign of -1 where less is better."""
    best = max(others, key=lambda each: sign * each[score], default=None)
    return best is None or bool(sign * best[score] <= best[f"{score}_error"])
