"""Test errors over training: five networks of the tutorial, and two that learn their rates."""

from functools import partial

from gumdrop_experiments.data.mnist import MNIST, DigitImages, read_mnist
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.regularisation.networks import NETWORKS, START
from gumdrop_experiments.regularisation.settings import Settings
from gumdrop_experiments.regularisation.training import (
    BATCH_SIZE,
    LENGTHSCALE,
    PERCEPTRON_LR,
    RATE_LR,
    Digits,
    compare_masks,
    trained,
)

__all__ = ["study"]

EPOCHS = {"perceptron": 200, "lenet": 60}
QUICK_EPOCHS, QUICK_TRAIN, QUICK_TEST = 2, 2000, 1000


def study(settings: Settings, run: Run) -> Plain:
    """Train all networks, each in a part."""
    digits = _digits(run)
    given = {"perceptron": settings.epochs, "lenet": settings.lenet_epochs}
    usual = dict.fromkeys(EPOCHS, QUICK_EPOCHS) if run.options.quick else EPOCHS
    epochs = {family: given[family] or usual[family] for family in EPOCHS}
    lr = {"perceptron": PERCEPTRON_LR, "lenet": settings.lenet_lr}

    def of(key: str) -> Plain:
        network = NETWORKS[key]
        return trained(
            network,
            digits,
            epochs=epochs[network.family],
            lr=lr[network.family],
            seed=run.options.seed,
            device=run.options.device,
            checkpoint=run.checkpoint(key),
        )

    masks = partial(compare_masks, digits.train, run.options.seed)
    found = run.parts({"masks": masks, **{key: partial(of, key) for key in NETWORKS}})
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


def _digits(run: Run) -> Digits:
    """Read the images; the first of them for a quick run."""
    folder = data_folder(run.options, "mnist", sources=MNIST)
    train, test = read_mnist(folder), read_mnist(folder, train=False)
    if not run.options.quick:
        return Digits(train, test)
    return Digits(
        DigitImages(train.images[:QUICK_TRAIN], train.labels[:QUICK_TRAIN]),
        DigitImages(test.images[:QUICK_TEST], test.labels[:QUICK_TEST]),
    )
