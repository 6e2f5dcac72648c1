"""The commands of docs/tables.md still say what stands there, but for the numbers."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KINDS = ("activation", "bins", "epochs", "lengthscale", "num members", "pace", "share", "strength", "target scale")
DEPENDS = (
    "made with:",
    "The rate of",
    "No dropout is left",
    "On the ",
    "'progression' is never below 0",
    *(f" {name} " for name in KINDS),
)
"""Lines that depend on the machine, on how long was trained, or on the networks that held-out rows choose."""
VERDICT = re.compile(r"\b(better|worse|may be chance|no more|more)\b")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("tables_page", ROOT / "docs" / "figures" / "tables_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(answer: str) -> list[str]:
    """The words of an answer in alphabetical order: numbers depend on training, and so do orders by number."""
    told = "\n".join(line for line in answer.splitlines() if not line.startswith(DEPENDS))
    told = VERDICT.sub("", told)
    plain = re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?%?|─+", " ", told)
    return sorted(re.findall(r"[^\W\d_]+", plain))


@pytest.mark.slow
def test_commands_of_the_page_say_what_stands_there(script, tmp_path, monkeypatch, undrawn, in_haste) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    script.write_tables(tmp_path)
    again = script.filled(page)
    for (command, stands), (_, said) in zip(script.BLOCK.findall(page), script.BLOCK.findall(again), strict=True):
        assert words(said) == words(stands), command
