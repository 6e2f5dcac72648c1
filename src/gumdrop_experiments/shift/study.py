"""Train each way to a rate, and score it on images that change step by step."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from gumdrop import dropout_rates, predict_classification
from gumdrop.ensembles import EnsembleFit, EnsembleSettings
from gumdrop.likelihoods import ClassificationPrediction
from gumdrop.networks import mlp
from gumdrop.training import STRENGTHS
from gumdrop_experiments.data.mnist import DigitImages, read_digits
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages import rounded
from gumdrop_experiments.rates.ensembles import ALMOST_NONE, Setup, fixed, learned
from gumdrop_experiments.rates.results import OFF
from gumdrop_experiments.scoring import class_scores
from gumdrop_experiments.shift import Settings
from gumdrop_experiments.shift.results import FIXED, MEMBERS, PLAIN, summary

HIDDEN = (128, 128)
DIGITS = 5
"""Significant digits of what is kept of each image."""


@dataclass(frozen=True)
class Shift:
    """A way to change images, and how far."""

    label: str
    """What figures call it, with the unit of its steps."""
    steps: tuple[float, ...]
    """How far images are changed, from little to much."""
    of: Callable[[Tensor, float], Tensor]
    """Changes images, shape (N, 1, H, W)."""


@dataclass(frozen=True)
class _Work:
    """What all parts have in common."""

    setup: Setup
    images: Mapping[str, list[Tensor]]
    """Test images under each shift: as they are, and at each of its steps."""
    labels: Tensor
    num_samples: int


def study(settings: Settings, run: Run) -> Plain:
    """Train an ensemble of each way to a rate, and score it and its networks."""
    (train, test), seed = read_digits(run.options), run.options.seed
    train, test = _some(train, settings.images, seed), _some(test, settings.test_images, seed)
    ensemble = EnsembleSettings(seed=seed, epochs=settings.epochs, num_members=MEMBERS)
    setup = Setup(
        partial(mlp, train.images[0].numel(), 10, hidden=HIDDEN),
        (train.images.flatten(1), train.labels),
        ensemble,
        regression=False,
    )
    images = {
        name: [test.images.flatten(1), *(shift.of(test.images, step).flatten(1) for step in shift.steps)]
        for name, shift in SHIFTS.items()
    }
    work = _Work(setup, images, test.labels, settings.num_samples)
    ways: list[str | float] = [*FIXED, *STRENGTHS]
    parts = run.parts({_name(way): partial(_part, way, work) for way in ways})
    found = summary({way: parts[_name(way)] for way in ways})
    sizes = {"images": len(train.labels), "test_images": len(test.labels)}
    return {**sizes, "steps": {name: [0.0, *shift.steps] for name, shift in SHIFTS.items()}, **found}


def _name(way: str | float) -> str:
    return f"strength-{way:g}" if isinstance(way, float) else way.replace(" / ", "-")


def _some(digits: DigitImages, count: int, seed: int) -> DigitImages:
    return digits.rows(torch.randperm(len(digits.labels), generator=torch.Generator().manual_seed(seed))[:count])


def _part(way: str | float, work: _Work) -> Plain:
    """Train the networks of one way, and score each of them and all of them together."""
    layers = len(HIDDEN) + 1
    if isinstance(way, float):
        make = partial(learned, work.setup.build, [way] * layers)
    else:
        p_in, p_hidden = (max(p, ALMOST_NONE) for p in FIXED[way])
        make = partial(fixed, work.setup.build, [p_in, *[p_hidden] * (layers - 1)])
    setup = work.setup
    if way == PLAIN:
        setup = setup._replace(settings=replace(setup.settings, num_members=MEMBERS * len(STRENGTHS)))
    (fit,) = setup.fit([make])
    asked = {name: [_asked(fit, x, way, work) for x in images] for name, images in work.images.items()}
    mixed = {name: [ClassificationPrediction.mixture(each) for each in of] for name, of in asked.items()}
    scores = [fit.scores[rows.long()] for rows in fit.held_out]
    return {
        "members": [
            _scores({name: [each[i] for each in of] for name, of in asked.items()}, work) for i in range(MEMBERS)
        ],
        "ensemble": _scores(mixed, work),
        "of_images": {name: rounded(_of_images(of, work), DIGITS) for name, of in mixed.items()},
        "held_out": [rounded(each[each.isfinite()], DIGITS) for each in scores],
        "rates": [list(dropout_rates(member).values()) for member in fit.model.members] if way in STRENGTHS else [],
    }


def _asked(fit: EnsembleFit, x: Tensor, way: str | float, work: _Work) -> list[ClassificationPrediction]:
    """Ask each network."""
    count = 1 if way in (OFF, PLAIN) else work.num_samples
    seed = work.setup.settings.seed
    return [
        predict_classification(member, x, num_samples=count, seed=seed + i)
        for i, member in enumerate(fit.model.members)
    ]


def _scores(predictions: Mapping[str, Sequence[ClassificationPrediction]], work: _Work) -> Plain:
    """Score predictions of the images as they are, and at each step of each shift."""
    return {name: [class_scores(each, work.labels) for each in of] for name, of in predictions.items()}


def _of_images(predictions: Sequence[ClassificationPrediction], work: _Work) -> Tensor:
    """Log likelihood of each image, the mean over the steps of a shift, shape (N,)."""
    return torch.stack([each.log_prob(work.labels) for each in predictions[1:]]).mean(0)


def turned(images: Tensor, degrees: float) -> Tensor:
    """Turn images (N, 1, H, W) about their middle, counter-clockwise, with 0 where nothing is known."""
    angle = math.radians(degrees)
    rotation = torch.tensor([[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0]])
    grid = F.affine_grid(rotation.expand(len(images), 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def blurred(images: Tensor, sd: float) -> Tensor:
    """Blur images (N, 1, H, W) by a Gaussian with this standard deviation in pixels, with 0 around them."""
    radius = math.ceil(3 * sd)
    weights = torch.exp(-0.5 * (torch.arange(-radius, radius + 1) / sd).square())
    kernel = (weights / weights.sum())[None, None, :, None]
    return F.conv2d(F.conv2d(images, kernel, padding=(radius, 0)), kernel.mT, padding=(0, radius))


def noisy(images: Tensor, sd: float, *, seed: int = 0) -> Tensor:
    """Add Gaussian noise to each pixel, the same whatever its size, and cut off what leaves [0, 1]."""
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(seed))
    return (images + sd * noise).clamp(0, 1)


SHIFTS: dict[str, Shift] = {
    "turned": Shift("turned, degrees", (15.0, 30.0, 45.0, 60.0, 75.0), turned),
    "blurred": Shift("blurred, SD in pixels", (0.75, 1.5, 2.25, 3.0, 3.75), blurred),
    "noisy": Shift("noisy, SD of a pixel", (0.15, 0.3, 0.45, 0.6, 0.75), noisy),
}
"""All of them by name."""
