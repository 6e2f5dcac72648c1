"""Files from their official sources, checked, in the user's cache."""

import hashlib
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from gumdrop.machine.files import disk_is_full, replacing

TIMEOUT = 30.0
"""Seconds without an answer after which a source counts as out of reach."""


class DownloadError(OSError):
    """Files that no source gave; the message says what each answered, and where to put the files by hand."""


class RemoteFile(NamedTuple):
    """A file that can be had from one or several places."""

    name: str
    urls: tuple[str, ...]
    """Where it is, to be tried in turn."""
    sha256: str | None
    """Checksum of its content; None for a record that grows, whose reader must check what it reads."""


def cache_folder() -> Path:
    """Find the folder for downloaded data: ``$XDG_CACHE_HOME/gumdrop``, else ``~/.cache/gumdrop``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gumdrop"


def fetch(
    files: Sequence[RemoteFile], folder: str | os.PathLike[str], *, notify: Callable[[str], object] = print
) -> None:
    """Download files that a folder lacks. A file appears whole and with the right checksum, or not at all.

    Example:
        >>> import tempfile
        >>> source = Path(tempfile.mkdtemp()) / "a.txt"
        >>> _ = source.write_text("ten words")
        >>> folder = Path(tempfile.mkdtemp())
        >>> fetch([RemoteFile("b.txt", (source.as_uri(),), sha256_of(source))], folder, notify=lambda note: None)
        >>> (folder / "b.txt").read_text()
        'ten words'
    """
    root = Path(folder)
    for file in files:
        if not (root / file.name).is_file():
            _fetch_one(file, root, notify)


def _fetch_one(file: RemoteFile, folder: Path, notify: Callable[[str], object]) -> None:
    answers = []
    for url in file.urls:
        notify(f"{file.name} <- {url}")
        try:
            with replacing(folder / file.name, "wb") as target:
                with urllib.request.urlopen(url, timeout=TIMEOUT) as source:
                    shutil.copyfileobj(source, target)
                target.flush()
                checksum = sha256_of(target.name)
                if file.sha256 not in (None, checksum):
                    raise DownloadError(f"another file than it should be (sha256 {checksum}, wanted {file.sha256})")
        except (OSError, HTTPException, ValueError) as error:
            if disk_is_full(error):  # which no other address can help
                raise
            answers.append(f"{url}: {error.reason if isinstance(error, urllib.error.URLError) else error}")
        else:
            return
    raise DownloadError(
        f"{file.name} could not be downloaded ({'; '.join(answers)}). Try again with a connection, put the file into "
        f"{folder} by hand, or name a folder that has it with --data"
    )


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Compute the checksum of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
