"""What did it look at: FIDO beside Captum's methods (Chang et al. 2019; Korsch, Shadaydeh & Denzler 2023).

On planted evidence the truth is known: a matched filter whose only evidence is one square. On digits, curves of
insertion and deletion compare methods under the same infill. The photographs have no labels, so their network tells
crops of eight pictures apart, and its masks show by what it does.
"""

import functools
import itertools
import statistics
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.attribution import FIDO, Explanation, FIDOSettings, boxes_of, curves
from gumdrop.attribution.explanation import Region
from gumdrop.attribution.infills import FIXED, RANDOM, blur
from gumdrop.attribution.masks import LAYOUTS
from gumdrop.attribution.pictures import read_photograph
from gumdrop.machine.threads import limited_threads
from gumdrop_experiments.attribution import figures, scores
from gumdrop_experiments.attribution.peers import Method, captum_methods, gumbel_masks, require_captum
from gumdrop_experiments.data.mnist import MNIST, read_mnist
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.networks.convolutional import (
    digit_batches,
    digit_network,
    digit_perceptron,
    export,
    photograph_batches,
    photograph_network,
    train_or_load,
)

__all__ = ["attribution", "planted_squares"]

FIRST_IMAGE = 1000
"""The settings of FIDO were chosen on training images; these test images were not looked at before."""
SHOWN = 20
SHARE = 0.15
"""Size of the sharp regions on digits, as a share of the image: the same for all methods."""
PHOTOGRAPHS = ("astronaut.png", "camera.png", "chelsea.png", "coffee.png", "raccoon.png", "retina.jpg", "rocket.jpg")
PICTURE, CROP, CELLS = 160, 96, 32
CLASSIFIER_STEPS, PHOTOGRAPH_STEPS, SPEED_ITERATIONS = 900, 400, 20
THREADS = (1,)
"""More would wait for each other where other work goes on."""
REGIONS: tuple[Region, ...] = ("ssr", "sdr", "joint")


def attribution(options: RunOptions = RunOptions(), *, num_images: int = 60, iterations: int = 100) -> None:
    """Explain digits and photographs, find planted evidence, and compare with Captum's methods.

    Args:
        options: The flags that all experiments share.
        num_images: Digits for the curves; the first twenty are shown.
        iterations: Steps of each search for masks.
    """
    require_captum()
    if options.quick:
        num_images, iterations = min(num_images, SHOWN), min(iterations, 40)
    settings = FIDOSettings(iterations=iterations)
    mnist = data_folder(options, "mnist", sources=MNIST, files=["t10k-images-idx3-ubyte.gz"])
    photographs = data_folder(options, "images", files=PHOTOGRAPHS)
    own = {"num_images": num_images, "iterations": iterations}
    with Run("attribution", options, own) as run:
        model, accuracy = _digits_model(run, mnist)
        images = read_mnist(mnist, train=False).images[FIRST_IMAGE:]
        parts = {
            "classifier": accuracy,
            "planted": run.part("planted", lambda: _planted(settings, options.seed)),
            "digits": run.part("digits", lambda: _digits(model, images[:num_images], settings, options.seed)),
            "shown": run.part("shown", lambda: _shown(model, images[:SHOWN], settings, options.seed)),
            "speed": run.part("speed", lambda: _speed(model, images[:SHOWN], settings, options)),
            "photographs": run.part("photographs", lambda: _photographs(run, photographs, settings)),
        }
        run.figure("attribution-digits", figures.digits(parts["shown"]))
        run.figure("attribution-curves", figures.curves(parts["digits"]))
        run.figure("attribution-planted", figures.planted(parts["planted"]))
        run.figure("attribution-photographs", figures.photographs(parts["photographs"]))
        results = {"settings": asdict(settings), **{name: figures.numbers_of(part) for name, part in parts.items()}}
        run.finish(results, figures.page(results))


def _digits_model(run: Run, folder: Path) -> tuple[nn.Module, dict[str, Any]]:
    """Train the classifier of digits, in a part that notes its accuracy; its weights stay in the folder."""
    steps, place = 200 if run.options.quick else CLASSIFIER_STEPS, run.folder / "digits.pt"
    model = train_or_load(digit_network, lambda: digit_batches(folder), place, steps=steps, seed=run.options.seed)
    export(model, run.folder / "digits.pt2", shape=(1, 28, 28))

    def judged() -> dict[str, Any]:
        test = read_mnist(folder, train=False)
        with torch.no_grad():
            right = (model(test.images).argmax(1) == test.labels).float().mean().item()
        return {"steps": steps, "test_accuracy": right}

    return model, run.part("classifier", judged)


def _infills(x: Tensor) -> dict[str, Tensor]:
    return {"zeros": torch.zeros_like(x), "blur": blur(x, LAYOUTS["image"])}


# Digits


