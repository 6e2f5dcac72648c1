"""Estimators of a gradient: held against each other and the exact one, over searches, and in what is learned."""

from functools import partial
from pathlib import Path

from torch import nn

from gumdrop.machine.threads import limited_threads
from gumdrop_experiments.data.mnist import MNIST, read_mnist
from gumdrop_experiments.gradients import Settings
from gumdrop_experiments.gradients.bias import enumeration, identity
from gumdrop_experiments.gradients.estimators import at_temperatures
from gumdrop_experiments.gradients.norms import search
from gumdrop_experiments.gradients.uci import SETS, compare
from gumdrop_experiments.harness import Plain, data_folder
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.networks.convolutional import digit_batches, digit_perceptron, train_or_load

FIRST_IMAGE, ENUMERATED = 1000, 5
CLASSIFIER_STEPS, QUICK_CLASSIFIER_STEPS = 900, 200
EPOCHS, QUICK_EPOCHS = 60, 10


def study(settings: Settings, run: Run) -> Plain:
    """Search for masks with each estimator, count up its bias and variance, and learn rates with it."""
    quick, seed = run.options.quick, run.options.seed
    folder = data_folder(run.options, "mnist", sources=MNIST, files=["t10k-images-idx3-ubyte.gz"])
    uci = data_folder(run.options, "uci", files=[f"{name}/data.txt" for name in SETS])
    model = _classifier(run, folder)
    images = read_mnist(folder, train=False).images[FIRST_IMAGE:]
    searched = partial(search, model, images[:1], settings.runs, settings.iterations, seed)
    norms = run.parts({name.replace(" ", "_"): partial(searched, *which) for name, which in at_temperatures().items()})
    epochs = QUICK_EPOCHS if quick else EPOCHS
    return {
        "identity": run.part("identity", identity),
        "enumeration": run.part(
            "enumeration", partial(enumeration, model, images[:ENUMERATED], settings.num_draws, seed)
        ),
        "norms": dict(zip(at_temperatures(), norms.values(), strict=True)),
        "uci": run.parts({name: partial(_learned, uci / name, settings.splits, epochs, seed) for name in SETS}),
    }


def _classifier(run: Run, folder: Path) -> nn.Sequential:
    """Train the classifier of digits, or read its weights in the folder of the run."""
    place, batches = run.folder / "digit_perceptron.pt", partial(digit_batches, folder)
    steps = QUICK_CLASSIFIER_STEPS if run.options.quick else CLASSIFIER_STEPS
    return train_or_load(digit_perceptron, batches, place, steps=steps, seed=run.options.seed)


def _learned(folder: Path, splits: int, epochs: int, seed: int) -> Plain:
    """Learn rates on one set."""
    with limited_threads(1):
        return compare(folder, num_splits=splits, epochs=epochs, seed=seed)
