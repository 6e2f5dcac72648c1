"""Every method on every set, fold by fold; gaps to ours, and on which sets ours is best."""

import gc
import importlib.util
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from gumdrop_experiments.harness import Plain, Run
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.tables import Settings
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.tasks import (
    Task,
    crps_of,
    gaussian_nll,
    pooled,
    rows_of,
    scores,
    table_sets,
    unseen_sets,
)

PROCESS = Path("/proc/self")
OURS = "gumdrop"
WANTED_COVERAGE = (0.88, 0.92)
FOLDS, QUICK_FOLDS, QUICK_EPOCHS, QUICK_SETS = 5, 2, 5, 3


def methods_of(given: Sequence[str], usual: Sequence[str], experiment: str) -> list[str]:
    """Take the methods that were named, or the usual ones, less those whose package is absent, which it names."""
    keys = list(dict.fromkeys(given or usual))
    needs = {key: METHODS[key].package for key in keys}
    absent = {name for name in needs.values() if name and importlib.util.find_spec(name) is None}
    for name in sorted(absent):
        left_out = ", ".join(key for key in keys if needs[key] == name)
        print(f"{experiment}: {name} is not installed, so {left_out} is left out (pip install 'gumdrop[rivals]')")
    return [key for key in keys if needs[key] not in absent]


@threadpool_limits.wrap(limits=1)
def measured(key: str, task: Task) -> Plain:
    """Train a method and predict, and take down what is to be scored.

    Gives ``rows`` as `gumdrop_experiments.tables.tasks.rows_of` has them, ``crps`` and ``gaussian_nll`` of
    numbers, ``seconds`` of processor time and ``megabytes`` of memory at most beside what was held before (None where
    the system does not tell); or ``failed``, the last line of the error, for a rival that raised one.
    """
    before = _restart_peak()
    started = time.process_time()
    try:
        prediction = METHODS[key].run(task)
    except Exception as error:
        if METHODS[key].package is None:
            raise
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    seconds, peak = time.process_time() - started, _kilobytes("VmHWM")
    return {
        "rows": rows_of(prediction, task.y_test),
        "crps": crps_of(prediction, task.y_test),
        "gaussian_nll": gaussian_nll(prediction, task.y_test),
        "seconds": seconds,
        "megabytes": None if before is None or peak is None else max(0, peak - before) / 1000,
    }


def scored(key: str, task: Task) -> Plain:
    """Train a method on numbers and predict, and keep the scores alone; or ``failed``, see `measured`."""
    outcome = measured(key, task)
    return outcome if "failed" in outcome else {**scores(outcome.pop("rows")), **outcome}


def fails(parts: Sequence[Plain]) -> str | None:
    """Say why a rival has no scores, if one of its parts failed."""
    return next((part["failed"] for part in parts if "failed" in part), None)


def cost(parts: Sequence[Plain]) -> dict[str, float | None]:
    """Sum up what parts took, by the median, since the first of them also imports its package."""
    peaks = [part["megabytes"] for part in parts]
    seconds = statistics.median(part["seconds"] for part in parts)
    return {"seconds": seconds, "megabytes": None if None in peaks else statistics.median(peaks)}


def summary(parts: Sequence[Plain]) -> Plain:
    """Mean and standard error of each score that `scored` gave for seeds or splits, and what one of them took."""
    if problem := fails(parts):
        return {"failed": problem}
    taken = cost(parts)
    return {name: mean_and_error(part[name] for part in parts) for name in parts[0] if name not in taken} | taken


def _restart_peak() -> int | None:
    """Let the system count the peak of memory from here on; give what is held now, where it does so (Linux)."""
    gc.collect()  # what goes while a method runs would hide as much of what it takes
    with suppress(OSError):
        (PROCESS / "clear_refs").write_text("5")
        return _kilobytes("VmRSS")
    return None


def _kilobytes(field: str) -> int | None:
    with suppress(OSError):
        for line in (PROCESS / "status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1])
    return None


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
    results: dict[str, Plain] = {}
    for key, folds in parts.items():
        if problem := fails(folds):
            results[key] = {"failed": problem}
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
                    pairs = zip(by_fold, results[OURS]["folds"], strict=True)
                    summary[gap], summary[f"{gap}_error"] = mean_and_error(a[score] - b[score] for a, b in pairs)
        results[key] = summary
    return results


def verdicts(sets: Plain) -> Plain:
    """On which sets ours is best, or within one standard error of the best; and where coverage is as wanted."""
    results = {}
    low, high = WANTED_COVERAGE
    for name, table in sets.items():
        others = {key: summary for key, summary in table["methods"].items() if "gap" in summary}
        coverage = table["methods"][OURS].get("coverage_90")
        with_crps = [summary for summary in others.values() if "crps_gap" in summary]
        results[name] = {
            "best_network": _holds(summary for key, summary in others.items() if METHODS[key].network),
            "best_of_all": _holds(others.values()),
            "best_crps": None if coverage is None else _holds(with_crps, "crps_gap", -1),
            "coverage": None if coverage is None else low <= coverage <= high,
        }
    return results


def _holds(others: Iterable[Plain], score: str = "gap", sign: int = 1) -> bool:
    """Whether the best of the others is no more than a standard error ahead; a sign of -1 where less is better."""
    best = max(others, key=lambda each: sign * each[score], default=None)
    return best is None or bool(sign * best[score] <= best[f"{score}_error"])
