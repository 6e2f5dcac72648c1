"""Networks that learn their rates, and networks whose rates are searched for, on more and more images."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor, nn

from gumdrop import dropout_rates, fix_dropout, predict_classification
from gumdrop.layers import dropout_blocks
from gumdrop.likelihoods import Lengthscale
from gumdrop.networks import mlp
from gumdrop.training import FitResult, fit
from gumdrop_experiments.data.mnist import DigitImages, read_digits
from gumdrop_experiments.harness import NO_DROPOUT, Plain, Run
from gumdrop_experiments.mnist import Settings
from gumdrop_experiments.shared import class_scores, plain_prediction, seeded, shuffled

SIZES = (1000, 4000, 15_000, 60_000)
WIDTH, DEPTH = 512, 3
WIDTHS, WIDTH_SIZE = (64, 256, 1024), 4000
"""Of the sweep over widths, and its number of images; the usual width is there already."""
FIXED: dict[str, tuple[float, float]] = {"0 / .2": (0.0, 0.2), ".1 / .3": (0.1, 0.3), ".2 / .5": (0.2, 0.5)}
"""Settings to choose from: drop probability of inputs and of hidden units."""
HELD_OUT = 6
"""One image in this many judges the fixed settings."""
EPOCHS, BATCH_SIZE, LR = 12, 256, 1e-3
LENGTHSCALE: Lengthscale = 1.0
START = 0.5
"""Rates begin high and fall: weights that have learned under little noise keep rates low, see docs/mnist.md."""
QUICK_SIZES, QUICK_WIDTHS, QUICK_WIDTH, QUICK_EPOCHS, QUICK_TEST = (250, 1000, 4000), (32, 128), 64, 1, 2000

Rates = tuple[float, float]


@dataclass(frozen=True)
class _Work:
    """The images, and how networks are trained on them."""

    run: Run
    train: DigitImages
    test: DigitImages
    epochs: int
    width: int
    num_samples: int

    def passes(self, num_data: int) -> int:
        """More over fewer images, as the root of what is missing; the steps still become fewer."""
        return max(1, round(self.epochs * math.sqrt(60_000 / num_data)))


def study(settings: Settings, run: Run) -> Plain:
    """Train both kinds of networks on each number of images, the largest first, and then sweep over widths."""
    quick = run.options.quick
    train, test = read_digits(run.options)
    sizes = sorted(settings.sizes or (QUICK_SIZES if quick else SIZES))
    if not 10 * HELD_OUT <= sizes[0] <= sizes[-1] <= len(train.labels):
        raise ValueError(f"`sizes` must lie between {10 * HELD_OUT} and {len(train.labels)}, got {sizes}")
    if quick:
        test = test.rows(slice(QUICK_TEST))
    epochs, width = (QUICK_EPOCHS, QUICK_WIDTH) if quick else (EPOCHS, WIDTH)
    work = _Work(run, train, test, settings.epochs or epochs, width, settings.num_samples)
    seeds = run.options.seeds(settings.seeds)
    compared = _compared(work, sizes, seeds)
    as_run = {
        "layers": "-".join(map(str, [784, *[width] * DEPTH, 10])),
        "epochs": work.epochs,
        "batch_size": BATCH_SIZE,
        "lr": LR,
        "lengthscale": LENGTHSCALE,
        "test_images": len(test.labels),
    }
    return {"settings": as_run, "sizes": compared, "widths": _sweep(work, compared)}


def _compared(work: _Work, sizes: Sequence[int], seeds: Sequence[int]) -> list[Plain]:
    """Learned rates, the search over fixed rates, and networks with what it chose; each number of images."""
    parts, down = work.run.parts, sizes[::-1]
    keys = [(n, s) for n in down for s in seeds]
    learned = parts({_name(n, "learned", s): partial(_scored, work, n, None, s) for n, s in keys})
    tried = [(n, i, rates) for n in down for i, rates in enumerate(FIXED.values())]
    judged = parts({_name(n, "search", i): partial(_judged, work, n, rates) for n, i, rates in tried})
    search = {n: {name: judged[_name(n, "search", i)] for i, name in enumerate(FIXED)} for n in sizes}
    chosen = {n: min(FIXED, key=lambda name: float(search[n][name]["nll"])) for n in sizes}
    again = parts({_name(n, "fixed", s): partial(_scored, work, n, FIXED[chosen[n]], s) for n, s in keys})
    return [
        {
            "num_data": n,
            "learned": [learned[_name(n, "learned", s)] for s in seeds],
            "search": search[n],
            "chosen": chosen[n],
            "fixed": [again[_name(n, "fixed", s)] for s in seeds],
        }
        for n in sizes
    ]


def _name(num_data: int, kind: str, which: int) -> str:
    return f"N={num_data}-{kind}-{which}"


def _sweep(work: _Work, compared: Sequence[Plain]) -> list[Plain]:
    """Learned networks of other widths, beside the one that is there."""
    usual = min(compared, key=lambda each: abs(each["num_data"] - WIDTH_SIZE))
    size, seed = usual["num_data"], work.run.options.seed
    widths = QUICK_WIDTHS if work.run.options.quick else WIDTHS
    calls = {f"width={width}": partial(_scored, replace(work, width=width), size, None, seed) for width in widths}
    results = {work.width: usual["learned"][0], **dict(zip(widths, work.run.parts(calls).values(), strict=True))}
    return [{"width": width, "num_data": size, **results[width]} for width in sorted(results)]


def _scored(work: _Work, size: int, rates: Rates | None, seed: int) -> Plain:
    rows = shuffled(len(work.train.labels), seed)[:size]  # smaller sets are the beginnings of larger ones
    model, result = _trained(work, rows, rates, seed)
    device = work.run.options.device
    x, y = work.test.images.flatten(1).to(device), work.test.labels.to(device)
    drawn = predict_classification(model, x, num_samples=work.num_samples, seed=seed, batch_size=2500)
    return {
        "seed": seed,
        "drawn": class_scores(drawn, y),
        "plain": class_scores(plain_prediction(model, x), y),
        "rates": list(dropout_rates(model).values()) if rates is None else list(rates),
        "rates_over_training": [[round(p, 4) for p in record.rates.values()] for record in result.history],
        "train_nll": result.history[-1].nll,
    }


def _judged(work: _Work, size: int, rates: Rates) -> dict[str, float]:
    seed = work.run.options.seed
    order = shuffled(len(work.train.labels), seed)[:size]
    held_out, rows = order[: size // HELD_OUT], order[size // HELD_OUT :]
    model, _ = _trained(work, rows, rates, seed)
    device = work.run.options.device
    x, y = work.train.images[held_out].flatten(1).to(device), work.train.labels[held_out].to(device)
    drawn = predict_classification(model, x, num_samples=20, seed=seed, batch_size=2500)
    return class_scores(drawn, y)


def _trained(work: _Work, rows: Tensor, rates: Rates | None, seed: int) -> tuple[nn.Module, FitResult]:
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
    with seeded(seed):
        model = mlp(28 * 28, 10, hidden=(width,) * DEPTH, p=START)
    if rates is None:
        return model
    for block, p in zip(dropout_blocks(model), (rates[0], *[rates[1]] * DEPTH), strict=True):
        block.site.start_at(max(p, NO_DROPOUT))
    return fix_dropout(model)
