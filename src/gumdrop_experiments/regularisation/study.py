"""Test errors over training: five networks of the tutorial, and three that learn their rates."""

import math
from functools import partial

from gumdrop_experiments.data.mnist import read_digits
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.regularisation import Settings
from gumdrop_experiments.regularisation.training import (
    BATCH_SIZE,
    NETWORKS,
    PERCEPTRON_LR,
    RATE_LR,
    START,
    Digits,
    at_the_end,
    compare_masks,
    trained,
)
from gumdrop_experiments.training import LENGTHSCALE

EPOCHS = {"perceptron": 200, "lenet": 60}
STRENGTHS = (1.0, 4.0, 16.0, 64.0)
"""Held-out images choose among them."""
HELD_OUT, CHOOSING = 6, 0.3
"""One in so many training images is held out for that, and the share of the epochs that the choice takes."""
QUICK_EPOCHS, QUICK_TRAIN, QUICK_TEST = 2, 2000, 1000


def study(settings: Settings, run: Run) -> Plain:
    """Train all networks, each in a part."""
    digits, held_out = _digits(run)
    given = {"perceptron": settings.epochs, "lenet": settings.lenet_epochs}
    usual = dict.fromkeys(EPOCHS, QUICK_EPOCHS) if run.options.quick else EPOCHS
    epochs = {family: given[family] or usual[family] for family in EPOCHS}
    lr = {"perceptron": PERCEPTRON_LR, "lenet": settings.lenet_lr}

    def of(key: str, *, strength: float = 1.0, choosing: bool = False) -> Plain:
        network = NETWORKS[key]
        whole = epochs[network.family]
        return trained(
            network,
            held_out if choosing else digits,
            epochs=math.ceil(CHOOSING * whole) if choosing else whole,
            lr=lr[network.family],
            seed=run.options.seed,
            device=run.options.device,
            checkpoint=run.checkpoint(_try(key, strength) if choosing else key),
            strength=strength,
        )

    tuned = [key for key, network in NETWORKS.items() if network.tuned]
    calls = {"masks": partial(compare_masks, digits.train, run.options.seed)}
    calls |= {key: partial(of, key) for key in NETWORKS if key not in tuned}
    calls |= {_try(key, s): partial(of, key, strength=s, choosing=True) for key in tuned for s in STRENGTHS}
    found = run.parts(calls)
    chosen = {key: {f"{s:g}": at_the_end(found[_try(key, s)]["test_nll"]) for s in STRENGTHS} for key in tuned}
    best = {key: float(min(scores, key=scores.__getitem__)) for key, scores in chosen.items()}
    found |= run.parts({key: partial(of, key, strength=best[key]) for key in tuned})
    for key in tuned:
        found[key] |= {"strength": best[key], "held_out_nll": chosen[key]}
    return {
        "settings": {
            "epochs": epochs,
            "lr": lr,
            "rate_lr": RATE_LR,
            "batch_size": BATCH_SIZE,
            "lengthscale": LENGTHSCALE,
            "start": START,
        },
        "test_images": len(digits.test.labels),
        "masks": found["masks"],
        "networks": {key: found[key] for key in NETWORKS},
    }


def _try(key: str, strength: float) -> str:
    """Name the part that tries a strength."""
    return f"{key}-{strength:g}"


def _digits(run: Run) -> tuple[Digits, Digits]:
    """Read the images; and the training images alone, of which the last stand in for the test images."""
    train, test = read_digits(run.options)
    if run.options.quick:
        train, test = train.rows(slice(QUICK_TRAIN)), test.rows(slice(QUICK_TEST))
    count = len(train.labels) - len(train.labels) // HELD_OUT
    return Digits(train, test), Digits(train.rows(slice(count)), train.rows(slice(count, None)))
