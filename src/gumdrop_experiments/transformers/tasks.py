"""The two tasks: a network for each, its data, and how good it is."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.prediction import predict_classification, sample
from gumdrop_experiments.data.texts import Vocabulary, read_sst
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.networks.transformers import CharacterModel, ReviewEncoder, character_nll, encoded, sums
from gumdrop_experiments.scoring import class_scores

NUM_SAMPLES = 30
HELD_OUT_SUMS = 500
QUICK_REVIEWS = 400
SCORES = {
    "reviews": {"accuracy": "accuracy, %", "nll": "nats per sentence", "ece": "calibration error, %"},
    "sums": {"nll": "nats per character", "no_draws": "nats per character, no draws"},
}
"""What each score of each task is called, with its unit."""

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Task:
    """A network and its data."""

    name: str
    build: Callable[[], nn.Module]
    train: Pair
    validation: Pair
    test: Pair
    likelihood: Any
    """For `fit`."""
    score: Callable[[nn.Module, Pair, int], dict[str, float]]
    """Scores a network on test data; with a seed."""
    conversion: Plain
    """Options of `learn_dropout`."""
    lr: float
    """Highest learning rate."""


def review_task(folder: Path, *, quick: bool) -> Task:
    """Read the reviews, for a small BERT."""
    parts = [read_sst(folder, part) for part in ("train", "dev", "test")]
    vocabulary = Vocabulary(parts[0].words)
    rows = slice(QUICK_REVIEWS if quick else None)
    train, dev, test = ((vocabulary.encode(part.words[rows]), part.labels[rows]) for part in parts)
    return Task(
        name="reviews",
        build=partial(ReviewEncoder, len(vocabulary)),
        train=train,
        validation=dev,
        test=test,
        likelihood="categorical",
        score=_review_scores,
        conversion={"embeddings": True, "exclude": ["*.position_embeddings", "*.token_type_embeddings"]},
        lr=3e-4,  # under 1e-3 the development loss jumps from epoch to epoch
    )


def _review_scores(model: nn.Module, test: Pair, seed: int) -> dict[str, float]:
    words, labels = test
    prediction = predict_classification(model, words, num_samples=NUM_SAMPLES, seed=seed, batch_size=512)
    found = class_scores(prediction, labels)
    return {"accuracy": 100 * found["accuracy"], "nll": found["nll"], "ece": 100 * found["ece"]}


def sum_task(count: int, seed: int) -> Task:
    """Write sums, for a small GPT."""
    held_out = min(HELD_OUT_SUMS, count)
    rows = encoded(sums(count + 2 * held_out, seed))
    train, validation, test = rows.split([count, held_out, held_out])
    return Task(
        name="sums",
        build=partial(CharacterModel, longest=rows.shape[1]),
        train=(train, train),
        validation=(validation, validation),
        test=(test, test),
        likelihood=character_nll,
        score=_sum_scores,
        conversion={"exclude": ["characters", "places"]},
        lr=1e-3,
    )


def _sum_scores(model: nn.Module, test: Pair, seed: int) -> dict[str, float]:
    lines, _ = test
    characters = (lines != 0).sum().item()
    total = 0.0
    with torch.inference_mode():
        for part in lines.split(100):
            drawn = torch.stack(
                [character_nll(draw, part) for draw in sample(model, part, num_samples=NUM_SAMPLES, seed=seed)]
            )
            total += (math.log(NUM_SAMPLES) - torch.logsumexp(-drawn, dim=0)).sum().item()
        plain = sum(character_nll(model(part), part).sum().item() for part in lines.split(100))
    return {"nll": total / characters, "no_draws": plain / characters}
