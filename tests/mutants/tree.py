"""A copy of the tree in which slips are planted, so that the tree itself is never touched."""

import contextlib
import hashlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mutants.slips import Slip

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build/mutants"
TREE = BUILD / "tree"
_times = itertools.count(1)


def copy_tree() -> None:
    """Make the copy what the tree is: tracked files, and those that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = {
        name for name in subprocess.check_output(command, cwd=ROOT, text=True).split("\0") if (ROOT / name).is_file()
    }
    for name in names:
        old, new = ROOT / name, TREE / name
        if (
            not new.exists()
            or new.stat().st_mtime_ns != old.stat().st_mtime_ns
            or new.stat().st_size != old.stat().st_size
        ):
            new.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(old, new)
    for path in [path for path in TREE.rglob("*.py") if str(path.relative_to(TREE)) not in names]:
        path.unlink()


def digest(name: str) -> str:
    """Give a short name of what a file of the copy holds."""
    path = TREE / name
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


@contextlib.contextmanager
def planted(slip: Slip) -> Iterator[None]:
    """Plant a slip for a while, at a time of its own, so that no compiled file of another text is taken for its own."""
    path = TREE / slip.path
    source, times = path.read_bytes(), path.stat()
    path.write_bytes(slip.apply(source))
    os.utime(path, (next(_times), 0))
    try:
        yield
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
