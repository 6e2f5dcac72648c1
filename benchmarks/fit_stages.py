"""Time and memory of each stage of ``gumdrop fit``, so that a fit that nobody waits for can be told by multiplication.

A fit runs in a process of its own, as the command does, and its stages are timed where they are called: reading, the
search for what the columns are and their encoding, the choice of the networks, epochs, the noise, and the test part
with its report. All of them but the epochs are done once. Used by `growth`, which writes the results.
"""

import functools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["fit_in_stages"]

STAGES = {
    "read": ("gumdrop.tables.fitting.data", "read_table"),
    "prepare": ("gumdrop.tables.fitting.data", "split_and_encode"),
    "choose": ("gumdrop.tables.fitting.train", "_architecture"),
    "epoch": ("gumdrop.training.stacked", "_Stacked.train"),
    "noise": ("gumdrop.ensembles.fitting", "ensemble_of"),
    "test": ("gumdrop.tables.fitting.fit", "_results"),
    "report": ("gumdrop.views.report", "write_report"),
}
"""The module and the function of each stage; the epochs of a choice count as choice."""


def fit_in_stages(table: Path, out: Path, *, epochs: int | None = None) -> dict[str, Any]:
    """Run ``gumdrop fit`` without the models beside it, with one thread.

    Args:
        table: The table, whose target is ``y``.
        out: Folder to make.
        epochs: Passes; those of the command if None.

    Returns:
        Processor seconds and largest memory so far of each stage, and those of the whole process.
    """
    words = ["fit", str(table), "--target", "y", "--no-compare", "--quiet", "--out", str(out)]
    words += [] if epochs is None else ["--epochs", str(epochs)]
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, __file__, *words],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, "the fit failed"
    return json.loads(said.splitlines()[-1]) | {
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "seconds": round(time.monotonic() - started, 1),
        "largest_memory_megabytes": megabytes(usage),
    }


def peak() -> int:
    """Largest memory of this process so far, in megabytes."""
    return megabytes(resource.getrusage(resource.RUSAGE_SELF))


def megabytes(usage: resource.struct_rusage) -> int:
    """Largest memory of a process."""
    return round(usage.ru_maxrss * 1024 / 1e6)


class Stages:
    """What each stage took."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.memory: dict[str, int] = {}
        self.inside: str | None = None

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Time a function, unless another stage calls it."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if self.inside is not None:
                return function(*args, **kwargs)
            self.inside, started = stage, time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.inside = None
                self.seconds.setdefault(stage, []).append(time.process_time() - started)
                self.memory[stage] = peak()

        return run


def main() -> None:
    """Run a command with its stages timed."""
    import importlib

    from gumdrop.cli.commands import main as gumdrop

    stages = Stages()
    for stage, (module, name) in STAGES.items():
        *path, last = name.split(".")
        owner = functools.reduce(getattr, path, importlib.import_module(module))
        setattr(owner, last, stages.timed(stage, getattr(owner, last)))
    loaded = {"load": peak()}
    status = gumdrop()
    seconds = {stage: sum(each) for stage, each in stages.seconds.items()}
    epochs = len(stages.seconds["epoch"])
    seconds["epoch"] /= epochs
    found = {
        "epochs_run": epochs,
        "stage_seconds": {stage: round(each, 2) for stage, each in seconds.items()},
        "stage_megabytes": loaded | stages.memory,
    }
    print(json.dumps(found))
    sys.exit(status)


if __name__ == "__main__":
    main()
