"""Every method on every set, fold by fold."""

from functools import partial
from typing import Any

from threadpoolctl import threadpool_limits

from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.tables import Settings
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.results import OURS, summaries, verdicts
from gumdrop_experiments.tables.running import installed, measured
from gumdrop_experiments.tables.work import TableSet, Task, table_sets

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
