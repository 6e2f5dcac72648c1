"""The files of the page, as the server gives them and as they are written for any place that serves files."""

from __future__ import annotations

import json
import mimetypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from gumdrop.machine.files import replacing
from gumdrop.views.explore.runs import Run

__all__ = ["SiteError", "page_files", "write_site"]

WEB = Path(__file__).parent / "static"
RECORDED, LIVE = 'data-mode="recorded"', 'data-mode="live"'
MARK = "gumdrop-page.txt"
"""A file by which a folder of ours is known, and may be written again."""

Content = Callable[[], tuple[bytes, str]]


class SiteError(ValueError):
    """A folder that the page cannot be written to; the message says why."""


def page_files(runs: Sequence[Run] = (), *, live: bool) -> dict[str, Content]:
    """List the files of the page.

    Args:
        runs: Runs to show.
        live: Whether a server is there to train, or a recording is to be played.

    Returns:
        By path, a function that gives the content and the media type.

    Raises:
        AssertionError: If the page has lost the mark by which it is told.
    """
    files: dict[str, Content] = {path.name: _file(path) for path in sorted(WEB.iterdir()) if path.is_file()}
    page = (WEB / "index.html").read_text(encoding="utf-8")
    assert RECORDED in page
    files["index.html"] = _text(page.replace(RECORDED, LIVE) if live else page, "text/html")
    listed = [{"name": run.name, "title": run.title, "note": run.note, "page": f"runs/{run.name}.html"} for run in runs]
    files["runs.js"] = _text(f"Gumdrop.runs = {_script(listed)};\n", "text/javascript")
    for run in runs:
        files[f"runs/{run.name}.html"] = _text(run.page, "text/html")
    return files


def _script(value: object) -> str:
    """JSON that may stand in a script."""
    return json.dumps(value, ensure_ascii=True).replace("<", "\\u003c")


def _file(path: Path) -> Content:
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return lambda: (path.read_bytes(), media_type)


def _text(text: str, media_type: str) -> Content:
    content = text.encode()
    return lambda: (content, media_type)


def write_site(folder: str | os.PathLike[str], *, runs: Sequence[Run] = ()) -> Path:
    """Write the page as static files, which work from a file and from any web server, without a network.

    Args:
        folder: New or empty folder, or one that this wrote before.
        runs: Runs to show.

    Returns:
        Path of its `index.html`.

    Raises:
        SiteError: If the folder holds something else.
    """
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise SiteError(f"{place} is a file; name a folder with --out")
    if place.is_dir() and any(place.iterdir()) and not (place / MARK).is_file():
        raise SiteError(f"{place} holds something that is not this page; name another folder with --out")
    files = page_files(runs, live=False)
    contents = {name: content()[0] for name, content in files.items()}
    contents = {MARK: b"Written by `gumdrop explore --out`, which may write it again.\n", **contents}
    for name, content in contents.items():
        with replacing(place / name, "wb") as file:
            file.write(content)
    return place / "index.html"
