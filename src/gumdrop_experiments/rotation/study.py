"""What the tutorial's networks and their learned twins say of a digit as it turns, and of pictures that are none."""

from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.ndimage import rotate
from torch import Tensor, nn

from gumdrop import predict_classification, sample
from gumdrop.likelihoods import ClassificationPrediction
from gumdrop_experiments.data.mnist import read_mnist
from gumdrop_experiments.harness import Plain, Run, WithPictures
from gumdrop_experiments.pages import rounded
from gumdrop_experiments.regularisation.study import NETWORKS, Digits, digits_of, plan_of, trained
from gumdrop_experiments.rotation import Settings
from gumdrop_experiments.shared import auroc, seeded

PICTURE = 9978
ADAM_LR = 1e-3
ANGLES = tuple(range(50, 128, 7))
SHOWN_CLASSES = (1, 3, 7)
DIGITS = 3
"""Significant digits of what there is to say of an angle."""
COMPARED, COMPARED_SAMPLES = 500, 30
"""Pictures of each kind, and draws, where digits are told from what is none."""
UNCERTAINTIES = ("predictive_entropy", "expected_entropy", "mutual_information")
SHOWN = ("perceptron-both", "lenet-half", "perceptron-learned", "lenet-learned")
"""Those of `regularisation`: the tutorial's two with fixed rates, and their twins."""


def study(settings: Settings, run: Run) -> WithPictures:
    """Train the networks, and ask them about the digit that turns and about what is no digit."""
    seed, device = run.options.seed, run.options.device
    digits, _ = digits_of(run)
    images = digits.test.images
    none = no_digits(images[:COMPARED], seed=seed)
    none |= {path.name: others(path, COMPARED) for path in settings.others}
    turned = rotated(images[min(PICTURE, len(images) - 1)], ANGLES)
    about = run.parts({name: partial(_trained, settings, run, name, digits) for name in SHOWN})
    with seeded(seed):
        models = {name: NETWORKS[name].build().to(device) for name in SHOWN}
    for name, model in models.items():
        model.load_state_dict(torch.load(run.checkpoint(name, keep=True), weights_only=True)["model"])
        model.eval()
    draw = partial(sample, num_samples=settings.num_samples, seed=seed)
    logits = {name: draw(model, turned.to(device)).cpu() for name, model in models.items()}
    asked = run.parts({f"{name}-telling": partial(_telling, models[name], images, none, seed) for name in SHOWN})
    turning = {name: _turning(models[name], turned, logits[name]) for name in SHOWN}
    networks = {n: about[n] | {"turning": turning[n], "telling": asked[f"{n}-telling"]} for n in SHOWN}
    shown = {name: torch.stack([drawn, drawn.softmax(2)])[..., SHOWN_CLASSES].numpy() for name, drawn in logits.items()}
    return WithPictures({"angles": ANGLES, "networks": networks}, (turned[:, 0].numpy(), shown))


def _trained(settings: Settings, run: Run, name: str, digits: Digits) -> Plain:
    plan = plan_of(settings, run)
    if settings.adam:
        plan = {family: (epochs, ADAM_LR) for family, (epochs, _) in plan.items()}
    network = trained(run, name, name, digits, plan, adam=settings.adam, keep=True)
    return {
        "label": network["label"],
        "epochs": len(network["errors"]),
        "accuracy": 1 - network["errors"][-1] / len(digits.test.labels),
        "rates": network["rates_over_training"][-1:],
    }


def _turning(model: nn.Module, pictures: Tensor, logits: Tensor) -> Plain:
    """Say what drawn functions predict at each angle, and the network itself; ``logits`` (draws, angles, classes)."""
    probabilities = torch.softmax(logits, dim=2)
    mean = probabilities.mean(0)
    expected = torch.special.entr(probabilities).sum(2).mean(0)
    prediction = ClassificationPrediction(mean.log(), expected)
    with torch.no_grad():
        off = model(pictures.to(next(model.parameters()).device)).cpu().softmax(1)
    return {
        "label": prediction.label.tolist(),
        "label_off": off.argmax(1).tolist(),
        "entropy_off": rounded(torch.special.entr(off).sum(1), DIGITS),
        **{name: rounded(getattr(prediction, name), DIGITS) for name in UNCERTAINTIES},
    }


def _telling(model: nn.Module, digits: Tensor, none: dict[str, Tensor], seed: int) -> Plain:
    """Rank digits and pictures that are none by each kind of uncertainty."""
    known = _uncertainty(model, digits[-COMPARED:], seed)  # not those that the others were made of
    scores = {}
    for name, pictures in none.items():
        unknown = _uncertainty(model, pictures, seed)
        scores[name] = {kind: auroc(known[kind], unknown[kind]) for kind in UNCERTAINTIES}
    return scores


def _uncertainty(model: nn.Module, pictures: Tensor, seed: int) -> dict[str, Tensor]:
    x = pictures.to(next(model.parameters()).device)
    prediction = predict_classification(model, x, num_samples=COMPARED_SAMPLES, seed=seed, batch_size=1000)
    return {kind: getattr(prediction, kind).cpu() for kind in UNCERTAINTIES}


def rotated(picture: Tensor, angles: tuple[int, ...]) -> Tensor:
    """Turn a picture (1, H, W) about its middle, counter-clockwise, by each of the angles in degrees."""
    turned = [rotate(picture[0].numpy(), angle, reshape=False) for angle in angles]
    return torch.from_numpy(np.stack(turned)).unsqueeze(1)


def no_digits(digits: Tensor, *, seed: int = 0) -> dict[str, Tensor]:
    """Make pictures that are no digits out of digits (N, 1, H, W)."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(digits[0].numel(), generator=generator)
    middle = digits.shape[-1] // 2
    halves = torch.cat([digits[..., :middle], digits.roll(1, 0)[..., middle:]], dim=-1)
    return {
        "shuffled pixels": digits.flatten(1)[:, order].view_as(digits),
        "two halves": halves,
        "negative": 1 - digits,
    }


def others(folder: Path, count: int) -> Tensor:
    """Read the first test images of another data set, (count, 1, 28, 28)."""
    images = read_mnist(folder, train=False).images[:count]
    if images.shape[1:] != (1, 28, 28):
        raise ValueError(f"the pictures in {folder} must be of 28 x 28 pixels, got {tuple(images.shape[2:])}")
    return images
