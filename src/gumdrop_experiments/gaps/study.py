"""Every method on every kind of split of every set."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from gumdrop_experiments.data.uci import Split, splits_of
from gumdrop_experiments.gaps import PUBLISHED, Settings
from gumdrop_experiments.harness import Plain, Run, data_folder
from gumdrop_experiments.tables.study import fails, methods_of, scored, summary
from gumdrop_experiments.tables.tasks import Task

USUAL = ("gumdrop", "fixed", "mc-dropout", "deep-ensemble", "ngboost", "catboost", "forest")
QUICK_SPLITS, QUICK_EPOCHS = 2, 5


def study(settings: Settings, run: Run) -> Plain:
    """Train and score the methods on all splits of the sets."""
    folder, quick = data_folder(run.options, "uci"), run.options.quick
    most = settings.splits or (QUICK_SPLITS if quick else None)
    splits = {
        (name, kind): splits_of(folder / name, kind, most=most) for name in settings.dataset for kind in settings.kinds
    }
    keys = methods_of(settings.methods, USUAL, run.name)
    epochs = QUICK_EPOCHS if quick else None
    parts = run.parts(
        {
            (*which, key): partial(part, key, each, run.options.seed, epochs)
            for which, each in splits.items()
            for key in keys
        }
    )
    results = {
        kind: {
            name: {
                "splits": len(splits[name, kind]),
                "methods": {key: _summary(parts[name, kind, key]) for key in keys},
            }
            for name in settings.dataset
        }
        for kind in settings.kinds
    }
    return {
        "kinds": results,
        "means": {kind: over_sets(sets, keys) for kind, sets in results.items()},
        "published": PUBLISHED,
    }


def part(key: str, splits: Sequence[Split], seed: int, epochs: int | None) -> list[Plain]:
    """Run one method on all splits of a kind, and score it in units of the target; stop at one that it cannot do."""
    results = []
    for split in splits:
        x, y, x_test, y_test = (
            each.double().numpy() for each in (split.x_train, split.y_train, split.x_test, split.y_test)
        )
        scores = scored(key, Task(x, y[:, 0], x_test, y_test[:, 0], 0, seed, epochs))
        if "failed" in scores:
            return [scores]
        scores["log_likelihood"] -= math.log(split.y_std)
        for name in ("rmse", "crps"):
            scores[name] *= split.y_std
        for name in ("width", "gaussian_nll"):  # which nobody asks for
            del scores[name]
        results.append(scores)
    return results


def _summary(scores: list[Plain]) -> Plain:
    result = summary(scores)
    return result if "failed" in result else {**result, "by_split": [each["log_likelihood"] for each in scores]}


def over_sets(sets: Plain, keys: Sequence[str]) -> dict[str, float | None]:
    """Log likelihood of each method, averaged over sets; None for a method that failed on one."""
    columns = {key: [each["methods"][key] for each in sets.values()] for key in keys}
    return {
        key: None if fails(column) else float(np.mean([each["log_likelihood"][0] for each in column]))
        for key, column in columns.items()
    }
