"""What every reader of tables says when one cannot be used."""

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence

MISSING = ""
"""The label of missing cells; no cell that holds something has it."""
STDIN = "-"
"""The name of standard input."""
MEND = "Correct it or leave the cell blank"
"""How a note on a number ends that may spoil all that was learned, so that a page can say it first."""


ABOVE_THE_HEADER = "remove the lines above the header, such as '# comment'"


class TableError(ValueError):
    """A table that cannot be used as asked; the message says which column and what to do."""


def is_unnamed(name: str) -> bool:
    """Return whether a reader called a column so, as it has no name."""
    return name.startswith("Unnamed: ")


def check_unique(names: Sequence[str]) -> None:
    """Refuse column names that occur twice."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"the table has several columns named {listed(repeated)}: rename or remove them")


def check_present(columns: Iterable[object], names: Sequence[str]) -> None:
    """Refuse a table that lacks columns, with the names that were perhaps meant."""
    have = list(map(str, columns))
    check_unique([name for name in have if name in names])
    absent = [name for name in names if name not in have]
    if absent:
        folded = {name.casefold(): name for name in have if name not in names}
        close = {n: [folded[m] for m in difflib.get_close_matches(n.casefold(), folded)] for n in absent}
        said = [repr(n) + (f" (did you mean {' or '.join(close[n])}?)" if close[n] else "") for n in absent]
        numbers = all(name.replace(".", "").replace("-", "").isdigit() for name in have)
        hint = "; is its first line, the names of the columns, absent?" if numbers else ""
        hint = f"; {ABOVE_THE_HEADER}" if have and have[0].startswith("#") else hint
        raise TableError(f"the table has no column {listed(said)}; its columns are: {listed(have)}{hint}")


def listed(words: Sequence[str]) -> str:
    """Enumerate words, of many the first twenty."""
    return ", ".join(words[:20]) + (f", ... ({len(words)} in all)" if len(words) > 20 else "")
