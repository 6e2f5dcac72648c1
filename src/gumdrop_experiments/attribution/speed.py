"""Seconds for an image: many at once, one after the other, and by the usual loop."""

import functools
import itertools
import statistics
import time

import torch
from torch import Tensor, nn

from gumdrop.attribution import FIDO, FIDOSettings
from gumdrop.machine.threads import limited_threads
from gumdrop_experiments.attribution.peers import gumbel_masks
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.networks.convolutional import digit_perceptron

__all__ = ["speed"]

THREADS = (1,)
"""More would wait for each other where other work goes on."""


def speed(model: nn.Module, x: Tensor, iterations: int, seed: int) -> Plain:
    """Seconds for an image: the batch at once, the same code for each image alone, and the usual loop."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        perceptron = digit_perceptron().eval()
    short = FIDOSettings(iterations=iterations)
    found: Plain = {"images": len(x), "iterations": short.iterations, "num_samples": short.num_samples}
    networks = {"convolutional": model, "dense": perceptron}
    for threads, (name, network) in itertools.product(THREADS, networks.items()):
        with limited_threads(threads):
            with torch.no_grad():
                target = network(x).argmax(1)
            batch, alone, usual = _timed(network, x, target, short)
        found.setdefault("networks", {})[f"{name}, {threads} thread{'s' * (threads > 1)}"] = {
            "batch": batch[0],
            "alone": alone[0],
            "usual": usual[0],
            "times_faster_than_alone": alone[0] / batch[0],
            "times_faster_than_usual": usual[0] / batch[0],
            "largest_difference": (batch[1] - alone[1]).abs().max().item(),
        }
    return found


def _timed(network: nn.Module, x: Tensor, target: Tensor, settings: FIDOSettings) -> list[tuple[float, Tensor]]:
    """Median over three rounds, in turn, so that a busy machine slows all alike."""
    fido, fill = FIDO(network, settings), torch.zeros_like(x)
    attribute = functools.partial(fido.attribute, infill="zeros", region="ssr")

    def batch() -> Tensor:
        return attribute(x, target)

    def alone() -> Tensor:
        return torch.cat([attribute(x[i : i + 1], target[i : i + 1]) for i in range(len(x))])

    def usual() -> Tensor:
        return gumbel_masks(network, x, target, fill, settings=settings, temperature=settings.temperature)[0]

    seconds: list[list[float]] = [[], [], []]
    masks: list[Tensor] = []
    for _ in range(3):
        masks = []
        for times, run in zip(seconds, (batch, alone, usual), strict=True):
            started = time.perf_counter()
            masks.append(run())
            times.append((time.perf_counter() - started) / len(x))
    return [(statistics.median(times), mask) for times, mask in zip(seconds, masks, strict=True)]
