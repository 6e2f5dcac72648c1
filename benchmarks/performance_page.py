"""Fill the tables of ``docs/performance.md`` from the results files, between ``<!-- name -->`` and ``<!-- end -->``.

Run with ``make performance-page``.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gumdrop.atomic import replacing

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"


def rows_of(name: str) -> list[dict[str, Any]]:
    """Rows of a results file."""
    return json.loads((DOCS / "results" / f"{name}.json").read_text(encoding="utf-8"))["results"]


def table(header: list[str], rows: list[list[str]]) -> str:
    """Lay out a table in Markdown, numbers to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(row: dict[str, Any] | None) -> str:
    """A ratio with its quartiles."""
    if row is None:
        return ""
    low, high = row["ratio_quartiles"]
    return f"{row['ratio']:.2f} ({low:.2f}-{high:.2f})"


def compared(name: str, keys: dict[str, Callable[[Any], str]], reference: str, rivals: list[str]) -> str:
    """One line for each case of a results file: the time of the reference, and ratios to it."""
    cases: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for row in rows_of(name):
        cases.setdefault(tuple(show(row[key]) for key, show in keys.items()), {})[row["what"]] = row
    header = [*keys, f"{reference}, ms", *rivals]
    lines = []
    for case, mine in cases.items():
        lines.append([*case, f"{mine[reference]['median_ms']:.3g}", *(spread(mine.get(rival)) for rival in rivals)])
    return table(header, lines)


def mode(compiled: bool) -> str:
    """Name a way to run."""
    return "compiled" if compiled else "eager"


def sites() -> str:
    """Table of one site."""
    keys = {"shape": str, "dtype": str, "compiled": mode, "threads": str}
    rivals = ["gumdrop", "nn.Dropout2d", "formula of the paper", "concretedropout"]
    return compared("speed_sites", keys, "nn.Dropout", rivals)


def steps() -> str:
    """Table of whole training steps."""
    keys = {"network": str, "on_input": lambda on: "yes" if on else "no", "compiled": mode, "threads": str}
    return compared("speed_steps", keys, "fixed", ["gumdrop", "no dropout", "concretedropout"])


def kept() -> str:
    """Table of bytes kept for backward."""
    lines = []
    for row in rows_of("speed_kept"):
        what = f"{row['site']}, {row['dtype']}" if "site" in row else row["network"]
        fixed = row["nn.Dropout"] if "site" in row else row["fixed"]
        peer = row.get("formula of the paper", row.get("concretedropout"))
        others = [f"{each / fixed:.2f}" if each is not None else "" for each in (row["gumdrop"], peer)]
        lines.append([what, f"{fixed / 2**20:.2f}", *others])
    return table(["", "fixed dropout, MiB", "gumdrop", "formula of the paper, or concretedropout"], lines)


TABLES: dict[str, Callable[[], str]] = {"sites": sites, "steps": steps, "kept": kept}


def filled(text: str) -> str:
    """Put each table in its place."""
    for name, make in TABLES.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = pattern.subn(lambda match, make=make: f"{match[1]}\n{make()}\n\n{match[2]}", text)
        if count != 1:
            raise ValueError(f"{PAGE.name} must have one place for the table {name!r}, got {count}")
    return text


def main() -> None:
    """Write the page."""
    text = filled(PAGE.read_text(encoding="utf-8"))
    with replacing(PAGE) as file:
        file.write(text)


if __name__ == "__main__":
    main()
