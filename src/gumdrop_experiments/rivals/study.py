"""Every method on both tables, with five seeds."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from gumdrop_experiments.data.tables import TABLES, read_table
from gumdrop_experiments.harness import Plain, data_folder
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.rivals import PUBLISHED, Settings
from gumdrop_experiments.tables.running import methods_of, scored, summary
from gumdrop_experiments.tables.work import Task

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
    epochs = QUICK_EPOCHS if quick else None
    parts = run.parts(
        {
            (name, key, seed): partial(scored, key, replace(task, seed=seed, epochs=epochs))
            for name, task in tables.items()
            for key in keys
            for seed in seeds
        }
    )
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


def read(folder: Path, name: str, *, most: int | None = None) -> Task:
    """Read a table, and split and standardise it as the benchmark does."""
    x, y = read_table(folder, name)
    every = 1 if most is None else max(1, len(x) // most)
    parts: Any = train_test_split(x[::every], y[::every], test_size=0.2, random_state=0)
    scales = [StandardScaler().fit(parts[i]) for i in (0, 2)]
    x_train, x_test, y_train, y_test = (scales[i // 2].transform(rows) for i, rows in enumerate(parts))
    return Task(x_train, y_train[:, 0], x_test, y_test[:, 0])
