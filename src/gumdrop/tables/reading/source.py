"""Where a table is read from: a file, or the bytes of standard input; plain or gzipped."""

import contextlib
import gzip
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

GZIP, PARQUET, ZIP = b"\x1f\x8b", b"PAR1", b"PK\x03\x04"
"""How files of these kinds begin."""


def first_bytes(source: Path | bytes) -> bytes:
    """The four bytes that tell the kind of a file."""
    if isinstance(source, bytes):
        return source[:4]
    with source.open("rb") as file:
        return file.read(4)


@contextlib.contextmanager
def opened(source: Path | bytes) -> Iterator[TextIO]:
    """Open text, gzipped or not."""
    gzipped = first_bytes(source).startswith(GZIP)
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(io.BytesIO(source) if isinstance(source, bytes) else source.open("rb"))
        file: Any = stack.enter_context(gzip.open(raw)) if gzipped else raw
        yield stack.enter_context(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""))


def sha256(source: Path | bytes) -> str:
    """Checksum of a file."""
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
