"""Tables: the estimators as they come beside what people use on tables, in one run on the same folds.

Nothing is chosen on a test fold, and nothing is set for a set. `gumdrop reproduce tables`.
"""

import math
import operator
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from gumdrop.machine.threads import limited_threads
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.tables import figures as tables_figures
from gumdrop_experiments.tables.methods import CLASS_ROWS, KERNEL_ROWS, METHODS
from gumdrop_experiments.tables.work import TableSet, Task, pooled, rows_of, scores, table_sets

__all__ = ["tables"]

OURS = "gumdrop"
FOLDS, QUICK_FOLDS, QUICK_EPOCHS, QUICK_SETS = 5, 2, 5, 3
WANTED_COVERAGE = (0.88, 0.92)


def tables(options: RunOptions = RunOptions(), *, methods: tuple[str, ...] = ()) -> None:
    """The estimators beside Gaussian processes, linear models, boosted trees and MC dropout, by 5-fold validation.

    Args:
        options: The shared flags; `--data` names a folder whose `uci` holds further sets.
        methods: Methods to run: gumdrop, fixed, mc-dropout, process, linear, boosting, quantiles; all by default.

    Raises:
        ValueError: If there is no such method.
    """
    if unknown := [key for key in methods if key not in METHODS]:
        raise ValueError(f"there is no method {unknown[0]!r}; there are: {', '.join(METHODS)}")
    wanted = list(dict.fromkeys(methods)) or list(METHODS)
    found = list(table_sets(options.data, most=QUICK_SETS if options.quick else None))
    with limited_threads(1), threadpool_limits(1), Run("tables", options, {"methods": list(methods)}) as run:
        sets = {}
        for table in found:
            keys = [key for key in wanted if METHODS[key].classes or not table.num_classes]
            parts = {key: _folds(run, key, table, options) for key in keys}
            sets[table.name] = {
                "rows": len(table.x),
                "columns": table.x.shape[1],
                "classes": table.num_classes,
                "methods": _summaries(parts),
            }
        _finish(run, sets)


def _folds(run: Run, key: str, table: TableSet, options: RunOptions) -> list[dict[str, Any]]:
    folds = table.folds(QUICK_FOLDS if options.quick else FOLDS, options.seed)
    return [
        run.part(f"{table.name}.{key}.{number}", partial(_part, key, table, train, test, options))
        for number, (train, test) in enumerate(folds)
    ]


def _part(key: str, table: TableSet, train: Any, test: Any, options: RunOptions) -> dict[str, Any]:
    """Train one method on one fold and take down its predictions."""
    epochs = QUICK_EPOCHS if options.quick else None
    task = Task(table.x[train], table.y[train], table.x[test], table.num_classes, options.seed, epochs)
    started = time.process_time()
    prediction = METHODS[key].run(task)
    return {"rows": rows_of(prediction, table.y[test]), "seconds": time.process_time() - started}


