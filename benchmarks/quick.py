"""The figures of docs/performance.md on this machine, in five minutes: ratios, each on two instruction sets.

Every ratio is measured under the processor's own kernels and under those of any x86-64 processor, with one thread and
with two, by the time of the processor and by that of the clock. Libraries choose their kernels when they are loaded, so
each pair of kernels and threads has a process of its own. Run with ``make benchmark-quick``, which prints a table and
writes nothing; ``--write`` writes ``docs/results/speed_quick.json``, whose figures the table has beside those of here.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import gumdrop as gd
import prediction
from gumdrop.layers import dropout_blocks
from gumdrop.networks import mlp

import sites
import steps
from timing import RESULTS, in_turns, seconds_of, summary, write_results

SEED = 0
ROUNDS, SECONDS = 100, 4.0
"""Of one ratio, at most; five rounds at least."""
DRAWS = 100
KERNELS: dict[str, dict[str, str]] = {
    "native": {},
    "any x86-64": {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}
"""What torch, MKL and oneDNN read when they are loaded, by the name of the instruction set."""
WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads that wait by spinning would take processor time, and all of it where other programs run."""
THREADS = (1, 2)

Function = Callable[[], object]


def site(shape: str, dtype: torch.dtype) -> tuple[Function, Function]:
    """One site and ``nn.Dropout``, forward and backward."""
    torch.manual_seed(SEED)
    x = torch.randn(sites.SHAPES[shape]).to(dtype).requires_grad_()
    rivals = sites.modules(shape, tuple(x.shape))
    learned, fixed = (sites.pass_of(rivals[name], x, torch.randn(x.shape)) for name in ("gumdrop", "nn.Dropout"))
    return learned, fixed


def step(network: str) -> tuple[Function, Function]:
    """A training step with learned rates, and one with fixed rates."""
    batch, rivals = steps.batch_of(steps.NETWORKS[network][1]), steps.contestants(network)
    learned, fixed = (steps.step_of(rivals[n][0], batch, rivals[n][1], compiled=False) for n in ("gumdrop", "fixed"))
    return learned, fixed


def draws(network: str) -> tuple[Function, Function]:
    """A prediction from many draws, and as many passes over a network with ``nn.Dropout`` in the same places."""
    model, x = prediction.made(network)
    sizes = prediction.CASES[network][2]
    plain = prediction.Recurrent(64, 1) if sizes is None else chain(sizes)
    return prediction.predict(model, x, DRAWS), partial(loop, with_dropout(plain), x)


