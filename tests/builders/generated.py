"""The generators of tables and quoted numbers of the documentation, with each table made once."""

import runpy
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "figures"))
import quoted  # noqa: E402


@cache
def generators() -> list[dict]:
    """The modules that fill tables, with each table made once."""
    modules = [
        runpy.run_path(str(ROOT / path))
        for path in ("docs/figures/experiments_page.py", "benchmarks/performance_page.py")
    ]
    for module in modules:
        for tables in module["PAGES"].values():
            tables |= {name: cache(make) for name, make in tables.items()}
    return modules


def filled(page: Path, text: str) -> str:
    """The page as the generators write it."""
    for module in generators():
        if page in module["PAGES"]:
            text = module["filled"](page, text)
    return quoted.filled(text)
