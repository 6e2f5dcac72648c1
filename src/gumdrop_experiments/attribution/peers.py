"""What FIDO is compared with: Captum's methods, and masks searched for in the usual way; and what each takes."""

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop.attribution import FIDO, FIDOSettings, log_odds
from gumdrop.machine.threads import limited_threads
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.networks.convolutional import digit_perceptron
from gumdrop_experiments.shared import seeded, take_step

Method = Callable[[Callable[..., Tensor], Tensor, Tensor | int, Tensor], Tensor]
"""Relevance from model, inputs, target and infill."""
ROWS, ROUNDS = 256, 3
"""Rows that go through the network at once, and how often each way is timed."""


def require_captum() -> None:
    """Say what to do where Captum is absent."""
    try:
        import captum.attr  # noqa: F401
    except ImportError as error:
        raise ValueError(f"this comparison needs Captum ({error}); install it with: pip install captum") from error


def captum_methods(windows: Sequence[int] = (3, 5, 7), **options: Any) -> dict[str, Method]:
    """List Captum's methods, each with the infill as its baseline, and options for all."""
    from captum.attr import IntegratedGradients, Occlusion

    def gradients(model: Callable[..., Tensor], x: Tensor, target: Tensor | int, infill: Tensor) -> Tensor:
        return IntegratedGradients(model).attribute(x, baselines=infill, target=target, **options).detach()

    def occlusion(model: Callable[..., Tensor], x: Tensor, target: Tensor | int, infill: Tensor, side: int) -> Tensor:
        same: Plain = {"baselines": infill, "target": target, "perturbations_per_eval": 16, **options}
        return Occlusion(model).attribute(x, (x.shape[1], side, side), **same).detach()

    sides = {f"occlusion {side} x {side}": partial(occlusion, side=side) for side in windows}
    return {"integrated gradients": gradients, **sides}


def gumbel_masks(
    model: nn.Module,
    inputs: Tensor,
    target: Tensor,
    infill: Tensor,
    *,
    settings: FIDOSettings,
    temperature: float,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Search for masks one image at a time as one would write it down: ``gumbel_softmax``, and ``loss.backward()``.

    Objective, optimiser, and numbers of steps and masks are those of FIDO. The model is called once for each kind of
    mask, and its parameters get gradients that nobody needs, which are removed at the end. Of images and infill (N, C,
    H, W) come the keep probabilities of SSR and SDR, (N, 1, H, W) each.
    """
    rates = []
    with torch.random.fork_rng():
        for x, label, fill in zip(inputs, target, infill, strict=True):
            torch.manual_seed(seed)
            with torch.no_grad():
                clean, filled = log_odds(model(torch.stack([x, fill])), label.expand(2))
            evidence = (clean - filled).abs().clamp(min=1)
            maps = [torch.zeros(x.shape[-2:], requires_grad=True) for _ in range(2)]  # drop logits: SSR, SDR
            optimizer = torch.optim.Adam(maps, lr=settings.lr)
            for step in range(settings.iterations):
                scores = []
                for logit in maps:
                    both = torch.stack([-logit, torch.zeros_like(logit)]).expand(settings.num_samples, 2, *logit.shape)
                    keep = F.gumbel_softmax(both, tau=temperature, dim=1)[:, :1]
                    output = model(keep * x + (1 - keep) * fill)
                    scores.append(log_odds(output, label.expand(settings.num_samples)).mean())
                p = [torch.sigmoid(logit) for logit in maps]
                area = ((1 - p[0]) + p[1]).mean() * settings.l1 / 2
                side = p[0].numel() ** 0.5
                rough = sum((q.diff(dim=0).abs().sum() + q.diff(dim=1).abs().sum()) for q in p) * settings.tv / side
                loss = scores[1] - scores[0] + min(1.0, (step + 1) / settings.ramp) * (area + rough) * evidence
                take_step(optimizer, loss)
            rates.append(torch.stack([torch.sigmoid(-logit.detach()) for logit in maps])[:, None])
    model.zero_grad()
    ssr, sdr = torch.stack(rates, dim=1)
    return ssr, sdr


def speed(model: nn.Module, x: Tensor, iterations: int, seed: int) -> Plain:
    """Processor seconds for an image: the batch at once, the same code for each image alone, and the usual loop."""
    with seeded(seed):
        perceptron = digit_perceptron().eval()
    short = FIDOSettings(iterations=iterations)
    results: Plain = {"images": len(x), "iterations": short.iterations, "num_samples": short.num_samples}
    for name, network in {"convolutional": model, "dense": perceptron}.items():
        with limited_threads(1):  # more would wait for each other where other work goes on
            results.setdefault("networks", {})[f"{name}, 1 thread"] = _row(network, x, short)
    return results


def _row(network: nn.Module, x: Tensor, settings: FIDOSettings) -> Plain:
    with torch.no_grad():
        target = network(x).argmax(1)
    fido, fill = FIDO(network, settings), torch.zeros_like(x)
    attribute = partial(fido.attribute, infill="zeros", region="ssr", chunk_size=ROWS)
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
    for name, run in list(ways.items()) * ROUNDS:
        started = time.process_time()
        run()
        seconds[name].append(time.process_time() - started)
    return {name: statistics.median(each) for name, each in seconds.items()}