def chain(sizes: Sequence[int]) -> nn.Module:
    """A ReLU network without dropout."""
    layers = [layer for pair in itertools.pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def with_dropout(model: nn.Module) -> nn.Module:
    """Put ``nn.Dropout`` in front of every layer with weights."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear | nn.LSTM):
                setattr(parent, name, nn.Sequential(nn.Dropout(steps.P), child))
    return model.train()


@torch.no_grad()
def loop(model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance over passes, as any model with dropout can have them."""
    outputs = torch.stack([model(x) for _ in range(DRAWS)])
    return outputs.mean(0), outputs.var(0)


def products(network: str) -> tuple[Function, Function]:
    """A prediction from many draws, and its matrix products alone, as many rows at once as suits them."""
    model, x = prediction.made(network)
    sizes = prediction.CASES[network][2]
    assert sizes is not None
    found = prediction.products(sizes, len(x), DRAWS).values()
    return prediction.predict(model, x, DRAWS), min(
        found, key=lambda run: min(seconds_of(run, 5).wall for _ in range(3))
    )


def moments(network: str) -> tuple[Function, Function]:
    """A prediction without sampling, and one from many draws."""
    model, x = prediction.made(network)
    for layer, p in zip(dropout_blocks(model), (1e-4, 5e-4, 4e-3), strict=True):  # as training leaves them
        layer.site.start_at(p)
    return lambda: gd.predict_regression(model, x, method="moments"), prediction.predict(model, x, DRAWS)


def stacked_step() -> tuple[Function, Function]:
    """A step of a small network in ``fit_stacked``, whose gradients are written out, and one with fixed rates."""
    name = "MLP 2 x 50"
    x, y = steps.batch_of(steps.NETWORKS[name][1])
    model = mlp(x.shape[1], steps.CLASSES, p=steps.P)
    return steps.stacked_step([model], x.unsqueeze(0), y.unsqueeze(0), "categorical"), step(name)[1]


CASES: dict[str, Callable[[], tuple[Function, Function]]] = {
    **{
        f"site, {shape}, {str(dtype).removeprefix('torch.')} / nn.Dropout": partial(site, shape, dtype)
        for shape in sites.SHAPES
        for dtype in (torch.float32, torch.bfloat16)
    },
    **{f"training step, {name} / fixed rates": partial(step, name) for name in steps.NETWORKS},
    "training step, MLP 2 x 50 in fit_stacked / fixed rates": stacked_step,
    **{
        f"{DRAWS} draws, {name} / loop with nn.Dropout": partial(draws, name)
        for name in ("MLP 2 x 50, 64 rows", "MLP 3 x 512, 1 row", "MLP 3 x 512, 64 rows", "LSTM 64, 64 rows")
    },
    f"{DRAWS} draws, MLP 3 x 512, 1 row / products": partial(products, "MLP 3 x 512, 1 row"),
    f"without sampling, MLP 2 x 50, 64 rows / {DRAWS} draws": partial(moments, "MLP 2 x 50, 64 rows"),
}
"""What is measured, by its name: makes a function, and the one that its time is divided by."""


def measured(case: str) -> dict[str, Any]:
    """Time the two functions of a case in turns."""
    ours, other = CASES[case]()
    times = in_turns({"ours": ours, "other": other}, rounds=ROUNDS, most_seconds=SECONDS, seed=SEED)
    row: dict[str, Any] = {"case": case}
    for clock in ("process", "wall"):
        found = {name: [getattr(each, clock) for each in values] for name, values in times.items()}
        row[clock] = summary(found, "other")["ours"]
    return row


def in_process(kernels: str, threads: int, cases: Sequence[str]) -> list[dict[str, Any]]:
    """Measure cases in a process that loads these kernels."""
    chosen = KERNELS[kernels] | WAITING | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, "--here", "--cases", *cases]
    run = subprocess.run(command, env=os.environ | chosen, check=True, stdout=subprocess.PIPE, text=True)
    setting = {"kernels": kernels, "threads": threads}
    return [setting | json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def shown(rows: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> str:
    """One line for each case: processor time of each setting (time of the clock), and of the page's machine."""
    settings = list(itertools.product(KERNELS, THREADS))
    width = max(map(len, CASES))
    lines = [" " * width + "".join(f"{f'{k}, {t} thread' + 's' * (t > 1):>22}" for k, t in settings) + f"{'page':>8}"]
    for case in CASES:
        of_case = {(row["kernels"], row["threads"]): row for row in rows if row["case"] == case}
        cells = [
            f"{row['process']['ratio']:.2f} ({row['wall']['ratio']:.2f})" if (row := of_case.get(setting)) else ""
            for setting in settings
        ]
        page = [
            row["process"]["ratio"]
            for row in before
            if row["case"] == case and (row["kernels"], row["threads"]) == settings[0]
        ]
        lines.append(
            f"{case:{width}}" + "".join(f"{cell:>22}" for cell in cells) + "".join(f"{each:8.2f}" for each in page)
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and print, and write on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/results/speed_quick.json")
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        for case in options.cases:
            print(json.dumps(measured(case)), flush=True)
        return
    path = RESULTS / "speed_quick.json"
    before = json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else []
    rows = []
    for kernels, threads in itertools.product(KERNELS, THREADS):
        print(f"{kernels}, threads: {threads} ...", file=sys.stderr, flush=True)
        rows += in_process(kernels, threads, options.cases)
    print(
        "Time over that of the rival: of the processor, and in brackets of the clock. Medians over rounds in turns.\n"
    )
    print(shown(rows, before))
    if options.write:
        rows += [row for row in before if row["case"] not in options.cases]
        rows.sort(key=lambda row: list(CASES).index(row["case"]))
        settings = {"kernels": KERNELS, "cores": os.cpu_count(), "native": torch.backends.cpu.get_cpu_capability()}
        write_results("speed_quick", command="make benchmark-quick", seed=SEED, results=rows, **settings)


if __name__ == "__main__":
    main()
