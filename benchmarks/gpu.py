"""Training steps and predictions on a GPU: learned dropout against fixed dropout in the same places.

Networks are of a size that a GPU is used for, beside some of ``make benchmark-training``, whose steps are too short
to keep one busy. Times are of the clock, the GPU waited for after some calls. Run with ``make benchmark-gpu``, which
needs CUDA; writes ``docs/results/speed_gpu.json``.
"""

import argparse
import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import gumdrop as gd

import steps
from timing import in_turns, summary, write_results

SEED = 0
ROUNDS, SECONDS = 100, 1.5
"""Of one comparison, at most; five rounds at least."""
Function = Callable[[], object]

NETWORKS: dict[str, tuple[Callable[[float], nn.Module], tuple[int, ...]]] = {
    "MLP 3 x 512, 128 rows": (steps.mlp, (128, 512)),
    "MLP 3 x 4,096, 1,024 rows": (partial(steps.mlp, width=4096), (1024, 4096)),
    "ResNet-18, 256 pictures of 32 x 32": (partial(steps.resnet, width=64), (256, 3, 32, 32)),
    "LSTM 2 x 256, 32 x 64": (steps.Recurrent, (32, 64, 256)),
    "transformer encoder, 6 x 256, 16 x 64": (steps.Encoder, (16, 64, 256)),
    "transformer encoder, 6 x 768, 64 x 128": (partial(steps.Encoder, width=768), (64, 128, 768)),
}
COMPILED = ("MLP 3 x 512, 128 rows",)
PREDICTED = {
    "MLP 3 x 4,096, 1,024 rows": 100,
    "ResNet-18, 256 pictures of 32 x 32": 20,
    "LSTM 2 x 256, 32 x 64": 20,
    "transformer encoder, 6 x 768, 64 x 128": 20,
}
"""Draws of a prediction."""


def rivals(name: str, device: str) -> tuple[dict[str, nn.Module], steps.Batch]:
    """The network of a case with fixed and with learned rates, and without dropout, and a batch."""
    make, shape = NETWORKS[name]
    torch.manual_seed(SEED)
    plain, fixed = make(0.0), make(steps.P)
    models = {"fixed": fixed, "gumdrop": gd.learn_dropout(copy.deepcopy(plain), p=steps.P), "no dropout": plain}
    x, y = steps.batch_of(shape)
    return {what: model.to(device) for what, model in models.items()}, (x.to(device), y.to(device))


def training(name: str, device: str, *, compiled: bool, autocast: torch.dtype | None) -> dict[str, Function]:
    """Steps of training."""
    models, batch = rivals(name, device)
    return {
        what: steps.step_of(
            model, batch, steps.gumdrop_kl if what == "gumdrop" else None, compiled=compiled, autocast=autocast
        )
        for what, model in models.items()
    }


def prediction(name: str, device: str, autocast: torch.dtype | None) -> dict[str, Function]:
    """Mean and variance of class probabilities over draws, and over passes of a network with ``nn.Dropout``."""
    models, (x, _) = rivals(name, device)
    draws = PREDICTED[name]

    def ours() -> object:
        with torch.autocast(device, autocast, enabled=autocast is not None):
            return gd.predict_classification(models["gumdrop"].eval(), x, num_samples=draws, seed=SEED)

    @torch.inference_mode()
    def loop() -> tuple[Tensor, Tensor]:
        with torch.autocast(device, autocast, enabled=autocast is not None):
            passes = torch.stack([models["fixed"](x).float().softmax(1) for _ in range(draws)])
        return passes.mean(0), passes.var(0)

    return {"fixed": loop, "gumdrop": ours}


def main() -> None:
    """Measure all cases and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of one comparison")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    rows: list[dict[str, Any]] = []

    def measure(functions: dict[str, Function], **case: Any) -> None:
        times = in_turns(functions, rounds=ROUNDS, most_seconds=options.seconds, least_seconds=0.02, seed=SEED)
        found = summary({what: [seconds.wall for seconds in values] for what, values in times.items()}, "fixed")
        for what, row in found.items():
            rows.append(case | {"what": what} | row)
            print(rows[-1], flush=True)
        write_results(
            "speed_gpu",
            command="make benchmark-gpu",
            seed=SEED,
            results=rows,
            device=options.device,
            clock="time of the clock",
            matmul="tf32",
        )

    for name in NETWORKS:
        for autocast in (None, torch.bfloat16):
            case = {"network": name, "dtype": "float32" if autocast is None else "bfloat16"}
            measure(training(name, options.device, compiled=False, autocast=autocast), task="step", **case)
            if name in PREDICTED:
                task = f"{PREDICTED[name]} draws"
                measure(prediction(name, options.device, autocast), task=task, **case)
    for name in COMPILED:
        torch._dynamo.reset()
        functions = training(name, options.device, compiled=True, autocast=torch.bfloat16)
        measure(functions, task="compiled step", network=name, dtype="bfloat16")


if __name__ == "__main__":
    main()
