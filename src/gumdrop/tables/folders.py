"""Where the model of a folder is."""

import os
from collections.abc import Callable
from pathlib import Path

from gumdrop.machine.files import followed
from gumdrop.machine.notes import warn
from gumdrop.tables.errors import TableError

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
    if not (work / OLD).is_dir():
        return Path(out)
    whole = work / (NEW if (work / NEW).is_dir() else OLD)
    notify(f"{out} is not there, as the last fit was killed while it put the model there: read from {whole}, which "
           "the next `gumdrop fit` of that folder puts in place")  # fmt: skip
    return whole


def model_folder(out: str | os.PathLike[str], notify: Callable[[str], object] = warn) -> Path:
    """Find the folder of a model, see `whole_folder`."""
    whole = whole_folder(out, notify)
    if not (whole / MODEL_FILE).is_file():
        raise TableError(f"{whole} holds no {MODEL_FILE}; name a folder that `gumdrop fit` wrote")
    return whole
