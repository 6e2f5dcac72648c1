"""Files that appear whole or not at all."""

import contextlib
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
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
