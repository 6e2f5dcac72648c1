"""Estimators of a gradient: held against each other and the exact one, over searches, and in what is learned."""

from functools import partial

from gumdrop_experiments.data.mnist import MNIST, UNSEEN, read_mnist
from gumdrop_experiments.gradients import Settings
from gumdrop_experiments.gradients.bias import enumeration, identity
from gumdrop_experiments.gradients.estimators import at_temperatures
from gumdrop_experiments.gradients.norms import search
from gumdrop_experiments.gradients.uci import SETS, compare
from gumdrop_experiments.harness import Plain, data_folder
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.networks.convolutional import digit_classifier, digit_perceptron

EPOCHS, QUICK_EPOCHS = 60, 10


def study(settings: Settings, run: Run) -> Plain:
    """Search for masks with each estimator, count up its bias and variance, and learn rates with it."""
    quick, seed = run.options.quick, run.options.seed
    folder = data_folder(run.options, "mnist", sources=MNIST, files=["t10k-images-idx3-ubyte.gz"])
    uci = data_folder(run.options, "uci", files=[f"{name}/data.txt" for name in SETS])
    model = digit_classifier(digit_perceptron, run, folder)
    images = read_mnist(folder, train=False).images[UNSEEN]
    searched = partial(search, model, images[:1], settings.runs, settings.iterations, seed)
    norms = run.parts({name.replace(" ", "_"): partial(searched, *which) for name, which in at_temperatures().items()})
    epochs = QUICK_EPOCHS if quick else EPOCHS
    return {
        "identity": run.part("identity", identity),
        "enumeration": run.part("enumeration", partial(enumeration, model, images[:5], settings.num_draws, seed)),
        "norms": dict(zip(at_temperatures(), norms.values(), strict=True)),
        "uci": run.parts({name: partial(compare, uci / name, settings.splits, epochs, seed) for name in SETS}),
    }
