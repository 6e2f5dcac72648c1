"""Files that appear whole or not at all."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file beside a path, and move it there once it is whole.

    Where the block fails, the new file is removed, and what was at the path before is still there.

    Args:
        path: Where the file belongs; its folder is made if need be.
        mode: ``"w"`` for text in UTF-8, or ``"wb"``.

    Yields:
        The open file.

    Raises:
        OSError: If the disk is full, or the file cannot be made.

    Example:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp()) / "notes.txt"
        >>> with replacing(place) as file:
        ...     _ = file.write("whole")
        >>> place.read_text()
        'whole'
    """
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f"{place.name}.{os.getpid()}.partial")
    try:
        with partial.open(mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
        partial.replace(place)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        cause = error if isinstance(error, OSError) else error.__context__  # torch.save hides what stopped it
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            words = f"the disk is full, so {place} is not written, and what was there before still is; make room"
            raise OSError(cause.errno, words) from error
        raise
