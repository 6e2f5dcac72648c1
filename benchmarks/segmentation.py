"""Segmentation: a training step against fixed dropout, 50 drawn functions against one pass, and peak memory.

Run with ``make benchmark-segmentation``; writes ``docs/results/segmentation_speed.json``. Predictions are timed with
every rate at .2 and with the rates that ``gumdrop reproduce camvid`` learned, out of ``docs/results/camvid.json``.
"""

import argparse
import copy
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.layers.attach import dropout_blocks
from gumdrop.prediction import predict_in_tiles
from gumdrop_experiments.camvid.scores import pixel_nll
from gumdrop_experiments.camvid.study import NUM_CLASSES
from gumdrop_experiments.networks.segmentation import NETWORKS

from timing import RESULTS, interleaved, summary, write_results

SEED, P, NUM_DATA = 0, 0.2, 367
SIZE, CROP, BATCH = (180, 240), 96, 4
DRAWS, MANY, REPEATS = 50, 500, 3
ROUNDS = 15
WAYS = (
    ("float32", torch.float32, torch.contiguous_format),
    ("float32, channels last", torch.float32, torch.channels_last),
    ("bfloat16, channels last", torch.bfloat16, torch.channels_last),
)


def network(name: str) -> nn.Module:
    """A network for the classes of CamVid."""
    torch.manual_seed(SEED)
    return NETWORKS[name](NUM_CLASSES)


def with_dropout2d(model: nn.Module) -> nn.Module:
    """Put torch's own dropout of channels in front of every convolution but the first."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, (nn.Conv2d, nn.ConvTranspose2d)) and name != "first":
                setattr(parent, name, nn.Sequential(nn.Dropout2d(P), child))
    return model


def learned(name: str, rates: Mapping[str, float] | None = None) -> nn.Module:
    """A converted network, whose rates may be given by name."""
    model = gd.learn_dropout(network(name), p=P, exclude=["first"], report=lambda report: None)
    for block in dropout_blocks(model) if rates else ():
        block.site.start_at(rates[block.name])
    return model


def step_of(model: nn.Module, *, kl: bool) -> Callable[[], None]:
    """One step of training."""
    torch.manual_seed(SEED)
    x, y = torch.randn(BATCH, 3, CROP, CROP), torch.randint(NUM_CLASSES, (BATCH, CROP, CROP))
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        nll = pixel_nll(model(x), y)
        loss = gd.negative_elbo(nll, model, num_data=NUM_DATA, lengthscale=1.0).total if kl else nll.mean()
        loss.backward()
        optimizer.step()

    return step


def compare_steps() -> list[dict[str, Any]]:
    """Learned, fixed and no dropout in one network."""
    rows = []
    for name in ("small", "56", "unet"):
        steps = {
            "no dropout": step_of(network(name), kl=False),
            "fixed": step_of(with_dropout2d(network(name)), kl=False),
            "gumdrop": step_of(learned(name), kl=True),
        }
        for what, row in summary(interleaved(steps, rounds=ROUNDS, seed=SEED), "fixed").items():
            rows.append({"network": name, "what": what} | row)
            print(rows[-1], flush=True)
    return rows


def compare_draws() -> list[dict[str, Any]]:
    """Many drawn functions of a whole picture, in units of one pass."""
    x = torch.randn(1, 3, *SIZE, generator=torch.Generator().manual_seed(SEED))
    cases: dict[str, nn.Module] = {f"{name}, every rate {P}": learned(name) for name in ("small", "unet")}
    path = RESULTS / "camvid.json"
    if path.exists():
        run = json.loads(path.read_text(encoding="utf-8"))["results"]["learned"][0]
        cases["small, learned rates"] = learned("small", {name: values[-1] for name, values in run["rates"].items()})
    rows = []
    for name, model in cases.items():
        calls: dict[str, Callable[[], object]] = {}
        for how, dtype, order in WAYS:
            calls[f"one pass, {how}"], calls[f"{DRAWS} draws, {how}"] = calls_of(model, x, dtype, order)
        for what, row in summary(interleaved(calls, rounds=ROUNDS // 3), f"one pass, {WAYS[0][0]}").items():
            rows.append({"case": name, "what": what} | row)
            print(rows[-1], flush=True)
    return rows


def calls_of(
    model: nn.Module, x: Tensor, dtype: torch.dtype, order: torch.memory_format
) -> tuple[Callable[[], object], Callable[[], object]]:
    """One pass without dropout, and a prediction from many draws, in a precision and an order of memory."""
    model, x = copy.deepcopy(model).eval().to(memory_format=order), x.contiguous(memory_format=order)  # type: ignore[call-overload]

    def one_pass() -> Tensor:
        with torch.inference_mode(), torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            return model(x)

    def draws() -> object:
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            return gd.predict_classification(model, x, num_samples=DRAWS, seed=SEED)

    return one_pass, draws


def peak(draws: int, tile: int) -> tuple[float, float]:
    """Peak memory of this process before and after a prediction, in MiB; a tile of 0 is the whole picture."""
    model, x = learned("small"), torch.randn(1, 3, *SIZE)
    options: dict[str, int] = {"num_samples": draws, "seed": SEED}
    with torch.inference_mode():
        model.eval()(x[..., :32, :32])  # loads what is loaded on first use
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if tile:
        predict_in_tiles(model, x, tile=tile, halo=16, **options)
    else:
        gd.predict_classification(model, x, **options)
    return before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def compare_memory() -> list[dict[str, Any]]:
    """Peak memory of few and many draws, of a whole picture and of one in tiles."""
    rows = []
    for tile in (0, 64):
        found: dict[str, Any] = {"tile": tile}
        for draws in (DRAWS, MANY):
            command = [sys.executable, __file__, "--peak", str(draws), str(tile)]
            answers = [subprocess.run(command, check=True, capture_output=True).stdout for _ in range(REPEATS)]
            # The middle one: what malloc keeps differs by tens of MiB from run to run.
            found["mebibytes_before"], found[str(draws)] = sorted(map(json.loads, answers))[REPEATS // 2]
        rows.append(found | {"ratio": found[str(MANY)] / found[str(DRAWS)]})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure everything and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peak", type=int, nargs=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.peak:
        print(json.dumps(peak(*arguments.peak)))
        return
    # Memory first: a process is charged with the peak of the one that starts it.
    results = {"memory": compare_memory(), "steps": compare_steps(), "draws": compare_draws()}
    write_results(
        "segmentation_speed", command="make benchmark-segmentation", seed=SEED, results=results, rounds=ROUNDS
    )


if __name__ == "__main__":
    main()
