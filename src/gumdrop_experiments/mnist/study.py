"""MNIST: rates that are learned against rates that are searched for, from a thousand images to all sixty thousand.

A network of 3 x 512 units learns its four rates with its weights; beside it stands fixed dropout, whose two rates
(inputs, hidden units) are chosen at each size on a part of the training images. Nothing is chosen on a test image.

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832), section 4.3.
    Srivastava et al. 2014, "Dropout" (JMLR 15), for the fixed rates that are usual on MNIST.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.layers import dropout_blocks
from gumdrop.machine.threads import limited_threads
from gumdrop.metrics import accuracy, brier_score, calibration_error
from gumdrop.networks import dropout_rates, fix_dropout, mlp
from gumdrop.objective.kl import Lengthscale
from gumdrop.prediction import ClassificationPrediction, predict_classification
from gumdrop.training import FitResult, fit
from gumdrop_experiments.data.mnist import MNIST, DigitImages, read_mnist
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.variants import NO_DROPOUT
from gumdrop_experiments.mnist import figures

__all__ = ["FIXED", "plain_prediction", "scores"]

SIZES = (1000, 4000, 15_000, 60_000)
WIDTH, DEPTH = 512, 3
WIDTHS, WIDTH_SIZE = (64, 256, 1024), 4000
"""Of the sweep over widths, and its number of images; the usual width is there already."""
FIXED: dict[str, tuple[float, float]] = {
    "0 / .2": (0.0, 0.2),
    ".1 / .3": (0.1, 0.3),
    ".2 / .5": (0.2, 0.5),
}
"""Settings to choose from: drop probability of inputs and of hidden units."""
HELD_OUT = 6
"""One image in so many judges the fixed settings."""
EPOCHS, BATCH_SIZE, LR = 12, 256, 1e-3
LENGTHSCALE: Lengthscale = 1.0
START = 0.5
"""Rates begin high and fall: weights that have learned under little noise keep rates low, see docs/mnist.md."""
SEARCH_SAMPLES = 20
QUICK_SIZES, QUICK_WIDTHS, QUICK_WIDTH, QUICK_TEST = (250, 1000, 4000), (32, 128), 64, 2000

Rates = tuple[float, float]


@dataclass(frozen=True)
class Work:
    """The images, and how networks are trained on them."""

    run: Run
    train: DigitImages
    test: DigitImages
    sizes: Sequence[int]
    seeds: int
    epochs: int
    width: int
    num_samples: int

    def passes(self, num_data: int) -> int:
        """More over fewer images, as the root of what is missing; the steps still become fewer."""
        return max(1, round(self.epochs * math.sqrt(60_000 / num_data)))


def mnist(
    options: RunOptions = RunOptions(),
    *,
    sizes: tuple[int, ...] = (),
    seeds: int = 3,
    epochs: int | None = None,
    num_samples: int = 30,
) -> None:
    """Learned rates against searched ones on MNIST, from a thousand images to all of them.

    Args:
        options: The flags that all experiments share.
        sizes: Numbers of training images; by default 1,000, 4,000, 15,000 and 60,000.
        seeds: Networks of each kind and size.
        epochs: Passes over 60,000 images; more over fewer images. 12 by default, 1 with --quick.
        num_samples: Draws of a prediction.

    Raises:
        ValueError: If a number is less than 1, or there are fewer images than were asked for.
    """
    for name, least in {"seeds": seeds, "epochs": epochs or EPOCHS, "num_samples": num_samples}.items():
        if least < 1:
            raise ValueError(f"`{name}` must be at least 1, got {least}")
    folder = data_folder(options, "mnist", sources=MNIST)
    train, test = read_mnist(folder), read_mnist(folder, train=False)
    wanted = sorted(sizes or (QUICK_SIZES if options.quick else SIZES))
    if not 10 * HELD_OUT <= wanted[0] <= wanted[-1] <= len(train.labels):
        raise ValueError(f"`sizes` must lie between {10 * HELD_OUT} and {len(train.labels)}, got {wanted}")
    if options.quick:
        test, seeds = DigitImages(test.images[:QUICK_TEST], test.labels[:QUICK_TEST]), 1
    own = {"sizes": list(sizes) or None, "seeds": seeds, "epochs": epochs, "num_samples": num_samples}
    with limited_threads(1), Run("mnist", options, own) as run:
        plan = {"epochs": epochs or (1 if options.quick else EPOCHS), "width": QUICK_WIDTH if options.quick else WIDTH}
        work = Work(run, train, test, wanted, seeds, num_samples=num_samples, **plan)
        learned = [_learned(work, size) for size in reversed(wanted)]
        fixed = [_fixed(work, size) for size in reversed(wanted)]
        joined = [one | other for one, other in zip(reversed(learned), reversed(fixed), strict=True)]
        results = {"settings": _settings(work), "sizes": joined, "widths": _sweep(work, joined)}
        for name, drawing in figures.drawings(results):
            run.figure(name, drawing)
        run.finish(results, figures.page(results))


def _settings(work: Work) -> dict[str, Any]:
    layers = [f"{work.width}"] * DEPTH
    return {
        "layers": f"784-{'-'.join(layers)}-10",
        "epochs": work.epochs,
        "batch_size": BATCH_SIZE,
        "lr": LR,
        "lengthscale": LENGTHSCALE,
        "test_images": len(work.test.labels),
    }


# One size


def _seeds(work: Work) -> range:
    return range(work.run.options.seed, work.run.options.seed + work.seeds)


def _learned(work: Work, size: int) -> dict[str, Any]:
    """Networks that learn their rates, one for each seed."""
    part = work.run.part
    found = [part(f"N={size}-learned-{seed}", partial(_study, work, size, None, seed)) for seed in _seeds(work)]
    return {"num_data": size, "learned": found}


def _fixed(work: Work, size: int) -> dict[str, Any]:
    """The search over fixed rates, and networks with what it chose."""
    run = work.run
    search = {
        name: run.part(f"N={size}-search-{i}", partial(_judge, work, size, rates))
        for i, (name, rates) in enumerate(FIXED.items())
    }
    best = min(search, key=lambda name: search[name]["nll"])
    found = [
        run.part(f"N={size}-fixed-{seed}", partial(_study, work, size, FIXED[best], seed)) for seed in _seeds(work)
    ]
    return {"search": search, "chosen": best, "fixed": found}


def _sweep(work: Work, sizes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Learned networks of other widths, beside the one that is there."""
    usual = min(sizes, key=lambda each: abs(each["num_data"] - WIDTH_SIZE))
    size, seed = usual["num_data"], work.run.options.seed
    found = {work.width: usual["learned"][0]}
    for width in QUICK_WIDTHS if work.run.options.quick else WIDTHS:
        other = replace(work, width=width)
        found[width] = work.run.part(f"width={width}", partial(_study, other, size, None, seed))
    return [{"width": width, "num_data": size, **found[width]} for width in sorted(found)]


