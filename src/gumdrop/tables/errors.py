"""What every reader of tables says when one cannot be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

__all__ = ["MISSING", "STDIN", "TableError", "check_unique", "listed"]


MISSING = ""
"""The label of missing cells; no cell that holds something has it."""
STDIN = "-"
"""The name of standard input."""


class TableError(ValueError):
    """A table that cannot be used as asked; the message says which column and what to do."""


def check_unique(names: Sequence[str]) -> None:
    """Refuse column names that occur twice."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"the table has several columns named {listed(repeated)}: rename or remove them")


def listed(words: Sequence[str]) -> str:
    """Enumerate words, of many the first twenty."""
    return ", ".join(words[:20]) + (f", ... ({len(words)} in all)" if len(words) > 20 else "")
