"""Two tasks, a network and data for each, with each way to set the rates."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop import fix_dropout, learn_dropout, predict_classification, sample
from gumdrop.training import fit
from gumdrop_experiments.data.texts import SST, encoded_sst
from gumdrop_experiments.harness import Plain, Run, data_folder, part_name, rate_of
from gumdrop_experiments.networks.transformers import CharacterModel, ReviewEncoder, character_nll, encoded, sums
from gumdrop_experiments.shared import class_scores, rates_over, seeded
from gumdrop_experiments.transformers import Settings

NUM_SAMPLES = 30
HELD_OUT_SUMS = 500
SCORES = {
    "reviews": {"accuracy": "accuracy, %", "nll": "nats per sentence", "ece": "calibration error, %"},
    "sums": {"nll": "nats per character", "no_draws": "nats per character, no draws"},
}
"""What each score of each task is called, with its unit."""
Pair = tuple[Tensor, Tensor]
VARIANTS = ("none", "fixed 0.1", "fixed 0.3", "learned")


@dataclass(frozen=True)
class Task:
    """A network and its data."""

    build: Callable[[], nn.Module]
    train: Pair
    validation: Pair
    test: Pair
    likelihood: Any
    """For `fit`."""
    score: Callable[[nn.Module, Pair, int], dict[str, float]]
    """Scores a network on test data; with a seed."""
    conversion: Plain
    lr: float


def study(settings: Settings, run: Run) -> Plain:
    """Train and score both networks in all ways, with several seeds."""
    folder = data_folder(run.options, "sst", sources=SST, files=[file.name for file in SST])
    reviews, of_sums = review_task(folder, quick=run.options.quick), sum_task(settings.lines, run.options.seed)
    tasks = {"reviews": (reviews, settings.review_epochs), "sums": (of_sums, settings.sum_epochs)}
    seeds = run.options.seeds(settings.seeds)
    done = run.product(partial(_trained, run, tasks), tasks, VARIANTS, seeds)
    return {name: {variant: [done[name, variant, seed] for seed in seeds] for variant in VARIANTS} for name in tasks}


def _trained(run: Run, tasks: Mapping[str, tuple[Task, int]], name: str, variant: str, seed: int) -> Plain:
    task, epochs = tasks[name]
    with seeded(seed):
        model = task.build().to(run.options.device)
        learn_dropout(model, p=rate_of(variant), report=lambda report: None, **task.conversion)
        if variant != "learned":
            fix_dropout(model)
        result = fit(
            model,
            task.train,
            likelihood=task.likelihood,
            epochs=epochs,
            validation=task.validation,
            validation_samples=3,
            batch_size=64,
            lr=task.lr,
            max_norm=5.0,
            lengthscale=1.0,
            seed=seed,
            checkpoint=run.checkpoint(part_name(name, variant, seed)),
            progress=f"{name}, {variant}, seed {seed}",
        )
    x, y = (part.to(run.options.device) for part in task.test)
    return {
        "scores": task.score(model, (x, y), seed),
        "rates": rates_over(result),
        "validation_nll": [record.validation_nll for record in result.history],
        "best_epoch": result.best_epoch,
    }


def review_task(folder: Path, *, quick: bool) -> Task:
    """Read the reviews, for a small BERT."""
    (train, dev, test), num_words = encoded_sst(folder, [400 if quick else None] * 3)
    return Task(
        build=partial(ReviewEncoder, num_words),
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
    scores = class_scores(prediction, labels)
    return {"accuracy": 100 * scores["accuracy"], "nll": scores["nll"], "ece": 100 * scores["ece"]}


def sum_task(count: int, seed: int) -> Task:
    """Write sums, for a small GPT."""
    held_out = min(HELD_OUT_SUMS, count)
    rows = encoded(sums(count + 2 * held_out, seed))
    train, validation, test = rows.split([count, held_out, held_out])
    return Task(
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
    characters, total = (lines != 0).sum().item(), 0.0
    with torch.inference_mode():
        for part in lines.split(100):
            draws = sample(model, part, num_samples=NUM_SAMPLES, seed=seed)
            drawn = torch.stack([character_nll(draw, part) for draw in draws])
            total += (math.log(NUM_SAMPLES) - torch.logsumexp(-drawn, dim=0)).sum().item()
        plain = sum(character_nll(model(part), part).sum().item() for part in lines.split(100))
    return {"nll": total / characters, "no_draws": plain / characters}
