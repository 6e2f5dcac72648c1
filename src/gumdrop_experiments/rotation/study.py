"""A digit that turns: what two networks say of a 1 at twelve angles, and where their doubt comes from.

The picture is number 9978 of the test images, turned by 50 to 127 degrees. A thousand functions are drawn from each
network; their inputs and outputs of the softmax show how a class that is thought certain by each function is not agreed
upon by all. Doubt is then asked to tell digits from pictures that are none.

References:
    Gal & Ghahramani 2016, "Dropout as a Bayesian Approximation" (arXiv:1506.02142), section 5.2.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.ndimage import rotate
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from gumdrop.machine.files import replacing
from gumdrop.machine.threads import limited_threads
from gumdrop.networks import dropout_rates, learn_dropout
from gumdrop.objective.kl import Lengthscale
from gumdrop.prediction import ClassificationPrediction, predict_classification, sample
from gumdrop.training import fit
from gumdrop_experiments.data.mnist import MNIST, DigitImages, read_mnist
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.networks.convolutional import digit_perceptron, lenet
from gumdrop_experiments.rotation import figures

__all__ = ["auroc", "rotated", "strangers"]

PICTURE = 9978
ANGLES = tuple(range(50, 128, 7))
SHOWN_CLASSES, SHOWN_DRAWS = 3, 100
LR, BATCH_SIZE = 1e-3, 256
LENGTHSCALE: Lengthscale = 1.0
START = 0.2
EPOCHS = {"perceptron": 6, "lenet": 3}
NUM_SAMPLES, QUICK_SAMPLES, QUICK_TRAIN = 1000, 100, 4000
COMPARED, COMPARED_SAMPLES = 500, 30
"""Pictures of each kind, and draws, where digits are told from what is none."""
SCORES = ("predictive_entropy", "expected_entropy", "mutual_information")

BUILDERS: dict[str, Callable[[], nn.Sequential]] = {"perceptron": digit_perceptron, "lenet": lenet}


def rotation(
    options: RunOptions = RunOptions(), *, others: tuple[Path, ...] = (), num_samples: int | None = None
) -> None:
    """Turn a digit and watch two networks doubt; tell digits from what is none by their doubt.

    Args:
        options: The flags that all experiments share.
        others: Folders of idx files that hold no digits, such as letters or clothes, of 28 x 28 pixels.
        num_samples: Draws for each angle; 1,000 by default, 100 with --quick.

    Raises:
        ValueError: If there are no draws, or the pictures of a folder have another size.
    """
    if num_samples is not None and num_samples < 1:
        raise ValueError(f"`num_samples` must be at least 1, got {num_samples}")
    folder = data_folder(options, "mnist", sources=MNIST)
    train, test = read_mnist(folder), read_mnist(folder, train=False)
    unknown = strangers(test.images[:COMPARED], seed=options.seed) | {path.name: _others(path) for path in others}
    if options.quick:
        train = DigitImages(train.images[:QUICK_TRAIN], train.labels[:QUICK_TRAIN])
    draws = num_samples or (QUICK_SAMPLES if options.quick else NUM_SAMPLES)
    own = {"others": [str(path) for path in others], "num_samples": num_samples}
    with limited_threads(1), Run("rotation", options, own) as run:
        turned = rotated(test.images[min(PICTURE, len(test.images) - 1)], ANGLES)
        networks = {}
        for name in BUILDERS:
            model, about = _network(run, name, train, test)
            turning = run.part(f"{name}-turning", partial(_turning, model, turned, draws, options.seed))
            telling = run.part(f"{name}-telling", partial(_telling, model, test.images, unknown, options.seed))
            networks[name] = {**about, "turning": turning, "telling": telling}
        pictures = [[round(v, 2) for v in picture.flatten().tolist()] for picture in turned]
        results = {"angles": ANGLES, "num_samples": draws, "networks": networks}
        run.figure("rotation", figures.scatter(results, np.array(pictures).reshape(-1, 28, 28)))
        run.figure("rotation-entropy", figures.entropy(results))
        run.finish(results, figures.page(results))


def rotated(picture: Tensor, angles: tuple[int, ...]) -> Tensor:
    """Turn a picture about its middle, counter-clockwise.

    Args:
        picture: Shape (1, H, W), in [0, 1].
        angles: In degrees.

    Returns:
        Shape (angles, 1, H, W).
    """
    turned = [rotate(picture[0].numpy(), angle, reshape=False, order=1) for angle in angles]
    return torch.from_numpy(np.stack(turned)).clamp(0, 1).unsqueeze(1)


def strangers(digits: Tensor, *, seed: int = 0) -> dict[str, Tensor]:
    """Make pictures that are no digits out of digits.

    Args:
        digits: Shape (N, 1, H, W).
        seed: Of the shuffling.

    Returns:
        By name: pixels in one random order, left halves beside right halves of other digits, and brightness
        turned round.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(digits[0].numel(), generator=generator)
    middle = digits.shape[-1] // 2
    halves = torch.cat([digits[..., :middle], digits.roll(1, 0)[..., middle:]], dim=-1)
    return {
        "shuffled pixels": digits.flatten(1)[:, order].view_as(digits),
        "two halves": halves,
        "negative": 1 - digits,
    }


