"""Every method on both tables, with five seeds."""

from functools import partial
from typing import Any

from threadpoolctl import threadpool_limits

from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.rivals import PUBLISHED, Settings
from gumdrop_experiments.rivals.work import TABLES, USUAL, TableSplit, read
from gumdrop_experiments.tables.running import cost, fails, installed, scored

SEEDS, QUICK_SEEDS, QUICK_ROWS, QUICK_EPOCHS = 5, 2, 300, 5


def study(settings: Settings, run: Run) -> dict[str, Any]:
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
def part(key: str, table: TableSplit, seed: int, epochs: int | None) -> dict[str, Any]:
    """Run one method with one seed, and score it."""
    return scored(key, table.task(seed, epochs), table.y_test)


def summary(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard error of each score over seeds, and what a training took."""
    if problem := fails(parts):
        return {"failed": problem}
    taken = cost(parts)
    return {name: mean_and_error(part[name] for part in parts) for name in parts[0] if name not in taken} | taken
