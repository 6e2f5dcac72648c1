"""Processor seconds for an image: many at once, one after the other, by the usual loop, and by the network alone."""

import functools
import itertools
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from gumdrop.attribution import FIDO, FIDOSettings, log_odds
from gumdrop.machine.threads import limited_threads
from gumdrop_experiments.attribution.peers import gumbel_masks
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.networks.convolutional import digit_perceptron
from gumdrop_experiments.training import seeded

THREADS = (1,)
"""More would wait for each other where other work goes on."""
ROWS, ROUNDS = 256, 3
"""Rows that go through the network at once, and how often each way is timed."""


def speed(model: nn.Module, x: Tensor, iterations: int, seed: int) -> Plain:
    """Processor seconds for an image: the batch at once, the same code for each image alone, and the usual loop."""
    with seeded(seed):
        perceptron = digit_perceptron().eval()
    short = FIDOSettings(iterations=iterations)
    found: Plain = {"images": len(x), "iterations": short.iterations, "num_samples": short.num_samples}
    networks = {"convolutional": model, "dense": perceptron}
    for threads, (name, network) in itertools.product(THREADS, networks.items()):
        with limited_threads(threads):
            row = _row(network, x, short)
        found.setdefault("networks", {})[f"{name}, {threads} thread{'s' * (threads > 1)}"] = row
    return found


def _row(network: nn.Module, x: Tensor, settings: FIDOSettings) -> Plain:
    with torch.no_grad():
        target = network(x).argmax(1)
    fido, fill = FIDO(network, settings), torch.zeros_like(x)
    attribute = functools.partial(fido.attribute, infill="zeros", region="ssr", chunk_size=ROWS)
    of_image = 2 * settings.num_samples

    def one_by_one() -> list[Tensor]:
        return [attribute(x[i : i + 1], target[i : i + 1]) for i in range(len(x))]

    ways: dict[str, Callable[[], object]] = {
        "batch": lambda: attribute(x, target),
        "alone": one_by_one,
        "usual": lambda: gumbel_masks(network, x, target, fill, settings=settings, temperature=settings.temperature),
        "network_batch": lambda: _passes(network, x, target, of_image, settings.iterations, rows=ROWS),
        "network_alone": lambda: _passes(network, x, target, of_image, settings.iterations, rows=of_image),
    }
    seconds = {name: each / len(x) for name, each in _timed(ways).items()}
    masks = attribute(x, target), torch.cat(one_by_one())
    return {
        **seconds,
        "times_faster_than_alone": seconds["alone"] / seconds["batch"],
        "times_faster_than_usual": seconds["usual"] / seconds["batch"],
        "network_times_faster": seconds["network_alone"] / seconds["network_batch"],
        "largest_difference": (masks[0] - masks[1]).abs().max().item(),
    }


def _passes(network: nn.Module, x: Tensor, target: Tensor, masks: int, iterations: int, *, rows: int) -> None:
    """Run the network as a search does, and nothing else, which bounds what a batch can gain."""
    images, classes = (each.repeat_interleave(masks, dim=0).split(rows) for each in (x, target))
    for _ in range(iterations):
        for image, chosen in zip(images, classes, strict=True):
            seen = image.detach().requires_grad_()
            torch.autograd.grad(log_odds(network(seen), chosen).sum(), seen)


def _timed(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median over the rounds, in turn, of the processor's time: other work slows all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, run in ways.items():
            started = time.process_time()
            run()
            seconds[name].append(time.process_time() - started)
    return {name: statistics.median(each) for name, each in seconds.items()}