def _summaries(parts: Mapping[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Scores over all rows and in each fold, and how far each method is from ours, fold by fold."""
    summaries: dict[str, dict[str, Any]] = {}
    for key, folds in parts.items():
        by_fold = [scores(part["rows"]) for part in folds]
        summary: dict[str, Any] = dict(scores(pooled([part["rows"] for part in folds])))
        summary["folds"] = by_fold
        summary["seconds"] = float(np.mean([part["seconds"] for part in folds]))
        if OURS in parts and key != OURS:
            ours = [each["log_likelihood"] for each in summaries[OURS]["folds"]]
            gap = np.array([each["log_likelihood"] for each in by_fold]) - ours
            summary["gap"], summary["gap_error"] = float(gap.mean()), float(gap.std(ddof=1) / math.sqrt(len(gap)))
        summaries[key] = summary
    return summaries


def _verdicts(sets: Mapping[str, Any]) -> dict[str, Any]:
    """On which sets ours is best, or within one standard error of the best; and where coverage is as wanted."""
    verdicts = {}
    for name, each in sets.items():
        others = {key: summary for key, summary in each["methods"].items() if "gap" in summary}
        low, high = WANTED_COVERAGE
        coverage = each["methods"][OURS].get("coverage")
        verdicts[name] = {
            "best_network": _holds(summary for key, summary in others.items() if METHODS[key].network),
            "best_of_all": _holds(others.values()),
            "coverage": None if coverage is None else low <= coverage <= high,
        }
    return verdicts


def _holds(others: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the best of the others is no more than a standard error ahead."""
    best = max(others, key=operator.itemgetter("gap"), default=None)
    return best is None or bool(best["gap"] <= best["gap_error"])


def _finish(run: Run, sets: dict[str, Any]) -> None:
    """Draw the figures and write the page."""
    labels = {key: method.label for key, method in METHODS.items()}
    figures = []
    for name, figure, caption in tables_figures.figures(sets, labels, OURS, WANTED_COVERAGE):
        run.figure(name, figure)
        figures.append(Figure(name, caption))
    verdicts = _verdicts(sets) if all(OURS in each["methods"] for each in sets.values()) else {}
    body: list[Figure | Table] = [*figures, *(_table(name, each) for name, each in sets.items())]
    run.finish({"sets": sets, "verdicts": verdicts}, Page("Tables", _lead(verdicts), body, NOTES))


def _lead(verdicts: Mapping[str, Any]) -> str:
    if not verdicts:
        return "Five folds of each set."
    networks, everything = (sum(each[what] for each in verdicts.values()) for what in ("best_network", "best_of_all"))
    covered = [each["coverage"] for each in verdicts.values() if each["coverage"] is not None]
    return (
        f"The estimators as they come have the best held-out log likelihood of the networks, or one within a standard "
        f"error of it, on {networks} of {len(verdicts)} sets; of all methods on {everything}. Their 90 % intervals "
        f"hold 88 to 92 % of the rows on {sum(covered)} of {len(covered)} sets of numbers."
    )


def _table(name: str, each: Mapping[str, Any]) -> Table:
    kinds = {"accuracy": "accuracy", "brier": "Brier", "ece": "ECE"}
    if not each["classes"]:
        kinds = {"rmse": "RMSE", "coverage": "90 %", "width": "width"}
    columns = ["", "log likelihood", "less ours (SE)", *kinds.values(), "seconds"]
    rows = []
    for key, summary in each["methods"].items():
        gap = f"{summary['gap']:+.3f} ({summary['gap_error']:.3f})" if "gap" in summary else ""
        cells = [f"{summary[kind]:.3f}" for kind in kinds]
        rows.append([METHODS[key].label, f"{summary['log_likelihood']:.3f}", gap, *cells, f"{summary['seconds']:.1f}"])
    means = [summary["log_likelihood"] for summary in each["methods"].values()]
    what = f"{each['classes']} classes" if each["classes"] else "numbers, in units of their standard deviation"
    caption = f"{name}: {each['rows']} rows, {each['columns']} columns, {what}; seconds of one core to train on a fold"
    ours = [i for i, key in enumerate(each["methods"]) if key == OURS]
    return Table(caption, columns, rows, ours=ours, best=[(int(np.argmax(means)), 1)])


NOTES = (
    "Five folds, the same for all methods; scores are over all rows, each predicted once. 'Less ours' is the mean over "
    "folds of the difference in log likelihood, with its standard error; folds share training rows, so it is somewhat "
    "too small. Nothing was chosen on these folds. The default for numbers was chosen on training parts of three of "
    "the UCI sets (gumdrop reproduce tuning), which hold many of the same rows.",
    "Gaussian processes have an isotropic RBF kernel with a constant factor, and white noise for numbers. Kernels "
    f"are learned from {KERNEL_ROWS} rows at most, drawn at random, and then they know all rows; for classes they "
    f"know {CLASS_ROWS} rows at most, which is fewer than there are on digits alone. Boosted trees have "
    "scikit-learn's settings, and Gaussian noise of the variance that 5-fold validation within the training part "
    "finds. Boosted quantiles are scored as the Gaussian that has their 5 and 95 % quantiles as its own; where these "
    "cross or meet, its standard deviation is 0.001. Probabilities of peers are kept above 1e-6.",
    "'Rates fixed at .1' is the default in all but the learning of rates: five members, held-out noise, as many steps. "
    "The one network holds nothing out, and learns its noise with its weights, as is mostly done; as many steps.",
)
