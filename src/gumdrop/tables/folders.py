"""Where the model of a folder is."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gumdrop.machine.files import check_name, followed
from gumdrop.machine.notes import warn
from gumdrop.tables.errors import TableError

T = TypeVar("T")
WAITS, WAIT = 20, 0.005
"""How often, and after how many seconds each, a folder is looked for that a fit is about to put in place."""
MODEL_FILE = "model.json"
NEW, OLD = "new", "old"
"""Folders of the one that a fit works in: where its own grows, and what that replaces."""


def working_folder(path: Path) -> Path:
    """Name the folder that a fit works in."""
    return path.with_name(path.name + ".partial")


def whole_folder(out: str | os.PathLike[str], notify: Callable[[str], object] = warn) -> Path:
    """Find the folder that a fit left, also where it was killed between the two renames that replace it."""
    path = followed(out)
    if path.exists() or not path.name:
        return Path(out)
    work = working_folder(path)
    for _ in range(WAITS):  # a fit that lives is between its two renames for some microseconds
        if path.exists() or not (work / OLD).is_dir():
            return Path(out)
        time.sleep(WAIT)
    whole = work / (NEW if (work / NEW).is_dir() else OLD)
    notify(f"{out} is not there, as the last fit was killed while it put the model there: read from {whole}, which "
           "the next `gumdrop fit` of that folder puts in place")  # fmt: skip
    return whole


def steady(out: str | os.PathLike[str], read: Callable[[Path], T]) -> T:
    """Return what is read of a model's folder; a fit that replaces the folder meanwhile makes it be read again.

    Args:
        out: The folder.
        read: Reads several of its files; called with the folder that is whole.
    """
    while True:
        before = _identity(out)
        try:
            found, error = read(model_folder(out)), None
        except (TableError, OSError) as each:
            found, error = None, each
        if _identity(out) == before:
            if error is not None:
                raise error
            return found  # type: ignore[return-value]


def _identity(out: str | os.PathLike[str]) -> tuple[int, ...] | None:
    """Tell one description of a model from another in its place; None where there is none."""
    try:
        found = (Path(out) / MODEL_FILE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def model_folder(out: str | os.PathLike[str], notify: Callable[[str], object] = warn) -> Path:
    """Find the folder of a model, see `whole_folder`."""
    check_name(out)
    whole = whole_folder(out, notify)
    if not (whole / MODEL_FILE).is_file():
        raise TableError(f"{whole} holds no {MODEL_FILE}; name a folder that `gumdrop fit` wrote")
    return whole
