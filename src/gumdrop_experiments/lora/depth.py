"""A small ResNet and a small ViT whose branches are dropped, at rates by the linear rule or at learned ones."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gumdrop as gd
from gumdrop.layers import dropout_blocks
from gumdrop.networks import set_strength
from gumdrop.training import fit
from gumdrop_experiments.data.mnist import DigitImages
from gumdrop_experiments.harness import NO_DROPOUT, START, Plain
from gumdrop_experiments.shared import class_scores, plain_prediction, seeded

NUM_SAMPLES, VALIDATION_SAMPLES = 10, 5
DEPTH, BATCH = 8, 32
LAST_RATES, STRENGTHS = (0.1, 0.3, 0.5), (1.0, 30.0, 300.0)
WAYS = ("none", *(f"linear {p:g}" for p in LAST_RATES), *(f"learned {s:g}" for s in STRENGTHS))
NETWORKS = ("ResNet", "ViT")


class DropPath(nn.Module):
    """Drop what a branch gives for an example."""

    def __init__(self, drop_prob: float = START) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: Tensor) -> Tensor:
        """Multiply by a mask for each example, over the share of those that are kept."""
        if not (self.training and self.drop_prob):
            return x
        mask = x.new_empty(len(x), *[1] * (x.ndim - 1)).bernoulli_(1 - self.drop_prob)
        return x * mask / (1 - self.drop_prob)


class Residual(nn.Module):
    """Add a branch to its input, or to what a shortcut makes of it."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.branch, self.shortcut, self.drop_path = branch, shortcut or nn.Identity(), DropPath()

    def forward(self, x: Tensor) -> Tensor:
        """Add."""
        return self.shortcut(x) + self.drop_path(self.branch(x))


class Attention(nn.Module):
    """Self-attention of normalised tokens."""

    def __init__(self, units: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(units)
        self.qkv, self.out = nn.Linear(units, 3 * units), nn.Linear(units, units)

    def forward(self, x: Tensor) -> Tensor:
        """Mix tokens."""
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def _convolutions(before: int, after: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.BatchNorm2d(before),
        nn.ReLU(),
        nn.Conv2d(before, after, 3, stride, 1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
        nn.Conv2d(after, after, 3, 1, 1, bias=False),
    )


def resnet(side: int) -> nn.Sequential:
    """Build eight blocks of two convolutions, half of them with twice the channels on half the side."""
    stem = nn.Conv2d(1, 16, 3, 2 if side > 16 else 1, 1, bias=False)
    first = [Residual(_convolutions(16, 16, 1)) for _ in range(DEPTH // 2)]
    wider = Residual(_convolutions(16, 32, 2), nn.Conv2d(16, 32, 1, 2, bias=False))
    rest = [Residual(_convolutions(32, 32, 1)) for _ in range(DEPTH // 2 - 1)]
    end = [nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)]
    return nn.Sequential(stem, *first, wider, *rest, *end)


def _feed_forward(units: int) -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(units), nn.Linear(units, 2 * units), nn.GELU(), nn.Linear(2 * units, units))


class ViT(nn.Module):
    """A transformer of four layers, with two branches each, on sixteen patches."""

    def __init__(self, side: int, units: int = 48) -> None:
        super().__init__()
        self.patches, self.places = nn.Conv2d(1, units, side // 4, side // 4), nn.Parameter(torch.zeros(16, units))
        branches = [branch for _ in range(DEPTH // 2) for branch in (Attention(units, 4), _feed_forward(units))]
        self.layers = nn.Sequential(*map(Residual, branches))
        self.head = nn.Sequential(nn.LayerNorm(units), nn.Linear(units, 10))

    def forward(self, images: Tensor) -> Tensor:
        """Classify."""
        return self.head(self.layers(self.patches(images).flatten(2).mT + self.places).mean(1))


class Split(NamedTuple):
    """Images to train on, to choose by and to test on."""

    train: DigitImages
    held_out: DigitImages
    test: DigitImages


def network(name: str, side: int, way: str) -> nn.Module:
    """Build a network whose paths have the rates of a way."""
    model: Any = resnet(side) if name == "ResNet" else ViT(side)
    gd.learn_dropout(model, include=[], plain_dropout="learn", report=lambda report: None)
    kind, _, number = way.partition(" ")
    for i, block in enumerate(dropout_blocks(model), 1):
        block.site.start_at({"linear": float(number or 0) * i / DEPTH, "learned": START}.get(kind, NO_DROPOUT))
    return set_strength(model, float(number)) if kind == "learned" else gd.fix_dropout(model)


def trained(name: str, way: str, data: Split, epochs: int, seed: int) -> Plain:
    """Train and score."""
    with seeded(seed):
        model = network(name, data.train.images.shape[-1], way)
    result = fit(
        model,
        data.train,
        likelihood="categorical",
        epochs=epochs,
        batch_size=BATCH,
        validation=data.held_out,
        validation_samples=VALIDATION_SAMPLES,
        seed=seed,
    )
    results: Plain = {"rates": [float(p) for p in gd.dropout_rates(model).values()], "best_epoch": result.best_epoch}
    for part, (x, y) in (("dev", data.held_out), ("test", data.test)):
        prediction = gd.predict_classification(model, x, num_samples=NUM_SAMPLES, seed=seed, batch_size=1000)
        results[part] = {
            "draws": class_scores(prediction, y),
            "one pass": class_scores(plain_prediction(model, x, batch_size=1000), y),
        }
    return results
