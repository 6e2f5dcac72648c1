"""Run a method on a task: its scores, its time and its memory; a rival that is absent or fails stops nothing."""

import gc
import importlib.util
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from threadpoolctl import threadpool_limits

from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.predictions import crps_of, gaussian_nll, rows_of, scores
from gumdrop_experiments.tables.work import Task

PROCESS = Path("/proc/self")


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

    Gives ``rows`` as `gumdrop_experiments.tables.predictions.rows_of` has them, ``crps`` and ``gaussian_nll`` of
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
    found = measured(key, task)
    return found if "failed" in found else {**scores(found.pop("rows")), **found}


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
