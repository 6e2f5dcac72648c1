"""Warnings that point at the caller's line, however deep they are found."""

import sys
import warnings

INNER = ("gumdrop.", "torch.", "contextlib")


def warn(message: str) -> None:
    """Warn at the innermost line that is neither of this library nor of PyTorch."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(INNER):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