def _others(folder: Path) -> Tensor:
    images = read_mnist(folder, train=False).images[:COMPARED]
    if images.shape[1:] != (1, 28, 28):
        raise ValueError(f"the pictures in {folder} must be of 28 x 28 pixels, got {tuple(images.shape[2:])}")
    return images


# The networks


def _network(run: Run, name: str, train: DigitImages, test: DigitImages) -> tuple[nn.Module, dict[str, Any]]:
    """Train a network in a part that says how good it is; its weights stay in the folder."""
    seed, place = run.options.seed, run.folder / f"{name}.pt"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = learn_dropout(
            BUILDERS[name](), p=START, predicate=lambda _, layer: getattr(layer, "in_channels", 0) != 1
        )
    model.to(run.options.device)

    def trained() -> dict[str, Any]:
        epochs = 1 if run.options.quick else EPOCHS[name]
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
        with replacing(place, "wb") as file:
            torch.save(model.state_dict(), file)
        with torch.no_grad():
            parts = zip(test.images.split(1000), test.labels.split(1000), strict=True)
            right = sum(int((model(x.to(run.options.device)).argmax(1).cpu() == y).sum()) for x, y in parts)
        return {"epochs": epochs, "accuracy": right / len(test.labels), "rates": list(dropout_rates(model).values())}

    about = run.part(name, trained)
    model.load_state_dict(torch.load(place, weights_only=True))
    return model.eval(), about


def _turning(model: nn.Module, pictures: Tensor, num_samples: int, seed: int) -> dict[str, Any]:
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
        "inputs": _rounded(logits[:SHOWN_DRAWS, :, top]),
        "outputs": _rounded(probabilities[:SHOWN_DRAWS, :, top]),
        "mean": _rounded(mean),
        "label": prediction.label.tolist(),
        **{name: _rounded(getattr(prediction, name)) for name in SCORES},
    }


def _telling(model: nn.Module, digits: Tensor, unknown: dict[str, Tensor], seed: int) -> dict[str, Any]:
    """Rank digits and pictures that are none by each kind of doubt."""
    known = _doubt(model, digits[-COMPARED:], seed)  # not those that the strangers were made of
    found = {}
    for name, pictures in unknown.items():
        doubt = _doubt(model, pictures, seed)
        found[name] = {score: auroc(known[score], doubt[score]) for score in SCORES}
    return found


def _doubt(model: nn.Module, pictures: Tensor, seed: int) -> dict[str, Tensor]:
    device = next(model.parameters()).device
    prediction = predict_classification(
        model, pictures.to(device), num_samples=COMPARED_SAMPLES, seed=seed, batch_size=1000
    )
    return {score: getattr(prediction, score).cpu() for score in SCORES}


def auroc(known: Tensor, unknown: Tensor) -> float:
    """Area under the receiver's curve: how often an unknown picture is doubted more than a known one.

    Args:
        known: Doubt about each known picture.
        unknown: Doubt about each unknown one.

    Returns:
        1 for a doubt that always tells them apart, 0.5 for one that says nothing.
    """
    truth = np.repeat([0, 1], [len(known), len(unknown)])
    return float(roc_auc_score(truth, torch.cat([known, unknown]).numpy()))


def _rounded(values: Tensor) -> Any:
    return np.vectorize(lambda value: float(f"{value:.3g}"))(values.numpy()).tolist()
