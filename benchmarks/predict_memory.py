"""How much memory do predictions of a long table take? `gumdrop predict --stream` on half a million rows and on more.

Run with ``make benchmark-scale``; writes ``docs/results/predict_memory.json``.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stream_memory import write_table

from gumdrop.machine.environment import environment
from gumdrop.machine.files import replacing
from gumdrop_experiments.harness.origin import of_script

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "predict_memory.json"
SIZES = (500_000, 2_500_000)
FIT = "--target y --stream --members 1 --epochs 1 --draws 10 --quiet"


def run(*words: str) -> tuple[float, float, float]:
    """Run a command in a process of its own; give its largest memory (MB), and its processor and wall time (s)."""
    started = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", "from gumdrop.cli.commands import main; main()", *words])
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, "the command failed"
    return usage.ru_maxrss * 1024 / 1e6, usage.ru_utime + usage.ru_stime, time.monotonic() - started


def measure(folder: Path, num_rows: int) -> dict[str, object]:
    """Predict a table of so many rows."""
    table, out = folder / f"{num_rows}.parquet", folder / "out.parquet"
    write_table(table, num_rows)
    if not (folder / "fit").exists():
        run("fit", str(table), *FIT.split(), "--out", str(folder / "fit"))
    memory, processor, wall = run("predict", str(folder / "fit"), str(table), "--stream", "--out", str(out))
    sizes = {"file_megabytes": round(table.stat().st_size / 1e6), "written_megabytes": round(out.stat().st_size / 1e6)}
    out.unlink()
    times = {"processor_seconds": round(processor, 1), "seconds": round(wall, 1)}
    return {"rows": num_rows, **sizes, "largest_memory_megabytes": round(memory), **times}


def main() -> None:
    """Measure both sizes, and write what they took."""
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(Path(folder), size) for size in SIZES]
    for each in results:
        print(each)
    command = "gumdrop predict fit rows.parquet --stream --out out.parquet"
    facts = {
        "command": command,
        "fit": f"gumdrop fit rows.parquet {FIT}",
        "seed": 0,
        "environment": environment(),
        "code": of_script(),
    }
    with replacing(RESULTS) as file:
        file.write(json.dumps({**facts, "cores": os.cpu_count(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
