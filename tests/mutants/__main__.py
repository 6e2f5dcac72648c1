"""Plant slips in a copy of the library, one after the other, and tell which of them no test sees.

    PYTHONPATH=tests python -m mutants [--seed N] [--count N] [--rooms ROOM ...] [--again] [--equivalent ID REASON]

Slips are made from the code itself (`slips.py`) and drawn by a seed, which is new each time unless it is given. Each
runs against the tests that cover its line, fastest first, and where these pass against the tests of its room.
``build/mutants/SEED.json`` is written after each; with the same seed a run goes on where it was stopped.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from mutants import warm
from mutants.coverage_map import CoverageMap, coverage_map
from mutants.slips import Slip, drawn
from mutants.tree import BUILD, TREE, copy_tree, digest, planted

SURVIVES, UNCOVERED, LIMIT_REACHED = "SURVIVES", "SURVIVES (no test runs it)", "SURVIVES (time limit)"
START = 2.0  # seconds of a run besides its tests: collection, and import of the library


def batches(names: list[str], seconds: dict[str, float]) -> Iterator[list[str]]:
    """Give tests file by file, those that take least first, in runs of growing numbers of files."""
    files: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: seconds[name]):
        files.setdefault(name.split("::")[0], []).append(name)
    ordered = sorted(files.values(), key=lambda some: sum(seconds[name] for name in some))
    size = 1
    while ordered:
        yield [name for some in ordered[:size] for name in some]
        ordered, size = ordered[size:], 2 * size


def outcome(slip: Slip, tests: CoverageMap, limit: float) -> str:
    """Run the tests of a planted slip, and say how that ends."""
    covering = tests.of(slip)
    others = [name for name in tests.of_room(slip) if name not in set(covering)]
    end = time.monotonic() + limit
    with planted(slip):
        for some in [*batches(covering, tests.seconds), *batches(others, tests.seconds)]:
            if time.monotonic() > end:
                return LIMIT_REACHED
            expected = START + sum(tests.seconds[name] for name in some)
            if found := warm.killed_by(some, 15 + 5 * expected):
                return f"killed by {found}"
    return SURVIVES if covering else UNCOVERED


def show(i: int, entry: dict) -> None:
    """Print one row of the table, and the change below it."""
    found = f"equivalent: {entry['equivalent']}" if entry.get("equivalent") else entry["found"]
    print(f"{i:3} {entry['path'].removeprefix('src/')}:{entry['line']} [{entry['kind']}] {found}")
    print("\n".join(f"      {line}" for line in entry["diff"].splitlines()), flush=True)


def rate(entries: list[dict]) -> str:
    """Sum up."""
    tried = [entry for entry in entries if entry["found"]]
    same = sum(bool(entry.get("equivalent")) for entry in tried)
    alive = sum(entry["found"].startswith("SURVIVES") and not entry.get("equivalent") for entry in tried)
    share = f" ({alive / (len(tried) - same):.0%})" if len(tried) > same else ""
    return (
        f"{alive} of {len(tried) - same} slips survive{share}; {same} equivalent; {len(entries) - len(tried)} not tried"
    )


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Plant slips, and tell which of them no test sees.")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(10**6), help="which slips; new each time"
    )
    parser.add_argument("--count", type=int, default=60, help="number of slips")
    parser.add_argument(
        "--rooms", nargs="+", default=[], help="rooms, or files below src/gumdrop, whose slips are drawn"
    )
    parser.add_argument("--tests", nargs="+", default=[], help="folders of tests that run; all unless given")
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds after which no further tests of a slip start"
    )
    parser.add_argument("--again", action="store_true", help="try those of this seed again that survived")
    parser.add_argument("--equivalent", nargs=2, metavar=("ID", "REASON"), help="set a survivor aside, and say why")
    return parser.parse_args()


def main() -> int:
    """Plant the slips; 1 if one survives."""
    wanted = options()
    file = BUILD / f"{wanted.seed}.json"
    if wanted.equivalent:
        entries = json.loads(file.read_text())
        entries[int(wanted.equivalent[0])]["equivalent"] = wanted.equivalent[1]
    else:
        copy_tree()
        entries = json.loads(file.read_text()) if file.exists() else _new(wanted)
        print(f"seed {wanted.seed}: {len(entries)} slips", flush=True)
        _try(entries, file, wanted)
    file.write_text(json.dumps(entries, indent=1))
    for i, entry in enumerate(entries):
        if entry["found"].startswith("SURVIVES"):
            show(i, entry)
    print(f"seed {wanted.seed}: {rate(entries)}")
    return int(any(entry["found"].startswith("SURVIVES") and not entry.get("equivalent") for entry in entries))


def _new(wanted: argparse.Namespace) -> list[dict]:
    """Draw the slips."""
    paths = [str(path.relative_to(TREE)) for path in (TREE / "src/gumdrop").rglob("*.py")]
    inside = [f"src/gumdrop/{room}".rstrip("/") for room in wanted.rooms]
    chosen = [path for path in paths if not inside or any(path == x or path.startswith(f"{x}/") for x in inside)]
    slips = drawn(TREE, chosen, wanted.seed, wanted.count)
    return [asdict(slip) | {"found": "", "diff": slip.diff((TREE / slip.path).read_bytes())} for slip in slips]


def _try(entries: list[dict], file: Path, wanted: argparse.Namespace) -> None:
    """Try the slips that were not tried, or those that survived."""
    warm.load()
    tests = coverage_map(wanted.tests)
    for i, entry in enumerate(entries):
        if entry["found"] and not (
            wanted.again and entry["found"].startswith("SURVIVES") and not entry.get("equivalent")
        ):
            continue
        slip = Slip(**{name: entry[name] for name in Slip.__dataclass_fields__})
        known = (TREE / slip.path).is_file() and digest(slip.path) == slip.digest
        entry["found"] = outcome(slip, tests, wanted.limit) if known else "gone: its file changed"
        show(i, entry)
        file.write_text(json.dumps(entries, indent=1))


if __name__ == "__main__":
    sys.exit(main())
