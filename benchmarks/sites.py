"""One dropout site, forward and backward: learned rates against fixed ones, the paper's formula, and a peer.

Run with ``python benchmarks/sites.py``; writes ``docs/results/speed_sites.json``.
"""

import argparse
import itertools
import json
from collections.abc import Callable
from typing import Any

import torch
from concretedropout.pytorch import ConcreteDropout2D, ConcreteLinearDropout
from torch import Tensor, nn

from gumdrop.layers import ConcreteDropout
from gumdrop.machine.threads import limited_threads

from timing import RESULTS, interleaved, summary, write_results

SEED = 0
MODES = {"eager": False, "compiled": True}
SHAPES = {"dense": (4096, 1024), "tokens": (32, 512, 768), "conv": (16, 64, 112, 112)}
P = 0.1


class PaperDropout(nn.Module):
    """The formula of the paper as one would write it down, with a mask of its own for each number."""

    def __init__(self) -> None:
        super().__init__()
        self.p_logit = nn.Parameter(torch.tensor(P).logit())

    def forward(self, x: Tensor) -> Tensor:
        """Drop."""
        p = torch.sigmoid(self.p_logit)
        u = torch.rand_like(x)
        eps = 1e-7
        odds = torch.log(p + eps) - torch.log(1 - p + eps) + torch.log(u + eps) - torch.log(1 - u + eps)
        return x * (1 - torch.sigmoid(odds / 0.1)) / (1 - p)


class Peer(nn.Module):
    """The installable package; it changes its input in place, so it gets a copy."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.inner = kind(init_min=P, init_max=P, temperature=0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Drop, without the layer behind."""
        self.inner.p = torch.sigmoid(self.inner.p_logit)
        return self.inner.spatial_concrete_dropout(x.clone())


def modules(kind: str, shape: tuple[int, ...]) -> dict[str, nn.Module]:
    """What is compared on one shape."""
    feature_dim = -3 if kind == "conv" else -1
    rivals: dict[str, nn.Module] = {"nn.Dropout": nn.Dropout(P)}
    if kind == "conv":
        rivals["nn.Dropout2d"] = nn.Dropout2d(P)
    rivals["gumdrop"] = ConcreteDropout(shape[feature_dim], p=P, feature_dim=feature_dim)
    rivals["formula of the paper"] = PaperDropout()
    rivals["concretedropout"] = Peer(ConcreteDropout2D if kind == "conv" else ConcreteLinearDropout)
    return rivals


def pass_of(module: nn.Module, x: Tensor, gradient: Tensor) -> Callable[[], None]:
    """Forward and backward of a site between two layers, without the layers."""
    wanted = [x, *module.parameters()]

    def run() -> None:
        y = module(x)
        torch.autograd.grad(y, wanted, gradient.to(y.dtype))

    return run


def measure(kind: str, dtype: torch.dtype, compiled: bool, threads: int, rounds: int) -> list[dict[str, Any]]:
    """Rows of results for one shape and dtype."""
    shape = SHAPES[kind]
    torch.manual_seed(SEED)
    x = torch.randn(shape).to(dtype).requires_grad_()
    gradient = torch.randn(shape).to(dtype)
    rivals = modules(kind, shape)
    with limited_threads(threads):
        functions = {}
        for name, module in rivals.items():
            torch._dynamo.reset()
            functions[name] = pass_of(torch.compile(module) if compiled else module, x, gradient)
        times = summary(interleaved(functions, rounds=rounds, seed=SEED), "nn.Dropout")
    case = {"shape": kind, "dtype": str(dtype).removeprefix("torch."), "compiled": compiled, "threads": threads}
    return [case | {"what": name} | each for name, each in times.items()]


def main() -> None:
    """Measure all cases and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    parser.add_argument("--modes", choices=MODES, nargs="*", default=list(MODES), help="keeps the rows of the others")
    parser.add_argument(
        "--shapes", choices=SHAPES, nargs="*", default=list(SHAPES), help="keeps the rows of the others"
    )
    options = parser.parse_args()
    modes = [MODES[name] for name in options.modes]
    cases = itertools.product(modes, options.shapes, (torch.float32, torch.bfloat16), options.threads)
    place = RESULTS / "speed_sites.json"
    before = json.loads(place.read_text(encoding="utf-8"))["results"] if place.exists() else []
    rows: list[dict[str, Any]] = [
        row for row in before if row["shape"] not in options.shapes or row["compiled"] not in modes
    ]
    for compiled, kind, dtype, threads in cases:
        new = measure(kind, dtype, compiled, threads, options.rounds)
        for row in new:
            print(row, flush=True)
        rows += new
        rows.sort(key=lambda row: (row["compiled"], list(SHAPES).index(row["shape"])))
        write_results(
            "speed_sites", command="python benchmarks/sites.py", seed=SEED, results=rows, rounds=options.rounds
        )


if __name__ == "__main__":
    main()
