"""What two networks say of a digit as it turns, and of pictures that are no digits."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.ndimage import rotate
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from gumdrop.likelihoods import ClassificationPrediction, Lengthscale
from gumdrop.machine.files import replacing
from gumdrop.networks import dropout_rates, learn_dropout
from gumdrop.prediction import predict_classification, sample
from gumdrop.training import fit
from gumdrop_experiments.data.mnist import DigitImages, read_digits, read_mnist
from gumdrop_experiments.harness import Plain, WithPictures
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.networks.convolutional import digit_perceptron, lenet
from gumdrop_experiments.pages import rounded
from gumdrop_experiments.rotation import Settings
from gumdrop_experiments.training import seeded

PICTURE = 9978
ANGLES = tuple(range(50, 128, 7))
SHOWN_CLASSES, SHOWN_DRAWS = 3, 100
DIGITS = 3
"""Significant digits of what the figures show."""
LR, BATCH_SIZE = 1e-3, 256
LENGTHSCALE: Lengthscale = 1.0
START = 0.2
EPOCHS = {"perceptron": 6, "lenet": 3}
NUM_SAMPLES, QUICK_SAMPLES, QUICK_TRAIN = 1000, 100, 4000
COMPARED, COMPARED_SAMPLES = 500, 30
"""Pictures of each kind, and draws, where digits are told from what is none."""
UNCERTAINTIES = ("predictive_entropy", "expected_entropy", "mutual_information")
BUILDERS: dict[str, Callable[[], nn.Sequential]] = {"perceptron": digit_perceptron, "lenet": lenet}


def study(settings: Settings, run: Run) -> WithPictures:
    """Train both networks, and ask them about the digit that turns and about what is no digit."""
    seed, device = run.options.seed, run.options.device
    train, test = read_digits(run.options)
    if run.options.quick:
        train = train.rows(slice(QUICK_TRAIN))
    none = no_digits(test.images[:COMPARED], seed=seed)
    none |= {path.name: others(path, COMPARED) for path in settings.others}
    num_samples = settings.num_samples or (QUICK_SAMPLES if run.options.quick else NUM_SAMPLES)
    turned = rotated(test.images[min(PICTURE, len(test.images) - 1)], ANGLES)
    about = run.parts({name: partial(_trained, run, name, train, test) for name in BUILDERS})
    models = {name: _network(name, seed).to(device) for name in BUILDERS}
    for name, model in models.items():
        model.load_state_dict(torch.load(_weights(run, name), weights_only=True))
        model.eval()
    asked = run.parts(
        {f"{name}-turning": partial(_turning, model, turned, num_samples, seed) for name, model in models.items()}
        | {f"{name}-telling": partial(_telling, model, test.images, none, seed) for name, model in models.items()}
    )
    networks = {
        name: {**about[name], "turning": asked[f"{name}-turning"], "telling": asked[f"{name}-telling"]}
        for name in BUILDERS
    }
    return WithPictures({"angles": ANGLES, "num_samples": num_samples, "networks": networks}, turned[:, 0].numpy())


def _network(name: str, seed: int) -> nn.Sequential:
    with seeded(seed):
        return learn_dropout(BUILDERS[name](), p=START)


def _weights(run: Run, name: str) -> Path:
    """Find the file of a network's weights, which stay in the folder of the run."""
    return run.folder / f"{name}.pt"


def _trained(run: Run, name: str, train: DigitImages, test: DigitImages) -> Plain:
    """Train a network, leave its weights, and say how good it is."""
    seed, device = run.options.seed, run.options.device
    epochs = 1 if run.options.quick else EPOCHS[name]
    model = _network(name, seed).to(device)
    fit(
        model,
        (train.images, train.labels),
        likelihood="categorical",
        epochs=epochs,
        batch_size=BATCH_SIZE,
        lr=LR,
        lengthscale=LENGTHSCALE,
        seed=seed,
        checkpoint=run.checkpoint(name),
        progress=name,
    )
    with replacing(_weights(run, name), "wb") as file:
        torch.save(model.state_dict(), file)
    with torch.no_grad():
        parts = zip(test.images.split(1000), test.labels.split(1000), strict=True)
        right = sum(int((model(x.to(device)).argmax(1).cpu() == y).sum()) for x, y in parts)
    return {"epochs": epochs, "accuracy": right / len(test.labels), "rates": list(dropout_rates(model).values())}


def _turning(model: nn.Module, pictures: Tensor, num_samples: int, seed: int) -> Plain:
    """Draw functions at each angle: the softmax of the classes that come out on top, and the parts of the entropy."""
    device = next(model.parameters()).device
    logits = sample(model, pictures.to(device), num_samples=num_samples, seed=seed).cpu()  # draws, angles, classes
    probabilities = torch.softmax(logits, dim=2)
    mean = probabilities.mean(0)
    expected = torch.special.entr(probabilities).sum(2).mean(0)
    prediction = ClassificationPrediction(mean.log(), expected)
    top = mean.mean(0).topk(SHOWN_CLASSES).indices.sort().values
    return {
        "classes": top.tolist(),
        "inputs": rounded(logits[:SHOWN_DRAWS, :, top], DIGITS),
        "outputs": rounded(probabilities[:SHOWN_DRAWS, :, top], DIGITS),
        "mean": rounded(mean, DIGITS),
        "label": prediction.label.tolist(),
        **{name: rounded(getattr(prediction, name), DIGITS) for name in UNCERTAINTIES},
    }


def _telling(model: nn.Module, digits: Tensor, none: dict[str, Tensor], seed: int) -> Plain:
    """Rank digits and pictures that are none by each kind of uncertainty."""
    known = _uncertainty(model, digits[-COMPARED:], seed)  # not those that the others were made of
    found = {}
    for name, pictures in none.items():
        unknown = _uncertainty(model, pictures, seed)
        found[name] = {kind: auroc(known[kind], unknown[kind]) for kind in UNCERTAINTIES}
    return found


def _uncertainty(model: nn.Module, pictures: Tensor, seed: int) -> dict[str, Tensor]:
    device = next(model.parameters()).device
    prediction = predict_classification(
        model, pictures.to(device), num_samples=COMPARED_SAMPLES, seed=seed, batch_size=1000
    )
    return {kind: getattr(prediction, kind).cpu() for kind in UNCERTAINTIES}


def auroc(known: Tensor, unknown: Tensor) -> float:
    """Area under the receiver's curve: how often an unknown picture is more uncertain than a known one."""
    truth = np.repeat([0, 1], [len(known), len(unknown)])
    return float(roc_auc_score(truth, torch.cat([known, unknown]).numpy()))


def rotated(picture: Tensor, angles: tuple[int, ...]) -> Tensor:
    """Turn a picture (1, H, W) about its middle, counter-clockwise, by each of the angles in degrees."""
    turned = [rotate(picture[0].numpy(), angle, reshape=False, order=1) for angle in angles]
    return torch.from_numpy(np.stack(turned)).clamp(0, 1).unsqueeze(1)


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
