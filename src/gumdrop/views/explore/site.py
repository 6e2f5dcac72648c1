"""The files of the page: one page with everything inside, the widget to copy, a picture for links, and runs."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from gumdrop.machine.files import replacing
from gumdrop.views.explore.runs import Run

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
