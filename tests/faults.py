"""Plant faults in a copy of the library, one after the other, and tell which of them no test sees.

    python tests/faults.py [--only N ...]

`faults.toml` beside this file lists them: a file of ``src/gumdrop``, a snippet that occurs in it once, what takes its
place, what goes wrong by that for a user, and the tests that are to see it. The tree itself is never touched.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).parents[1]
CAUGHT, SURVIVES, NOT_FOUND, BROKEN = "caught", "SURVIVES", "snippet not found", "TESTS DO NOT RUN"


class Fault(TypedDict):
    """One entry of the list."""

    path: str
    old: str
    new: str
    says: str
    tests: list[str]


def planted(fault: Fault, source: Path) -> bool:
    """Put a fault into a copy of the sources; False where its snippet does not occur exactly once."""
    file = source / "gumdrop" / fault["path"]
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    if text.count(fault["old"]) != 1:
        return False
    file.write_text(text.replace(fault["old"], fault["new"]), encoding="utf-8")
    return True


def outcome(fault: Fault) -> str:
    """Run the tests of a fault with a copy of the sources that has it, and say how that ends."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        if not planted(fault, source):
            return NOT_FOUND
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-m", "", *fault["tests"]]
        environment = {"OMP_NUM_THREADS": "1"} | os.environ | {"PYTHONPATH": str(source)}
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    by = [line.split(" - ")[0] for line in run.stdout.splitlines() if line.startswith("FAILED ")]
    if run.returncode == 1 and by:  # the other codes, and errors, are of tests that did not run
        return f"{CAUGHT} by {by[0].removeprefix('FAILED ')}"
    return SURVIVES if run.returncode == 0 else BROKEN


def main() -> int:
    """Plant the faults; 1 if a test is missing."""
    parser = argparse.ArgumentParser(description="Plant faults, and tell which of them no test sees.")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="numbers of faults, from 1")
    wanted = parser.parse_args().only
    faults: list[Fault] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["fault"]
    numbered = {i: fault for i, fault in enumerate(faults, 1) if not wanted or i in wanted}
    count = 0
    for i, fault in numbered.items():
        found = outcome(fault)
        count += found.startswith(CAUGHT)
        print(f"{i:3} {found}: {fault['path']}: {fault['says']}", flush=True)
    print(f"{count} of {len(numbered)} faults caught")
    return int(count < len(numbered))


if __name__ == "__main__":
    sys.exit(main())
