"""Files that appear whole or not at all."""

import contextlib
import errno
import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file beside a path, for text in UTF-8 or with mode "wb" or "w+b", and move it there once it is whole.

    Where the block fails, the new file is removed, and what was at the path before is still there. What a run that was
    killed left of it is removed, too. A folder is made if need be, and removed again where the block fails; a link
    stays, and what it names is replaced. The file is on the disk when the block has ended.

    Yields:
        The open file.

    Example:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp()) / "notes.txt"
        >>> with replacing(place) as file:
        ...     _ = file.write("whole")
        >>> place.read_text()
        'whole'
    """
    check_file(path)
    target = followed(path)
    words = f"the disk is full, so {path} is not written, and what was there before still is; make room"
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    with saying_that_the_disk_is_full(words):
        made = [folder for folder in target.parents if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        try:
            with partial.open(mode, encoding=None if "b" in mode else "utf-8") as file:
                yield file
            sync(partial)  # on the disk before its name is
            partial.replace(target)
            sync(target.parent)
        except BaseException:
            partial.unlink(missing_ok=True)
            for folder in made:
                with contextlib.suppress(OSError):  # somebody else uses it by now
                    folder.rmdir()
            raise


def sync(path: str | os.PathLike[str]) -> None:
    """Wait until a file is on the disk, or the names in a folder are."""
    if os.name != "posix" and Path(path).is_dir():  # which cannot be opened there
        return
    with contextlib.ExitStack() as stack:
        descriptor = os.open(path, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF}:  # of drives that know no such thing
                raise


def _sweep(target: Path) -> None:
    """Remove the parts of a file that processes of this machine began to write, and are no more."""
    if os.name != "posix":  # where asking for a process could end it
        return
    for path in target.parent.glob(f"{glob.escape(target.name)}.*.partial"):
        number = path.name.removeprefix(f"{target.name}.").removesuffix(".partial")
        if (
            number.isascii()
            and number.isdigit()
            and path.is_file()
            and not path.is_symlink()
            and not _runs(int(number))
        ):
            path.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def followed(path: str | os.PathLike[str]) -> Path:
    """The file that a link leads to in the end, so that the link stays when it is replaced; any other path as it is."""
    return Path(os.path.realpath(path)) if Path(path).is_symlink() else Path(path)


def check_file(path: str | os.PathLike[str]) -> None:
    """Refuse to write a file where there is a folder, a device or a pipe, or under a name that is no text."""
    check_name(path)
    target = Path(path)
    if target.exists() and not target.is_file():
        what = "a folder" if target.is_dir() else "a device or a pipe"
        raise FileExistsError(f"{target} is {what}, and not a file that can be replaced; name another one")


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuse a path that is not UTF-8, which settings, results and pages could not name.

    Raises:
        ValueError: If it is not UTF-8.

    Example:
        >>> check_name("café.csv")
    """
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError as error:
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        raise ValueError(f"the name {shown} is not UTF-8, so that no page could name it: rename it") from error


def disk_is_full(error: BaseException | None) -> bool:
    """Whether an error says that no room is left on the disk, or no more is allowed to this user."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def saying_that_the_disk_is_full(words: str) -> Iterator[None]:
    """Say what a full disk leaves, whoever finds it full."""
    try:
        yield
    except Exception as error:
        cause = error if isinstance(error, OSError) else error.__context__  # torch.save hides what stopped it
        if disk_is_full(cause):
            raise OSError(errno.ENOSPC, words) from error
        raise
