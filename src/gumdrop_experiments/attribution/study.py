"""Masks on planted evidence, digits and photographs, how long they take, and a network that tells crops apart."""

from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

from gumdrop.attribution import FIDO, FIDOSettings, read_photograph
from gumdrop.metrics import accuracy
from gumdrop_experiments.attribution import Settings
from gumdrop_experiments.attribution.masks import digits, explained, planted
from gumdrop_experiments.attribution.peers import require_captum, speed
from gumdrop_experiments.data.mnist import MNIST, UNSEEN, read_mnist
from gumdrop_experiments.harness import Plain, Run, WithPictures, data_folder
from gumdrop_experiments.networks.convolutional import (
    CLASSIFIER_STEPS,
    QUICK_CLASSIFIER_STEPS,
    digit_classifier,
    digit_network,
    export,
    photograph_batches,
    photograph_network,
    train_or_load,
)

SHOWN = 20
SPEED_ITERATIONS, QUICK_SPEED_ITERATIONS = 20, 10
PHOTOGRAPHS = ("astronaut.png", "camera.png", "chelsea.png", "coffee.png", "raccoon.png", "retina.jpg", "rocket.jpg")
PICTURE, CROP, CELLS = 160, 96, 32
STEPS, QUICK_STEPS = 400, 60


def study(settings: Settings, run: Run) -> WithPictures:
    """Explain each kind of picture, and compare with other methods."""
    require_captum()
    mnist = data_folder(run.options, "mnist", sources=MNIST, files=["t10k-images-idx3-ubyte.gz"])
    folder = data_folder(run.options, "images", files=PHOTOGRAPHS)
    fido, seed = FIDOSettings(iterations=settings.iterations), run.options.seed
    classifier = run.part("classifier", partial(_judged, run, mnist))
    model = digit_classifier(digit_network, run, mnist)
    images = read_mnist(mnist, train=False).images[UNSEEN]
    iterations = QUICK_SPEED_ITERATIONS if run.options.quick else SPEED_ITERATIONS
    parts = {
        "classifier": classifier,
        "planted": run.part("planted", partial(planted, fido, seed)),
        "digits": run.part("digits", partial(digits, model, images[: settings.num_images], fido, seed)),
        "shown": run.part(
            "shown", lambda: explained(FIDO(model, fido).explain(images[:SHOWN], infill="blur", seed=seed))
        ),
        "speed": run.part("speed", partial(speed, model, images[:SHOWN], iterations, seed)),
        "photographs": run.part("photographs", partial(photographs, run, folder, fido)),
    }
    pictures = {name: part.pop("pictures") for name, part in parts.items() if "pictures" in part}
    return WithPictures({"settings": asdict(fido), **parts}, pictures)


def _judged(run: Run, mnist: Path) -> Plain:
    model, test = digit_classifier(digit_network, run, mnist), read_mnist(mnist, train=False)
    export(model, run.folder / "digits.pt2", shape=(1, 28, 28))
    with torch.no_grad():
        right = accuracy(model(test.images).argmax(1), test.labels).item()
    return {"steps": QUICK_CLASSIFIER_STEPS if run.options.quick else CLASSIFIER_STEPS, "test_accuracy": right}


def photographs(run: Run, folder: Path, settings: FIDOSettings) -> Plain:
    """Train a network that tells crops of the photographs apart, and explain each photograph to it."""
    pictures = torch.stack([read_photograph(folder / name, size=(PICTURE, PICTURE)) for name in PHOTOGRAPHS])
    model = train_or_load(
        partial(photograph_network, len(PHOTOGRAPHS)),
        lambda: photograph_batches(pictures, size=CROP, batch_size=64),
        run.folder / "photographs.pt",
        steps=QUICK_STEPS if run.options.quick else STEPS,
        seed=run.options.seed,
    )
    crops, labels = photograph_batches(pictures, size=CROP, batch_size=512)(
        torch.Generator().manual_seed(run.options.seed + 1)
    )
    with torch.no_grad():
        right = accuracy(model(crops).argmax(1), labels).item()
    small = torch.nn.functional.interpolate(pictures, size=(CROP, CROP), mode="area")
    target = torch.arange(len(PHOTOGRAPHS))
    explanation = FIDO(model, settings).explain(small, target, infill="blur", mask_size=CELLS, seed=run.options.seed)
    return {"names": [Path(name).stem for name in PHOTOGRAPHS], "crop_accuracy": right, **explained(explanation)}