def _order(work: Work, seed: int) -> Tensor:
    """The images in random order; smaller sets are the beginnings of larger ones."""
    return torch.randperm(len(work.train.labels), generator=torch.Generator().manual_seed(seed))


def _study(work: Work, size: int, rates: Rates | None, seed: int) -> dict[str, Any]:
    """Train on so many images and score the test images, with draws and without."""
    rows = _order(work, seed)[:size]
    model, result = _trained(work, rows, rates, seed)
    device = work.run.options.device
    x, y = work.test.images.flatten(1).to(device), work.test.labels.to(device)
    drawn = predict_classification(model, x, num_samples=work.num_samples, seed=seed, batch_size=2500)
    return {
        "seed": seed,
        "drawn": scores(drawn, y),
        "plain": scores(plain_prediction(model, x), y),
        "rates": list(dropout_rates(model).values()) if rates is None else list(rates),
        "rates_over_training": [[round(p, 4) for p in record.rates.values()] for record in result.history],
        "train_nll": result.history[-1].nll,
    }


def _judge(work: Work, size: int, rates: Rates) -> dict[str, float]:
    """Train on most of the images and score those that were held out."""
    seed = work.run.options.seed
    order = _order(work, seed)[:size]
    held_out, rows = order[: size // HELD_OUT], order[size // HELD_OUT :]
    model, _ = _trained(work, rows, rates, seed)
    device = work.run.options.device
    x, y = work.train.images[held_out].flatten(1).to(device), work.train.labels[held_out].to(device)
    return scores(predict_classification(model, x, num_samples=SEARCH_SAMPLES, seed=seed, batch_size=2500), y)


def _trained(work: Work, rows: Tensor, rates: Rates | None, seed: int) -> tuple[nn.Module, FitResult]:
    model = _network(work.width, rates, seed).to(work.run.options.device)
    kind = "learned" if rates is None else f"fixed-{rates[0]:g}-{rates[1]:g}"
    name = f"width={work.width}-N={len(rows)}-{kind}-{seed}"
    result = fit(
        model,
        (work.train.images[rows].flatten(1), work.train.labels[rows]),
        likelihood="categorical",
        epochs=work.passes(len(rows)),
        batch_size=min(BATCH_SIZE, max(16, len(rows) // 16)),
        lr=LR,
        lengthscale=LENGTHSCALE,
        seed=seed,
        checkpoint=work.run.checkpoint(name),
        progress=name,
    )
    return model, result


def _network(width: int, rates: Rates | None, seed: int) -> nn.Sequential:
    """Build a network whose rates are learned, or fixed for inputs and for hidden units."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = mlp(28 * 28, 10, hidden=(width,) * DEPTH, p=START)
    if rates is None:
        return model
    for block, p in zip(dropout_blocks(model), (rates[0], *[rates[1]] * DEPTH), strict=True):
        block.site.start_at(max(p, NO_DROPOUT))
    return fix_dropout(model)


# Scores


def plain_prediction(model: nn.Module, x: Tensor) -> ClassificationPrediction:
    """Predict with dropout off, as one function without doubt.

    Args:
        model: A classifier in eval mode.
        x: Its inputs.

    Returns:
        The prediction.
    """
    with torch.no_grad():
        log_p = torch.log_softmax(model(x), dim=1)
    return ClassificationPrediction(log_p, torch.special.entr(log_p.exp()).sum(1))


def scores(prediction: ClassificationPrediction, target: Tensor) -> dict[str, float]:
    """Score predicted classes.

    Args:
        prediction: The prediction.
        target: The classes, shape (N,).

    Returns:
        Accuracy, negative log likelihood in nats per image, expected calibration error and Brier score.
    """
    return {
        "accuracy": accuracy(prediction.label, target).item(),
        "nll": -prediction.log_prob(target).mean().item(),
        "ece": calibration_error(prediction, target).item(),
        "brier": brier_score(prediction, target).item(),
    }
