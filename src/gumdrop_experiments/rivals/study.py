"""Every method on both tables, with five seeds."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from gumdrop_experiments.data.uci import TABLES, read_table
from gumdrop_experiments.harness import Plain, Run, data_folder
from gumdrop_experiments.rivals import PUBLISHED, Settings
from gumdrop_experiments.tables.study import methods_of, scored, summary
from gumdrop_experiments.tables.tasks import Task

USUAL = ("gumdrop", "deep-ensemble", "boosting", "quantiles", "ngboost", "catboost", "forest", "realmlp")
"""The methods that run unless others are named."""
SEEDS, QUICK_SEEDS, QUICK_ROWS, QUICK_EPOCHS = 5, 2, 300, 5


def study(settings: Settings, run: Run) -> Plain:
    """Train the methods on the one split of each table, and score its test part."""
    folder = data_folder(run.options, "tables", files=[source.file for source in TABLES.values()])
    quick = run.options.quick
    tables = {name: read(folder, name, most=QUICK_ROWS if quick else None) for name in TABLES}
    keys = methods_of(settings.methods, USUAL, run.name)
    seeds = run.options.seeds(QUICK_SEEDS if quick else SEEDS)
    parts = run.product(partial(_part, tables, QUICK_EPOCHS if quick else None), tables, keys, seeds)
    return {
        name: {
            "rows": len(task.y_train) + len(task.y_test),
            "columns": task.x_train.shape[1],
            "seeds": len(seeds),
            "published": PUBLISHED[name],
            "methods": {key: summary([parts[name, key, seed] for seed in seeds]) for key in keys},
        }
        for name, task in tables.items()
    }


def _part(tables: Mapping[str, Task], epochs: int | None, name: str, key: str, seed: int) -> Plain:
    return scored(key, replace(tables[name], seed=seed, epochs=epochs))


def read(folder: Path, name: str, *, most: int | None = None) -> Task:
    """Read a table, and split and standardise it as the benchmark does."""
    x, y = read_table(folder, name)
    every = 1 if most is None else max(1, len(x) // most)
    parts: Any = train_test_split(x[::every], y[::every], test_size=0.2, random_state=0)
    scales = [StandardScaler().fit(parts[i]) for i in (0, 2)]
    x_train, x_test, y_train, y_test = (scales[i // 2].transform(rows) for i, rows in enumerate(parts))
    return Task(x_train, y_train[:, 0], x_test, y_test[:, 0])
