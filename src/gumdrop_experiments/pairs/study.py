"""Digits, the nearest of the other class, and the pixels that decide between the two."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from gumdrop.attribution import FIDO, FIDOSettings
from gumdrop_experiments.attribution.peers import Method, captum_methods, require_captum
from gumdrop_experiments.data.mnist import MNIST, UNSEEN, DigitImages, read_mnist
from gumdrop_experiments.harness import Plain, Run, WithPictures, data_folder
from gumdrop_experiments.networks.convolutional import digit_classifier, digit_network
from gumdrop_experiments.pairs import Settings

PAIRS = ((4, 9), (3, 5), (1, 7))
CANDIDATES = 5000
"""Training images that the nearest of the other class is chosen from."""
SHARES = tuple(i / 100 for i in range(101))
OURS = "FIDO, between the two"


class Between(nn.Module):
    """A classifier that knows two classes alone: the log-odds of the first are those against the second."""

    def __init__(self, model: nn.Module, first: int, second: int) -> None:
        super().__init__()
        self.model, self.classes = model, [first, second]

    def forward(self, x: Tensor) -> Tensor:
        """Give the two logits, shape (N, 2)."""
        return self.model(x)[:, self.classes]


def study(settings: Settings, run: Run) -> WithPictures:
    """Explain each pair in both directions."""
    require_captum()
    folder = data_folder(run.options, "mnist", sources=MNIST)
    model, seed = digit_classifier(digit_network, run, folder, steps=settings.classifier_steps), run.options.seed
    train, test = read_mnist(folder), read_mnist(folder, train=False)
    train, test = train.rows(slice(CANDIDATES)), test.rows(UNSEEN)
    both = [(a, b) for pair in PAIRS for a, b in (pair, pair[::-1])]
    parts = run.parts({f"{a}-{b}": partial(_direction, model, train, test, settings, seed, a, b) for a, b in both})
    pictures = {name: part.pop("pictures") for name, part in parts.items()}
    return WithPictures({"shares": SHARES, "pairs": parts}, pictures)


def _direction(
    model: nn.Module, train: DigitImages, test: DigitImages, settings: Settings, seed: int, ours: int, other: int
) -> Plain:
    x = _sure(model, test, ours)[: settings.images]
    rivals = _sure(model, train, other)
    near = rivals[torch.cdist(x.flatten(1), rivals.flatten(1)).argmin(1)]
    between = Between(model, ours, other).eval()
    relevance = {name: method(x, near) for name, method in _methods(model, between, settings, seed, ours).items()}
    curves = {name: _changed(between, x, near, each) for name, each in relevance.items()}
    return {
        "images": len(x),
        "needed": {name: [SHARES[row.index(True)] for row in curve.tolist()] for name, curve in curves.items()},
        "changed": {name: curve.float().mean(0).tolist() for name, curve in curves.items()},
        "pictures": {
            "digit": x[0, 0].tolist(),
            "nearest": near[0, 0].tolist(),
            **{name: relevance[name][0, 0].tolist() for name in (OURS, "FIDO, one class")},
        },
    }


@torch.no_grad()
def _sure(model: nn.Module, digits: DigitImages, label: int) -> Tensor:
    """Take the images of a digit that the classifier calls by its name."""
    images = digits.images[digits.labels == label]
    right: Tensor = images[model(images).argmax(1) == label]
    return right


def _methods(
    model: nn.Module, between: nn.Module, settings: Settings, seed: int, label: int
) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """All methods by name: relevance of digits, shape (N, 1, H, W), against the nearest of the other class."""
    options = FIDOSettings(iterations=settings.iterations)

    def pair(x: Tensor, near: Tensor) -> Tensor:
        return FIDO(between, options).explain(x, 0, infill=near, seed=seed).relevance("sdr")

    def one_class(x: Tensor, near: Tensor) -> Tensor:
        return FIDO(model, options).explain(x, label, infill="blur", seed=seed).relevance("sdr")

    def at_random(x: Tensor, near: Tensor) -> Tensor:
        return torch.rand(x.shape, generator=torch.Generator().manual_seed(seed))

    def difference(x: Tensor, near: Tensor) -> Tensor:
        return (x - near).abs()

    def captum(method: Method, x: Tensor, near: Tensor) -> Tensor:
        return method(between, x, torch.zeros(len(x), dtype=torch.long), near)

    theirs = {name: partial(captum, method) for name, method in captum_methods().items()}
    return {OURS: pair, "FIDO, one class": one_class, **theirs, "difference": difference, "at random": at_random}


@torch.no_grad()
def _changed(between: nn.Module, x: Tensor, near: Tensor, relevance: Tensor) -> Tensor:
    """Say for each image and share whether the answer has changed, shape (N, len(SHARES)); at 1 it always has."""
    order = relevance.flatten(1).argsort(dim=1, descending=True, stable=True)
    rank = torch.empty_like(order)
    rank.scatter_(1, order, torch.arange(order.shape[1]).expand_as(order))
    changed = []
    for share in SHARES:
        replaced = (rank < round(share * rank.shape[1])).view_as(x)
        logits = between(torch.where(replaced, near, x))
        changed.append(logits[:, 1] > logits[:, 0])
    return torch.stack(changed, dim=1)