def _methods(settings: FIDOSettings, seed: int) -> dict[str, Method]:
    """All methods by name; those with several masks give one after the other."""

    def fido(model: nn.Module, x: Tensor, target: Tensor, infill: Tensor) -> Tensor:
        found = FIDO(model, settings).explain(x, target, infill=infill, seed=seed)
        return torch.cat([found.relevance(region) for region in REGIONS], dim=1)

    def gumbel(model: nn.Module, x: Tensor, target: Tensor, infill: Tensor, temperature: float) -> Tensor:
        ssr, sdr = gumbel_masks(model, x, target, infill, settings=settings, temperature=temperature, seed=seed)
        return torch.cat([ssr, 1 - sdr, (ssr * (1 - sdr)).sqrt()], dim=1)

    plain = {f"Gumbel t={t:g}": functools.partial(gumbel, temperature=t) for t in (1.0, settings.temperature)}
    return {"FIDO": fido, **plain, **captum_methods()}


def _digits(model: nn.Module, x: Tensor, settings: FIDOSettings, seed: int) -> dict[str, Any]:
    """Curves and sharp regions of every method, under two infills."""
    with torch.no_grad():
        target = model(x).argmax(1)
    found: dict[str, Any] = {}
    for infill, fill in _infills(x).items():
        found[infill] = {}
        for name, method in _methods(settings, seed).items():
            started = time.perf_counter()
            relevance = method(model, x, target, fill)
            seconds = (time.perf_counter() - started) / len(x)
            masks = relevance.split(1, dim=1)
            names = [name] if len(masks) == 1 else [f"{name} {region}" for region in REGIONS]
            for label, mask in zip(names, masks, strict=True):
                found[infill][label] = {"seconds_per_image": seconds, **_digit_scores(model, x, mask, fill)}
    return found


def _digit_scores(model: nn.Module, x: Tensor, mask: Tensor, fill: Tensor) -> dict[str, Any]:
    insertion = curves.insertion_curve(model, x, mask, fill)
    deletion = curves.deletion_curve(model, x, mask, fill)
    bound = mask.flatten(1).quantile(1 - SHARE, dim=1)[:, None, None, None]
    hard = curves.hard_mask_scores(model, x, mask - bound, fill, threshold=0.0)
    return {
        "insertion": _spread(insertion.auc),
        "deletion": _spread(deletion.auc),
        "kept_log_odds": _spread(hard.kept),
        "dropped_log_odds": _spread(hard.dropped),
        "area": scores.area(mask).mean().item(),
        "roughness": scores.roughness(mask).mean().item(),
        "insertion_curve": insertion.probability.mean(0).tolist(),
        "deletion_curve": deletion.probability.mean(0).tolist(),
    }


def _spread(values: Tensor) -> dict[str, float]:
    """Mean over images and its standard error."""
    error = values.std().item() / len(values) ** 0.5 if len(values) > 1 else 0.0
    return {"mean": values.mean().item(), "se": error}


def _shown(model: nn.Module, x: Tensor, settings: FIDOSettings, seed: int) -> dict[str, Any]:
    found = FIDO(model, settings).explain(x, infill="blur", seed=seed)
    return _pictures(found)


def _pictures(found: Explanation) -> dict[str, Any]:
    """What a figure of masks needs, to two decimals."""
    assert found.target is not None
    pictures = {
        "inputs": found.inputs,
        "ssr": found.relevance("ssr")[:, 0],
        "sdr": found.relevance("sdr")[:, 0],
        "joint": found.joint[:, 0],
        "enhanced": found.enhance(),
        "crops": found.crop(margin=0.1),
    }
    numbers = {
        "target": found.target.tolist(),
        "boxes": found.boxes().tolist(),
        "score": found.score.tolist(),
        "score_infill": found.score_infill.tolist(),
        "score_ssr": found.curve_ssr[-1].tolist(),
        "score_sdr": found.curve_sdr[-1].tolist(),
    }
    return {**numbers, "pictures": {name: _rounded(value) for name, value in pictures.items()}}


def _rounded(values: Tensor) -> Any:
    return [[round(v, 2) for v in row] for row in values.flatten(0, -2).tolist()]


# Planted evidence


