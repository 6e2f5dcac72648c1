"""The files of the page: one page with everything inside, the widget to copy, a picture for links, and runs."""

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gumdrop.machine.files import replacing
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
    results = _results(folder)
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


def _results(folder: Path) -> dict[str, object]:
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


STATIC = Path(__file__).parent / "static"
WIDGET = ("landscape-terms.js", "landscape-look.js", "landscape.js")
"""Scripts of the widget, which are one script where it is copied."""
SCRIPT = re.compile(r'<script src="([\w-]+\.js)"( data-worker)?></script>')
STYLE = re.compile(r'<link rel="stylesheet" href="([\w./-]+)">')
MARK = "gumdrop-page.txt"
"""A file by which a folder of ours is known, and may be written again."""


def page_files(runs: Sequence[Run] = ()) -> dict[str, bytes]:
    """Build the files of the page."""
    files = {
        "index.html": _index([{"page": f"runs/{run.name}.html"} for run in runs], runs),
        "loss-landscape.js": "".join(map(_read, WIDGET)).encode(),
        "preview.png": (STATIC / "preview.png").read_bytes(),
    }
    return files | {f"runs/{run.name}.html": run.page.encode() for run in runs}


def _index(places: Sequence[dict[str, str]], runs: Sequence[Run]) -> bytes:
    """The page, with what tells it where the page of each run is."""
    facts = [{"name": run.name, "title": run.title, "note": run.note} for run in runs]
    listed = [fact | place for fact, place in zip(facts, places, strict=True)]
    safe = json.dumps(listed, ensure_ascii=True).replace("<", "\\u003c")  # JSON that may stand in a script

    def inline(tag: re.Match[str]) -> str:
        code = f"Gumdrop.runs = {safe};\n" if tag[1] == "runs.js" else _read(tag[1])
        return f"<script{tag[2] or ''}>\n{code}</script>"

    page = STYLE.sub(lambda tag: f"<style>\n{_read(tag[1])}</style>", _read("index.html"))
    return SCRIPT.sub(inline, page).encode()


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def write_site(place: str | os.PathLike[str], *, runs: Sequence[Run] = ()) -> Path:
    """Return the file to look at: the page as one file if its name ends in .html, else as files into a folder of ours.

    Raises:
        ValueError: If something else is there.
    """
    place = Path(place)
    if place.suffix.lower() in (".html", ".htm"):
        return _write_alone(place, runs)
    if place.exists() and not place.is_dir():
        raise ValueError(f"{place} is a file; name a folder with --out")
    if place.is_dir() and any(place.iterdir()) and not (place / MARK).is_file():
        raise ValueError(f"{place} holds something that is not this page; name another folder with --out")
    contents = {MARK: b"Written by `gumdrop explore --out`, which may write it again.\n", **page_files(runs)}
    for name, content in contents.items():
        with replacing(place / name, "wb") as file:
            file.write(content)
    return place / "index.html"


def _write_alone(place: Path, runs: Sequence[Run]) -> Path:
    """Write one file with everything in it, over one of ours at most."""
    mark = b"<title>gumdrop explore</title>"
    if place.exists() and not (place.is_file() and mark in place.read_bytes()):
        raise ValueError(f"{place} is something else than this page; name another file with --out")
    with replacing(place, "wb") as file:
        file.write(_index([{"html": run.page} for run in runs], runs))
    return place
