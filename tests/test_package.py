"""What is installed holds all that the code reads."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_files_beside_the_code_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for package, patterns in project["tool"]["setuptools"]["package-data"].items():
        folder = ROOT / "src" / package
        there = {path for path in folder.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
        assert there == {path for pattern in patterns for path in folder.glob(pattern)}
