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
    """Train the networks, each in a part."""
    chosen = [key for key in NETWORKS if key in (settings.networks or NETWORKS)]
    digits, held_out = digits_of(run)
    given = {"perceptron": settings.epochs, "lenet": settings.lenet_epochs}
    usual = dict.fromkeys(EPOCHS, QUICK_EPOCHS) if run.options.quick else EPOCHS
    epochs = {family: given[family] or usual[family] for family in EPOCHS}
    shorter = {family: math.ceil(CHOOSING * whole) for family, whole in epochs.items()}
    lr = {"perceptron": PERCEPTRON_LR, "lenet": settings.lenet_lr}
    tuned = [key for key in chosen if NETWORKS[key].tuned]
    tries = {f"{key}-{strength:g}": (key, strength) for key in tuned for strength in STRENGTHS}
    calls = {"masks": partial(compare_masks, digits.train, run.options.seed)}
    calls |= {key: partial(_trained, run, key, key, digits, epochs, lr) for key in chosen if key not in tuned}
    calls |= {name: partial(_trained, run, name, key, held_out, shorter, lr, s) for name, (key, s) in tries.items()}
    found = run.parts(calls)
    scores: dict[str, dict[str, float]] = {key: {} for key in tuned}
    for name, (key, strength) in tries.items():
        scores[key][f"{strength:g}"] = at_the_end(found[name]["test_nll"])
    best = {key: float(min(of_key, key=of_key.__getitem__)) for key, of_key in scores.items()}
    found |= run.parts({key: partial(_trained, run, key, key, digits, epochs, lr, best[key]) for key in tuned})
    for key in tuned:
        found[key] |= {"strength": best[key], "held_out_nll": scores[key]}
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
        "networks": {key: found[key] for key in chosen},
    }


def _trained(run: Run, name: str, key: str, digits: Digits, epochs: Plain, lr: Plain, strength: float = 1.0) -> Plain:
    network, options = NETWORKS[key], run.options
    return trained(
        network,
        digits,
        epochs=epochs[network.family],
        lr=lr[network.family],
        seed=options.seed,
        device=options.device,
        checkpoint=run.checkpoint(name),
        strength=strength,
    )


def digits_of(run: Run) -> tuple[Digits, Digits]:
    """Read the images; and the training images alone, of which the last stand in for the test images."""
    train, test = read_digits(run.options)
    if run.options.quick:
        train, test = train.rows(slice(QUICK_TRAIN)), test.rows(slice(QUICK_TEST))
    count = len(train.labels) - len(train.labels) // HELD_OUT
    return Digits(train, test), Digits(train.rows(slice(count)), train.rows(slice(count, None)))
