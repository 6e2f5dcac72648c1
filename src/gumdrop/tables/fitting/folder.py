"""The folder that a fit leaves: made beside its place, held by one fit at a time, and put there by renaming.

A fit that makes ``OUT`` works in ``OUT.partial``: checkpoints lie there, the folder grows in ``OUT.partial/new``, and
what it replaces goes to ``OUT.partial/old``. So at every moment a whole model is in ``OUT``, or between two renames in
both of these: then it is read from there, and the next fit puts it in place. Nothing is removed but files that a fit
writes.
"""

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from gumdrop.machine.files import check_name, followed, sync
from gumdrop.tables.errors import TableError
from gumdrop.tables.fitting.settings import CONFIG_FILE
from gumdrop.tables.folders import MODEL_FILE, NEW, OLD, working_folder

OWN_FILES = {MODEL_FILE, "model.safetensors", "predictions.csv", "results.json", "report.html", CONFIG_FILE}
"""What a fit leaves; a folder with anything else in it is never removed."""
LOCK = "fit.lock"
CHECKPOINT = re.compile(r"(learned|brief|short|fixed|plain)(-\d+)?\.checkpoint")
PART = re.compile(r"\.\d+\.partial$")  # the end of a name that `gumdrop.machine.files.replacing` writes under


def check_out(out: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Refuse a folder that `held_folder` would refuse, as far as that can be told without holding it."""
    final = followed(out)
    _check_place(final)
    _check_free(working_folder(final), final, overwrite)


@contextlib.contextmanager
def held_folder(out: str | os.PathLike[str], *, overwrite: bool, notify: Callable[[str], object]) -> Iterator[Path]:
    """Hold ``OUT.partial``, which ends with the process, with an empty folder `NEW` in it; mend what a kill left."""
    final = followed(out)
    _check_place(final)
    work = working_folder(final)
    if _is_no_folder(work):
        raise TableError(f"{work} is no folder, and a fit works in one of this name: rename it, or change --out")
    with _alone(work, final, notify):
        try:
            _mend(work, final, notify)
            for folder in (work / OLD, work / NEW):
                _refuse_strange(folder)
            _check_free(work, final, overwrite)
            (work / NEW).mkdir()
            yield work
        finally:
            _mend(work, final, notify)


def put_in_place(work: Path, out: str | os.PathLike[str], *, overwrite: bool, keep_checkpoints: bool) -> None:
    """Make a whole folder visible; checkpoints of a stopped run stay where the next looks for them."""
    final = followed(out)
    for path in (*(work / NEW).iterdir(), work / NEW):  # on the disk before its name is
        sync(path)
    try:
        _check_free(work, final, overwrite)
        _refuse_strange(work / NEW)
    except TableError as error:
        raise TableError(f"{error}; it came there during this fit, and {work} keeps what was trained") from error
    if final.exists():
        final.rename(work / OLD)
    (work / NEW).rename(final)
    for folder in (work, final.parent):
        sync(folder)
    _remove(work / OLD)
    if not keep_checkpoints:
        forget_training(work)


def forget_training(work: Path) -> None:
    """Remove the checkpoints of an earlier fit."""
    for path in work.iterdir():
        if CHECKPOINT.fullmatch(path.name) and _is_plain(path):
            path.unlink()


@contextlib.contextmanager
def _alone(work: Path, final: Path, notify: Callable[[str], object]) -> Iterator[None]:
    """Keep other fits out of a folder; it is gone afterwards if nothing is left in it."""
    lock = FileLock(work / LOCK)
    try:
        _acquire(lock, work)
    except Timeout as error:
        raise TableError(
            f"another fit is at work on {final}: wait until it is done, or name another folder with --out"
        ) from error
    except OSError as error:
        if error.errno not in {errno.ENOLCK, errno.EOPNOTSUPP}:
            raise
        notify(f"the drive of {final} has no locks: see to it that no other fit writes to this folder")
    try:
        yield
    finally:
        (work / LOCK).unlink(missing_ok=True)  # while it is held: whoever waits for it starts again
        lock.release()
        with contextlib.suppress(OSError):
            work.rmdir()


def _acquire(lock: FileLock, work: Path) -> None:
    """Take a lock in a folder, which goes with the fit before, perhaps just now."""
    while not lock.is_locked:
        with contextlib.suppress(FileExistsError):
            work.mkdir()
        with contextlib.suppress(FileNotFoundError):
            lock.acquire(timeout=0.5)  # for a fit that is just leaving


def _mend(work: Path, final: Path, notify: Callable[[str], object]) -> None:
    """Put a whole folder where it belongs, and remove what was half-written."""
    new, old = work / NEW, work / OLD
    if old.exists() and not final.exists():  # it was moved when the new one was whole
        (new if new.exists() else old).rename(final)
        notify(f"{final} is what the last fit had made when it was killed: its files were whole")
    _remove(old)
    _remove(new)
    for path in work.iterdir():
        if PART.search(path.name) and CHECKPOINT.fullmatch(PART.sub("", path.name)) and _is_plain(path):
            path.unlink()


def _check_place(final: Path) -> None:
    """Refuse what cannot be a folder that a fit makes."""
    check_name(final)
    if not final.name:
        raise TableError(f"--out must name a new folder, got {str(final)!r}")
    if not final.parent.is_dir():
        raise TableError(f"there is no folder {final.parent} to make {final.name} in; make it, or correct --out")
    if _is_no_folder(final):
        what = "a file" if final.is_file() else "a device or a pipe"
        raise TableError(f"{final} is {what}, and a fit makes a folder; name another one with --out")
    if final.is_mount():
        raise TableError(
            f"{final} is where a drive is mounted, so it cannot be replaced; name a folder in it with --out"
        )


def _check_free(work: Path, final: Path, overwrite: bool) -> None:
    """Refuse to replace a folder that would be lost."""
    if not final.exists():
        return
    _check_place(final)
    begun = any(CHECKPOINT.fullmatch(path.name) for path in work.iterdir()) if work.is_dir() else False
    stopped = begun and _was_stopped(final)
    if not overwrite and not stopped:
        raise TableError(f"{final} exists already; name another folder with --out, or add --overwrite")
    _refuse_strange(final)


def _was_stopped(final: Path) -> bool:
    try:
        return bool(json.loads((final / "results.json").read_text(encoding="utf-8"))["stopped"])
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _refuse_strange(folder: Path) -> None:
    strange = sorted(path.name for path in folder.iterdir() if not _is_own(path)) if folder.exists() else []
    if strange:
        raise TableError(f"{folder} holds {strange[0]!r}, which gumdrop did not make, so it is not replaced; see --out")


def _remove(folder: Path) -> None:
    """Remove a folder that a fit made, but for what somebody else put into it."""
    if not folder.exists():
        return
    for path in folder.iterdir():
        if _is_own(path):
            path.unlink()
    with contextlib.suppress(OSError):  # not empty
        folder.rmdir()


def _is_own(path: Path) -> bool:
    return PART.sub("", path.name) in OWN_FILES and _is_plain(path)


def _is_no_folder(path: Path) -> bool:
    """Whether there is something else, by one look: another fit may remove a folder between two."""
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        return False


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
