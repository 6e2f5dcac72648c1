"""Pieces of runs, which other processes do: they load what stands here, and so neither pytest nor tests."""

import os
import signal
from functools import partial
from pathlib import Path

from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.settings import RunOptions
from gumdrop_experiments.pages.page import Page


def note(folder: Path, name: str, kind: str) -> None:
    """Leave a file that says how often this was called, and then do what the kind says."""
    with (folder / name).open("a") as file:
        file.write("x")
    calls = len((folder / name).read_text())
    if kind == "killed once" and calls == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "error":
        raise ValueError("no such thing")


def part(folder: Path, name: str, kind: str) -> dict[str, int]:
    note(folder, name, kind)
    return {"length": len(name)}


def sweep(folder: Path, out: Path, kinds: dict[str, str], **options) -> dict:
    with Run("sweep", RunOptions(out=out, resume=True, **options)) as run:
        found = run.parts({name: partial(part, folder, name, kind) for name, kind in kinds.items()})
        total = run.part("total", lambda: sum(each["length"] for each in found.values()))
        run.finish({"total": total}, Page("Sweep", "Lengths.", body=[]))
    return found


def stay() -> None:
    print(os.getpid(), flush=True)
    signal.pause()
