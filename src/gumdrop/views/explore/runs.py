"""Runs to show on the page: any folder that `gumdrop fit` or `gumdrop reproduce` left."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gumdrop.tables.errors import TableError
from gumdrop.tables.results import RESULTS_FILE, FitResults
from gumdrop.views.report import render


class RunError(ValueError):
    """A folder that holds no run; the message says what to do."""


@dataclass(frozen=True)
class Run:
    """A run that can be shown."""

    name: str
    """Its name on the page, unlike that of any other run there; fit for the name of a file."""
    title: str
    """What it is, in a few words."""
    note: str
    """The command that made it, and how long it took."""
    page: str
    """Its report: HTML that needs nothing from outside."""


def open_runs(folders: Iterable[Path]) -> list[Run]:
    """Open folders that `gumdrop fit` or `gumdrop reproduce` left, each under a name of its own; refuse any other."""
    runs: list[Run] = []
    for folder in folders:
        base = re.sub(r"[^\w.-]+", "-", folder.resolve().name).strip(".-") or "run"
        taken = {run.name for run in runs}
        name = next(n for n in (base, *(f"{base}-{i}" for i in range(2, len(taken) + 3))) if n not in taken)
        runs.append(_open(folder, name))
    return runs


def _open(folder: Path, name: str) -> Run:
    results = _read(folder)
    report = folder / "report.html"
    if "experiment" in results:
        title = f"Experiment {results['experiment']}"
        if not report.is_file():
            raise RunError(f"{folder} has no report.html: repeat its command with --resume to write it")
        return Run(name, title, str(results.get("command", "")), report.read_text(encoding="utf-8"))
    try:
        fit = FitResults.from_json(results, folder / RESULTS_FILE)
    except TableError as error:
        raise RunError(f"{folder} is of no run of gumdrop that this one can show: {error}") from error
    page = report.read_text(encoding="utf-8") if report.is_file() else render(fit, folder=name)
    return Run(name, f"Predicting {fit.target.name}", f"gumdrop fit {fit.table.name}, {fit.table.rows} rows", page)


def _read(folder: Path) -> dict[str, Any]:
    path = folder / RESULTS_FILE
    if not path.is_file():
        unfinished = " (it was stopped: repeat its command with --resume)" if (folder / "run.json").is_file() else ""
        raise RunError(f"{folder} holds no results.json{unfinished}; give a folder of `gumdrop fit` or `reproduce`")
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}); run its command again to write it") from error
    if not isinstance(results, dict):
        raise RunError(f"{path} must hold an object, got {type(results).__name__}; run its command again to write it")
    return results
