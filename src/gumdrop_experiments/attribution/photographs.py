"""Photographs, explained to a network that tells crops of them apart."""

import functools
from pathlib import Path

import torch

from gumdrop.attribution import FIDO, FIDOSettings, read_photograph
from gumdrop.metrics import accuracy
from gumdrop_experiments.attribution.scores import explained
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.networks.convolutional import photograph_batches, photograph_network, train_or_load

PHOTOGRAPHS = ("astronaut.png", "camera.png", "chelsea.png", "coffee.png", "raccoon.png", "retina.jpg", "rocket.jpg")
PICTURE, CROP, CELLS = 160, 96, 32
STEPS, QUICK_STEPS = 400, 60


def photographs(run: Run, folder: Path, settings: FIDOSettings) -> Plain:
    """Train a network that tells crops of the photographs apart, and explain each photograph to it."""
    pictures = torch.stack([read_photograph(folder / name, size=(PICTURE, PICTURE)) for name in PHOTOGRAPHS])
    model = train_or_load(
        functools.partial(photograph_network, len(PHOTOGRAPHS)),
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
    found = FIDO(model, settings).explain(small, target, infill="blur", mask_size=CELLS, seed=run.options.seed)
    return {"names": [Path(name).stem for name in PHOTOGRAPHS], "crop_accuracy": right, **explained(found)}