def planted_squares(count: int, *, side: int = 28, square: int = 10, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Make noise with a square of evidence, a pattern of -1 and 1, at a random place in each image.

    Args:
        count: Number of images.
        side: Height and width of an image.
        square: Height and width of the square.
        seed: Of noise, places and patterns.

    Returns:
        Images and patterns, each of shape (count, 1, side, side); a pattern is 0 outside its square.
    """
    generator = torch.Generator().manual_seed(seed)
    images = 2 * torch.rand(count, 1, side, side, generator=generator) - 1
    patterns = torch.zeros_like(images)
    corners = torch.randint(side - square + 1, (count, 2), generator=generator).tolist()
    for pattern, (top, left) in zip(patterns, corners, strict=True):
        signs = 2.0 * torch.randint(2, (square, square), generator=generator) - 1
        pattern[0, top : top + square, left : left + square] = signs
    return torch.where(patterns != 0, patterns, images), patterns


def _matched_filter(x: Tensor, pattern: Tensor) -> Tensor:
    """Logits of 'the pattern is there' and of the opposite; places of the square count alike, nothing else does."""
    evidence = (x * pattern).flatten(1).sum(1) / pattern.abs().flatten(1).sum(1)
    return torch.stack([20 * evidence - 10, torch.zeros_like(evidence)], dim=1)


def _planted(settings: FIDOSettings, seed: int) -> dict[str, Any]:
    x, pattern = planted_squares(20, seed=seed)
    truth = pattern != 0
    boxes = boxes_of(truth[:, 0].float())
    found: dict[str, Any] = {"pictures": {"inputs": _rounded(x[:3])}, "infills": {}}
    for infill in (*FIXED, *RANDOM):
        explanation = FIDO(_matched_filter, settings).explain(
            x, 0, additional_forward_args=pattern, infill=infill, seed=seed
        )
        found["infills"][infill] = {
            region: _planted_scores(explanation.relevance(region), truth, boxes) for region in REGIONS
        }
        found["pictures"][infill] = _rounded(explanation.joint[:3, 0])
    found["peers"] = {name: _planted_scores(mask, truth, boxes) for name, mask in _planted_peers(x, pattern).items()}
    return found


def _planted_peers(x: Tensor, pattern: Tensor) -> dict[str, Tensor]:
    """Captum's methods at a baseline of zeros, each image scaled to a largest relevance of 1."""
    from captum.attr import IntegratedGradients, Occlusion

    options = {"target": 0, "additional_forward_args": pattern}
    found = {
        "integrated gradients": IntegratedGradients(_matched_filter).attribute(x, **options).detach(),
        "occlusion 3 x 3": Occlusion(_matched_filter).attribute(x, (1, 3, 3), **options),
        "occlusion 5 x 5": Occlusion(_matched_filter).attribute(x, (1, 5, 5), **options),
    }
    return {name: value.clamp(min=0) / value.amax((1, 2, 3), keepdim=True) for name, value in found.items()}


def _planted_scores(mask: Tensor, truth: Tensor, boxes: Tensor) -> dict[str, float]:
    iou = scores.mask_iou(mask, truth)
    return {
        "iou_min": iou.min().item(),
        "iou_mean": iou.mean().item(),
        "box_iou_mean": scores.box_iou(boxes_of(mask[:, 0]), boxes).mean().item(),
        "share_outside_mean": scores.share_outside(mask, boxes).mean().item(),
    }


# Speed


def _speed(model: nn.Module, x: Tensor, settings: FIDOSettings, options: RunOptions) -> dict[str, Any]:
    """Seconds for an image: the batch at once, the same code for each image alone, and the usual loop."""
    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        perceptron = digit_perceptron().eval()
    short = FIDOSettings(iterations=10 if options.quick else SPEED_ITERATIONS)
    found: dict[str, Any] = {"images": len(x), "iterations": short.iterations, "num_samples": short.num_samples}
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
    options: dict[str, Any] = {"infill": "zeros", "region": "ssr"}

    def batch() -> Tensor:
        return fido.attribute(x, target, **options)

    def alone() -> Tensor:
        return torch.cat([fido.attribute(x[i : i + 1], target[i : i + 1], **options) for i in range(len(x))])

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


# Photographs


def _photographs(run: Run, folder: Path, settings: FIDOSettings) -> dict[str, Any]:
    """Train a network that tells crops of the photographs apart, and explain each photograph to it."""
    pictures = torch.stack([read_photograph(folder / name, size=(PICTURE, PICTURE)) for name in PHOTOGRAPHS])
    model = train_or_load(
        functools.partial(photograph_network, len(PHOTOGRAPHS)),
        lambda: photograph_batches(pictures, size=CROP, batch_size=64),
        run.folder / "photographs.pt",
        steps=60 if run.options.quick else PHOTOGRAPH_STEPS,
        seed=run.options.seed,
    )
    crops, labels = photograph_batches(pictures, size=CROP, batch_size=512)(
        torch.Generator().manual_seed(run.options.seed + 1)
    )
    with torch.no_grad():
        right = (model(crops).argmax(1) == labels).float().mean().item()
    small = torch.nn.functional.interpolate(pictures, size=(CROP, CROP), mode="area")
    target = torch.arange(len(PHOTOGRAPHS))
    found = FIDO(model, settings).explain(small, target, infill="blur", mask_size=CELLS, seed=run.options.seed)
    return {"names": [Path(name).stem for name in PHOTOGRAPHS], "crop_accuracy": right, **_pictures(found)}
