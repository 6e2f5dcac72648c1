"""How much memory does a table take that is read in pieces? `gumdrop fit --stream` on a million rows and on ten.

Run with ``make benchmark-scale``; writes ``docs/results/stream_memory.json``.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gumdrop.machine.environment import environment
from gumdrop_experiments.harness.origin import of_script

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "stream_memory.json"
SIZES = (1_000_000, 10_000_000)
AT_ONCE, GROUP = 500_000, 125_000


def write_table(place: Path, num_rows: int, seed: int = 0) -> None:
    """Write eight columns of numbers, one of five words, and a target whose noise depends on a column."""
    rng, writer = np.random.default_rng(seed), None
    for _ in range(0, num_rows, AT_ONCE):
        x = rng.normal(size=(AT_ONCE, 8)).astype(np.float32)
        word = rng.integers(0, 5, AT_ONCE)
        noise = rng.normal(size=AT_ONCE) * (0.1 + 0.1 * np.abs(x[:, 2]))
        columns = {f"x{i}": x[:, i] for i in range(8)} | {"word": np.array(["a", "b", "c", "d", "e"])[word]}
        rows = pa.table(columns | {"y": np.sin(x[:, 0]) + 0.5 * x[:, 1] + 0.2 * word + noise})
        writer = writer or pq.ParquetWriter(place, rows.schema)
        writer.write_table(rows, row_group_size=GROUP)
    assert writer is not None
    writer.close()


def measure(num_rows: int) -> dict[str, object]:
    """Fit one network to a table of so many rows, in a process of its own; give its largest memory."""
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "rows.parquet", Path(folder) / "fit"
        write_table(table, num_rows)
        words = ["fit", str(table), "--target", "y", "--stream", "--members", "1", "--epochs", "1", "--out", str(out)]
        started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-c", "from gumdrop.cli.commands import main; main()", *words, "--quiet"]
        )
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0, "the fit failed"
        results = json.loads((out / "results.json").read_text())
        return {
            "rows": num_rows,
            "file_megabytes": round(table.stat().st_size / 1e6),
            "largest_memory_megabytes": round(usage.ru_maxrss * 1024 / 1e6),
            "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
            "seconds": round(time.monotonic() - started, 1),
            "log_likelihood": results["scores"][0]["values"]["log likelihood"],
        }


def main() -> None:
    """Measure both sizes, and write what they took."""
    results = [measure(size) for size in SIZES]
    for each in results:
        print(each)
    command = "gumdrop fit rows.parquet --target y --stream --members 1 --epochs 1"
    contents = {
        "command": command,
        "seed": 0,
        "environment": environment(),
        "code": of_script(),
        "cores": os.cpu_count(),
        "results": results,
    }
    RESULTS.write_text(json.dumps(contents, indent=1) + "\n")


if __name__ == "__main__":
    main()
