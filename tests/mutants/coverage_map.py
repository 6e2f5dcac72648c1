"""The tests that run a line of the library, in a file for each file of tests; made again where what it runs changed."""

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from mutants import warm
from mutants.slips import Slip
from mutants.tree import BUILD, TREE, digest

MAPS = BUILD / "map"
LIMIT = 1800.0  # seconds for all tests of one file


def _names(pattern: str, folder: str) -> list[str]:
    return sorted(str(path.relative_to(TREE)) for path in (TREE / folder).rglob(pattern))


def units(folders: list[str]) -> dict[str, list[str]]:
    """Name what is run at once: each file of tests, and the examples of the docstrings of each room."""
    files = [name for name in _names("test_*.py", "tests") if not folders or name.split("/")[1] in folders]
    rooms = sorted(
        path for path in (TREE / "src/gumdrop").iterdir() if path.is_dir() and path.name in (folders or [path.name])
    )
    examples = {
        str(room.relative_to(TREE)): [n for n in _names("*.py", str(room)) if ">>> " in (TREE / n).read_text()]
        for room in rooms
    }
    return {name: [name] for name in files} | {name: paths for name, paths in examples.items() if paths}


@dataclass
class CoverageMap:
    """Tests with their seconds, by file, and the tests of each line."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))

    def add(self, unit: str, made: dict) -> None:
        """Take in what was noted for one unit."""
        tests = made["tests"]
        self.seconds |= zip(tests, made["seconds"], strict=True)
        for path, by_line in made["lines"].items():
            for line, numbers in by_line.items():
                shared = set(tests) if -1 in numbers else set()
                self.lines[path][int(line)] |= shared | {tests[i] for i in numbers if i >= 0}

    def of(self, slip: Slip) -> list[str]:
        """Name the tests that run the line of a slip, or, of a line that only an import runs, any line of its file."""
        by_line = self.lines.get(slip.path, {})
        return sorted(by_line.get(slip.line) or set().union(*by_line.values()))

    def of_room(self, slip: Slip) -> list[str]:
        """Name the tests of the room of a slip."""
        room = slip.path.split("/")[2]
        return [name for name in self.seconds if name.startswith((f"tests/{room}/", f"src/gumdrop/{room}/"))]


def coverage_map(folders: list[str]) -> CoverageMap:
    """Read the map, and make those of its parts that are missing or old."""
    MAPS.mkdir(parents=True, exist_ok=True)
    shared, builders = _names("conftest.py", "tests"), _names("*.py", "tests/builders")
    library = {name: digest(name) for name in _names("*.py", "src/gumdrop")}
    whole = CoverageMap()
    for unit, paths in units(folders).items():
        file = MAPS / f"{unit.replace('/', '.')}.json"
        words = set(re.findall(r"\w+", " ".join((TREE / name).read_text() for name in paths)))
        own = [*paths, *shared, *(name for name in builders if Path(name).stem in words)]
        digests = library | {name: digest(name) for name in own}
        made = json.loads(file.read_text()) if file.exists() else None
        if not made or any(digest(name) != made["digests"].get(name) for name in [*own, *made["lines"]]):
            print(f"what {unit} covers", flush=True)
            file.unlink(missing_ok=True)
            if not warm.cover(paths, file, digests, LIMIT):
                print(f"{unit}: no map (see {BUILD / 'output.txt'})", flush=True)
                continue
            made = json.loads(file.read_text())
        whole.add(unit, made)
    return whole
