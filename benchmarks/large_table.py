"""A large table: time of an epoch against plain torch, and memory against that of the table itself.

An epoch of the estimator, as it comes and with one member, is timed in turns with an epoch of the same networks in
plain torch, once with `nn.Dropout` in the places where ours is learned and once without any. Each ratio is the median
over rounds. Memory is the peak of a process that fits, less that of one that holds the table and has the same libraries
loaded. Run with ``make benchmark-table``; writes ``docs/results/large_table.json``.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.ensembles import schedule
from gumdrop.estimators import ConcreteDropoutClassifier, ConcreteDropoutRegressor
from gumdrop.machine.environment import environment
from gumdrop.machine.files import replacing
from gumdrop_experiments.harness.origin import of_script

COLUMNS = 50
HIDDEN = 50
MEMBERS = 5
TIMED_ROWS = 200_000
"""Of these an epoch is timed; it takes as many steps as there are batches of 1,024."""
RESULTS = Path(__file__).parents[1] / "docs" / "results" / "large_table.json"


def table(num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw a table in float32, without a copy of it in float64."""
    random = np.random.default_rng(0)
    x = random.standard_normal((num_rows, COLUMNS), dtype=np.float32)
    y = x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + 0.5 * random.standard_normal(num_rows, dtype=np.float32)
    return x, y


def plain_network(p: float) -> nn.Sequential:
    """The network of the estimator; dropout in front of each layer where ``p`` is positive."""
    layers: list[nn.Module] = []
    for sizes in ((COLUMNS, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)):
        layers += [nn.Dropout(p)] * (p > 0) + [nn.Linear(*sizes), nn.ReLU()]
    return nn.Sequential(*layers[:-1], gd.HomoscedasticNoise(1))


def plain_epoch(x: Tensor, y: Tensor, p: float) -> None:
    """One pass over nine tenths of standardised rows, with the same likelihood, optimiser and batches."""
    model = plain_network(p)
    batch_size, _ = schedule(len(x))
    rows = torch.randperm(len(x))[: len(x) - len(x) // 10]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    steps = -(-len(rows) // batch_size)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps, cycle_momentum=False)
    for some in rows.split(batch_size):
        mean, log_variance = model(x[some]).chunk(2, dim=-1)
        loss = gd.gaussian_nll(mean, log_variance, y[some]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()


def seconds(call: Callable[[], Any]) -> float:
    """Processor time of a call; with one thread, what a core that does nothing else would take."""
    started = time.process_time()
    call()
    return time.process_time() - started


def times(num_rows: int, rounds: int) -> dict[str, Any]:
    """Time epochs in turns; what is not an epoch (sorting, scaling, the noise function) is the rest of a fit."""
    x, y = table(num_rows)
    inputs, targets = torch.from_numpy((x - x.mean(0)) / x.std(0)), torch.from_numpy(y).unsqueeze(1)

    def ours(members: int, epochs: int) -> float:
        model = ConcreteDropoutRegressor((HIDDEN, HIDDEN), n_members=members, max_iter=epochs, random_state=0)
        return seconds(lambda: model.fit(x, y))

    found: dict[str, list[float]] = {}
    for number in range(rounds):
        turn = {
            "dropout": seconds(lambda: plain_epoch(inputs, targets, 0.1)),
            "bare": seconds(lambda: plain_epoch(inputs, targets, 0.0)),
        }
        for members in (1, MEMBERS):
            once, twice = ours(members, 1), ours(members, 2)
            turn[f"epoch_{members}"], turn[f"rest_{members}"] = twice - once, 2 * once - twice
        print(f"round {number + 1}: " + ", ".join(f"{name} {value:.2f} s" for name, value in turn.items()), flush=True)
        for name, value in turn.items():
            found.setdefault(name, []).append(value)

    def ratio(name: str, reference: str, factor: float = 1.0) -> float:
        return statistics.median(a / (factor * b) for a, b in zip(found[name], found[reference], strict=True))

    return {
        "five members / five plain networks with nn.Dropout, one after the other": ratio("epoch_5", "dropout", MEMBERS),
        "five members / five plain networks without dropout": ratio("epoch_5", "bare", MEMBERS),
        "one member / one plain network with nn.Dropout": ratio("epoch_1", "dropout"),
        "one member / one plain network without dropout": ratio("epoch_1", "bare"),
        "all of a fit that is no epoch / an epoch, five members": ratio("rest_5", "epoch_5"),
    }


def peak(task: str, num_rows: int) -> float:
    """Peak memory in MiB of a process of its own."""
    command = [sys.executable, __file__, "--task", task, "--rows", str(num_rows)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def work(task: str, num_rows: int) -> None:
    """What the process does whose memory is measured."""
    torch.set_num_threads(1)
    small = ConcreteDropoutRegressor(max_iter=1).fit(*table(2000))  # libraries and their buffers
    small.predict(table(2000)[0])
    x, y = table(num_rows)
    if task == "regressor":
        ConcreteDropoutRegressor(max_iter=1, random_state=0).fit(x, y)
    if task == "classifier":
        ConcreteDropoutClassifier(max_iter=1, random_state=0).fit(x, y > 0)
    if task == "predict":
        small.predict(x)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def memory(num_rows: int) -> dict[str, float]:
    """Peak memory, in units of the table."""
    size = num_rows * COLUMNS * 4 / 2**20
    held = peak("hold", num_rows)
    return {f"{task}, beside the table": (peak(task, num_rows) - held) / size for task in ("regressor", "classifier")}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--task", choices=("all", "time", "memory", "hold", "regressor", "classifier", "predict"), default="all"
    )
    options = parser.parse_args()
    if options.task in ("hold", "regressor", "classifier", "predict"):
        work(options.task, options.rows)
        return
    torch.set_num_threads(1)
    if options.task in ("all", "memory"):
        write("memory", {"rows": options.rows, **memory(options.rows)})
    if options.task in ("all", "time"):
        rows = min(options.rows, TIMED_ROWS)
        write("time", {"rows": rows, "rounds": options.rounds, **times(rows, options.rounds)})


def write(part: str, found: dict[str, Any]) -> None:
    """Put a part of the results beside those that are there."""
    print(json.dumps({part: found}, indent=1), flush=True)
    earlier = json.loads(RESULTS.read_text())["results"] if RESULTS.exists() else {}
    contents = {
        "command": "make benchmark-table",
        "columns": COLUMNS,
        "environment": environment(),
        "code": of_script(),
        "results": earlier | {part: found},
    }
    with replacing(RESULTS) as file:
        file.write(json.dumps(contents, indent=1) + "\n")


if __name__ == "__main__":
    main()
