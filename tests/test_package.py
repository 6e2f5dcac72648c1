"""What is installed holds all that the code reads, and what describes the package agrees with itself."""

import re
import tomllib
from pathlib import Path

from gumdrop.machine.version import VERSION

ROOT = Path(__file__).parents[1]


def test_files_beside_the_code_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for package, patterns in project["tool"]["setuptools"]["package-data"].items():
        folder = ROOT / "src" / package
        there = {path for path in folder.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
        assert there == {path for pattern in patterns for path in folder.glob(pattern)}


def test_the_version_is_that_of_the_citation_and_of_the_newest_changes() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == VERSION
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changes, re.MULTILINE)[1] == VERSION


def test_the_lowest_versions_are_those_that_the_package_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    tested = set(extras) - {"adapters", "dev", "docs", "export", "mcmc", "rivals", "surrogates", "survival"}
    declared = set(project["dependencies"]).union(*(extras[name] for name in tested))
    bounds = {re.match(r"([\w-]+)>=([\d.]+)", each) for each in declared if not each.startswith("gumdrop[")}
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(line for line in lines if not line.startswith("#")) == sorted(f"{b[1]}=={b[2]}" for b in bounds)
