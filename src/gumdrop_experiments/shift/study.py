"""Train each way to a rate, score it on images that change step by step, and say what the parts mean together."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from gumdrop import dropout_rates, predict_classification
from gumdrop.ensembles import EnsembleSettings
from gumdrop.likelihoods import Categorical, ClassificationPrediction
from gumdrop.networks import mlp
from gumdrop.training import STRENGTHS, choose_strength
from gumdrop_experiments.data.mnist import read_digits
from gumdrop_experiments.harness import Plain, Run
from gumdrop_experiments.pages import mean_and_error, rounded
from gumdrop_experiments.rates.ensembles import ALMOST_NONE, Setup, fixed, learned
from gumdrop_experiments.rates.results import ELBO, GRID, HELD_OUT, OFF
from gumdrop_experiments.shared import class_scores, shuffled
from gumdrop_experiments.shift import Settings

MEMBERS = 5
PLAIN, ALL = "plain", "all"
FIXED: dict[str, tuple[float, float]] = {OFF: (0.0, 0.0), "0.1": (0.1, 0.1), "0.2 / 0.5": (0.2, 0.5), PLAIN: (0.0, 0.0)}
"""Rates of inputs and of hidden units that are fixed."""
LABELS = {
    OFF: "no dropout",
    "0.1": "fixed at .1",
    "0.2 / 0.5": "fixed at .2 (inputs), .5 (hidden)",
    GRID: "grid of these, by held-out images",
    ELBO: "learned, by the ELBO",
    HELD_OUT: "learned, strength by held-out images",
    PLAIN: f"no dropout, {MEMBERS * len(STRENGTHS)} networks",
}
SIZES = {"single": "single networks", "ensemble": f"ensembles of {MEMBERS}"}
"""What is scored of each way."""
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
    train = train.rows(shuffled(len(train.labels), seed)[: settings.images])
    test = test.rows(shuffled(len(test.labels), seed)[: settings.test_images])
    ensemble = EnsembleSettings(seed=seed, epochs=settings.epochs, num_members=MEMBERS)
    x = train.images.flatten(1)
    build = partial(mlp, x.shape[1], 10, hidden=HIDDEN)
    setup = Setup(build, (x, train.labels), ensemble, Categorical())
    images = {
        name: [test.images.flatten(1), *(shift.of(test.images, step).flatten(1) for step in shift.steps)]
        for name, shift in SHIFTS.items()
    }
    work = _Work(setup, images, test.labels, settings.num_samples)
    ways: list[str | float] = [*FIXED, *STRENGTHS]
    parts = run.parts({_name(way): partial(_part, way, work) for way in ways})
    scores = summary({way: parts[_name(way)] for way in ways})
    sizes = {"images": len(train.labels), "test_images": len(test.labels)}
    return {**sizes, "steps": {name: [0.0, *shift.steps] for name, shift in SHIFTS.items()}, **scores}


def _name(way: str | float) -> str:
    return f"strength-{way:g}" if isinstance(way, float) else way.replace(" / ", "-")


def _part(way: str | float, work: _Work) -> Plain:
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
    count, seed = 1 if way in (OFF, PLAIN) else work.num_samples, setup.settings.seed
    ask = partial(predict_classification, num_samples=count)
    members = list(enumerate(fit.model.members))
    asked = {
        name: [[ask(member, x, seed=seed + i) for i, member in members] for x in images]
        for name, images in work.images.items()
    }
    mixed = {name: [ClassificationPrediction.mixture(each) for each in of] for name, of in asked.items()}
    scores = [fit.scores[rows.long()] for rows in fit.held_out]
    return {
        "members": [
            _scores({name: [each[i] for each in of] for name, of in asked.items()}, work) for i in range(MEMBERS)
        ],
        "ensemble": _scores(mixed, work),
        "of_images": {
            name: rounded(torch.stack([each.log_prob(work.labels) for each in of[1:]]).mean(0), DIGITS)
            for name, of in mixed.items()
        },
        "held_out": [rounded(each[each.isfinite()], DIGITS) for each in scores],
        "rates": [list(dropout_rates(member).values()) for member in fit.model.members] if way in STRENGTHS else [],
    }


def _scores(predictions: Mapping[str, Sequence[ClassificationPrediction]], work: _Work) -> Plain:
    return {name: [class_scores(each, work.labels) for each in of] for name, of in predictions.items()}


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


def summary(parts: Mapping[str | float, Plain]) -> Plain:
    """Choose among fixed rates and among strengths by held-out images, and average over the steps of each shift."""
    fixed = {way: parts[way] for way in FIXED if way != PLAIN}
    strengths = {strength: parts[strength] for strength in STRENGTHS}
    same: dict[str, str | float] = {**{way: way for way in fixed}, ELBO: 1.0}
    ensembles = {**same, GRID: _best(fixed), HELD_OUT: _strength(strengths)}
    members = {way: [name] * MEMBERS for way, name in same.items()} | {
        GRID: [_best(fixed, [i]) for i in range(MEMBERS)],
        HELD_OUT: [_strength(strengths, [i]) for i in range(MEMBERS)],
    }
    chosen = {
        "single": {way: members[way] for way in (GRID, HELD_OUT)},
        "ensemble": {way: ensembles[way] for way in (GRID, HELD_OUT)},
    }
    ensembles[PLAIN] = PLAIN
    networks = {way: [parts[members[way][i]]["members"][i] for i in range(MEMBERS)] for way in LABELS if way in members}
    nats = {
        way: {shift: [-fmean(step["nll"] for step in each[shift][1:]) for each in of_way] for shift in of_way[0]}
        for way, of_way in networks.items()
    }
    images = {way: parts[ensembles[way]]["of_images"] for way in LABELS}
    alone = {way: _mean_of(each) for way, each in networks.items()}
    together = {way: parts[ensembles[way]]["ensemble"] for way in LABELS}
    return {
        "single": {
            "by_step": alone,
            "mean": {way: _over_steps(each) for way, each in alone.items()},
            "gain_on": {other: _beside(nats, other) for other in (OFF, "0.1")},
        },
        "ensemble": {
            "by_step": together,
            "mean": {way: _over_steps(each) for way, each in together.items()},
            "gain_on": {other: _beside(images, other) for other in (OFF, "0.1", PLAIN)},
        },
        "chosen": chosen,
        "rates": {str(s): np.mean(each["rates"], axis=0).tolist() for s, each in strengths.items()},
    }


def _held_out(part: Plain, members: Iterable[int]) -> Tensor:
    """Log likelihood of the images that some networks held out."""
    return torch.tensor([score for i in members for score in part["held_out"][i]])


def _best(fixed: Mapping[str, Plain], members: Iterable[int] = range(MEMBERS)) -> str:
    return max(fixed, key=lambda way: float(_held_out(fixed[way], members).mean()))


def _strength(strengths: Mapping[float, Plain], members: Iterable[int] = range(MEMBERS)) -> float:
    return choose_strength({strength: _held_out(part, members) for strength, part in strengths.items()})


def _mean_of(networks: Sequence[Plain]) -> Plain:
    """Average each score over networks, at each step of each shift."""
    return {
        shift: [
            {name: fmean(each[shift][step][name] for each in networks) for name in of_step}
            for step, of_step in enumerate(steps)
        ]
        for shift, steps in networks[0].items()
    }


def _over_steps(way: Plain) -> Plain:
    """Average each score over the steps of each shift, but for the images as they are."""
    return {shift: {name: fmean(each[name] for each in of[1:]) for name in of[0]} for shift, of in way.items()}


def _beside(nats: Mapping[str, Mapping[str, Sequence[float]]], other: str) -> Plain:
    """Gain of each way on one of them under each shift, and under all of them, with standard errors."""
    scores = {}
    for way, of in nats.items():
        gain = {shift: np.array(each) - np.array(nats[other][shift]) for shift, each in of.items()}
        gain[ALL] = np.mean(list(gain.values()), axis=0)
        scores[way] = {shift: mean_and_error(each) for shift, each in gain.items()}
    return scores
