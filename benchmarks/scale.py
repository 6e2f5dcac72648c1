"""What do more processes cost and bring? Steps of a network on 1, 2 and 4 processes, and sums of gradients among them.

Every process computes with one thread. Where a machine has other work, wall time says more about that work than about
this, so the processor time of all processes together is given as well: what they spend beyond one process is the price
of working together.
Run with ``make benchmark-scale``; writes ``docs/results/scale.json``.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

from gumdrop.machine.environment import environment
from gumdrop.networks import mlp
from gumdrop.training import fit
from gumdrop.training.processes import ProcessGroup, process_group
from gumdrop_experiments.harness.origin import of_script

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "scale.json"
PROCESSES = (1, 2, 4)
WIDTH, NUM_INPUTS, BATCH, STEPS, REPEATS = 256, 64, 4096, 12, 4
SUMMED = (1, 1_000, 100_000, 1_000_000)
MACHINES = (2, 8, 64, 256)
ASSUMED = {
    "25 million parameters, 10 Gbit/s": {
        "step_ms": 200.0,
        "parameters": 25_000_000,
        "latency_ms": 0.05,
        "bytes_per_ms": 1.25e6,
    },
    "25 million parameters, 100 Gbit/s": {
        "step_ms": 200.0,
        "parameters": 25_000_000,
        "latency_ms": 0.01,
        "bytes_per_ms": 1.25e7,
    },
}
"""Nominal networks between machines, and a step that takes each of them a fifth of a second."""


def train_times() -> list[dict[str, float]]:
    """Wall time of a step, and processor time over all processes, in ms."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH * STEPS, NUM_INPUTS, generator=generator)
    y = x[:, :1].sin()
    found = []
    for _ in range(REPEATS + 1):
        torch.manual_seed(0)
        model = mlp(NUM_INPUTS, 2, hidden=(WIDTH, WIDTH))
        wall, busy = time.perf_counter(), time.process_time()
        fit(model, (x, y), likelihood="gaussian", epochs=1, batch_size=BATCH)
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
        total = sum(process_group().gather(busy))
        found.append({"wall_ms": 1e3 * wall / STEPS, "processor_ms": 1e3 * total / STEPS})
    return found[1:]  # the first warms up


def sum_times(group: ProcessGroup) -> dict[int, float]:
    """Median wall time of a sum of so many float32 numbers over the processes, in ms."""
    found = {}
    for count in SUMMED if group.world_size > 1 else ():
        tensor, times = torch.ones(count), []
        for _ in range(20):
            start = time.perf_counter()
            dist.all_reduce(tensor)
            times.append(1e3 * (time.perf_counter() - start))
        found[count] = statistics.median(times)
    return found


def cost_model(step_ms: float, parameters: int, latency_ms: float, bytes_per_ms: float) -> dict[str, float]:
    """Share of the time that is computing, on so many machines, each with a batch of its own of the same size.

    A ring sends 2 (P - 1) / P of the gradients' bytes over the slowest link in 2 (P - 1) messages, here one after the
    other with computing; that the two overlap can only make it better.

    Args:
        step_ms: Time of a step of one machine alone.
        parameters: Numbers whose gradients are averaged, of four bytes.
        latency_ms: Time of a message that holds nothing.
        bytes_per_ms: Rate of the slowest link.

    Returns:
        The share, by the number of machines.
    """
    shares = {}
    for machines in MACHINES:
        sent = 2 * (machines - 1) / machines * 4 * parameters / bytes_per_ms + 2 * (machines - 1) * latency_ms
        shares[str(machines)] = step_ms / (step_ms + sent)
    return shares


def work(place: Path) -> None:
    """What each process does."""
    torch.set_num_threads(1)
    times = train_times()
    sums = sum_times(process_group())
    if process_group().is_first:
        place.write_text(json.dumps({"train": times, "sums": sums}))


def main() -> None:
    """Run the processes, and write what they took."""
    load, results = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory() as folder:
        for count in PROCESSES:
            place = Path(folder) / "found.json"
            call = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
            subprocess.run([*call, __file__, str(place)], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            found = json.loads(place.read_text())
            best = {name: min(each[name] for each in found["train"]) for name in found["train"][0]}
            results.append({"processes": count, **best, "repeats": found["train"], "sums_ms": found["sums"]})
    alone = results[0]
    for each in results:
        each["speed"] = alone["wall_ms"] / each["wall_ms"]
        each["efficiency"] = each["speed"] / each["processes"]
        each["useful_share"] = alone["processor_ms"] / each["processor_ms"]
        print({name: round(value, 3) for name, value in each.items() if isinstance(value, (int, float))})
    network = {"inputs": NUM_INPUTS, "hidden": [WIDTH, WIDTH], "batch": BATCH}
    parameters = sum(parameter.numel() for parameter in mlp(NUM_INPUTS, 2, hidden=(WIDTH, WIDTH)).parameters())
    contents = {
        "command": "make benchmark-scale",
        "seed": 0,
        "environment": environment(),
        "code": of_script(),
        "cores": os.cpu_count(),
        "load_before": load,
        "network": network | {"parameters": parameters},
        "results": results,
    }
    sums = {int(count): value for count, value in results[-1]["sums_ms"].items()}
    ring = 2 * (PROCESSES[-1] - 1)
    latency = sums[1] / ring
    rate = ring / PROCESSES[-1] * 4 * SUMMED[-1] / max(sums[SUMMED[-1]] - sums[1], 1e-9)
    # One thread computes: on a machine without other work, a step takes as long as its processor time.
    measured = {"step_ms": alone["processor_ms"], "parameters": parameters, "latency_ms": latency, "bytes_per_ms": rate}
    cases = {"this network, these cores": measured} | ASSUMED
    contents["model"] = {name: {**case, "share": cost_model(**case)} for name, case in cases.items()}  # type: ignore[arg-type]
    RESULTS.write_text(json.dumps(contents, indent=1) + "\n")


if __name__ == "__main__":
    work(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
