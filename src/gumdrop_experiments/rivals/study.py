"""Every method on both tables, with five seeds."""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from gumdrop_experiments.harness import Plain, data_folder
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.rivals import PUBLISHED, Settings
from gumdrop_experiments.tables.running import cost, fails, installed, scored
from gumdrop_experiments.tables.work import Task

USUAL = ("gumdrop", "deep-ensemble", "boosting", "quantiles", "ngboost", "catboost", "forest", "realmlp")
"""The methods that run unless others are named."""
SEEDS, QUICK_SEEDS, QUICK_ROWS, QUICK_EPOCHS = 5, 2, 300, 5


class Source(NamedTuple):
    """A file, and what of it is used."""

    file: str
    """Its path in the folder of the tables."""
    target: str
    """The column to predict."""
    unused: tuple[str, ...] = ()
    """Columns that are no inputs: parts of the target, numbers of rows, dates that others repeat."""


class TableSplit(NamedTuple):
    """A table, split and standardised by its training part."""

    x_train: NDArray[np.float64]
    """Inputs to train on, shape (N, F)."""
    y_train: NDArray[np.float64]
    """Targets to train on, shape (N,)."""
    x_test: NDArray[np.float64]
    """Inputs to predict."""
    y_test: NDArray[np.float64]
    """Targets to predict."""

    def task(self, seed: int, epochs: int | None) -> Task:
        """Give what a method has to do with one seed."""
        return Task(self.x_train, self.y_train, self.x_test, 0, seed, epochs)


def study(settings: Settings, run: Run) -> Plain:
    """Train the methods on the one split of each table, and score its test part."""
    folder = data_folder(run.options, "tables", files=[source.file for source in TABLES.values()])
    quick = run.options.quick
    tables = {name: read(folder, name, most=QUICK_ROWS if quick else None) for name in TABLES}
    keys = installed(list(dict.fromkeys(settings.methods)) or list(USUAL), run.name)
    seeds = [run.options.seed + i for i in range(QUICK_SEEDS if quick else SEEDS)]
    parts = run.parts(
        {
            f"{name}.{key}.{seed}": partial(part, key, table, seed, QUICK_EPOCHS if quick else None)
            for name, table in tables.items()
            for key in keys
            for seed in seeds
        }
    )
    return {
        name: {
            "rows": len(table.y_train) + len(table.y_test),
            "columns": table.x_train.shape[1],
            "seeds": len(seeds),
            "published": PUBLISHED[name],
            "methods": {key: summary([parts[f"{name}.{key}.{seed}"] for seed in seeds]) for key in keys},
        }
        for name, table in tables.items()
    }


@threadpool_limits.wrap(limits=1)
def part(key: str, table: TableSplit, seed: int, epochs: int | None) -> Plain:
    """Run one method with one seed, and score it."""
    return scored(key, table.task(seed, epochs), table.y_test)


def summary(parts: list[Plain]) -> Plain:
    """Mean and standard error of each score over seeds, and what a training took."""
    if problem := fails(parts):
        return {"failed": problem}
    taken = cost(parts)
    return {name: mean_and_error(part[name] for part in parts) for name in parts[0] if name not in taken} | taken


TABLES = {
    "airfoil": Source("airfoil/airfoil.csv", "target"),
    "bike-sharing": Source("bike-sharing/hour.csv", "cnt", ("casual", "registered", "instant", "dteday")),
}


def read(folder: Path, name: str, *, most: int | None = None) -> TableSplit:
    """Read a table and split it as the benchmark does."""
    source = TABLES[name]
    frame = pd.read_csv(folder / source.file)
    if missing := {source.target, *source.unused} - set(frame.columns):
        raise ValueError(f"{folder / source.file} must have the columns {sorted(missing)}, got {list(frame.columns)}")
    if most is not None:
        frame = frame.iloc[:: max(1, len(frame) // most)]
    inputs = frame.drop(columns=[source.target, *source.unused])
    try:
        parts: Any = train_test_split(
            inputs.to_numpy(np.float64), frame[source.target].to_numpy(np.float64), test_size=0.2, random_state=0
        )
    except ValueError as error:
        raise ValueError(f"{folder / source.file} must hold numbers in {list(inputs.columns)} ({error})") from error
    x_train, x_test, y_train, y_test = parts
    x_scale, y_scale = StandardScaler().fit(x_train), StandardScaler().fit(y_train[:, None])
    x = [x_scale.transform(each) for each in (x_train, x_test)]
    y = [y_scale.transform(each[:, None])[:, 0] for each in (y_train, y_test)]
    return TableSplit(x[0], y[0], x[1], y[1])
