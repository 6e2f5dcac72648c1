"""The methods that `gumdrop reproduce uci` compares: each trains all splits of a set and predicts their test parts.

All networks but those that held-out rows choose are 2 x 50 ReLU and, where nothing else is said, take the same number
of steps of the same optimiser.
"""

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from gumdrop import predict_regression
from gumdrop.likelihoods import Lengthscale, RegressionPrediction
from gumdrop.networks import mlp, set_strength
from gumdrop.training import FitResult, fit_stacked
from gumdrop_experiments.data.uci import Split
from gumdrop_experiments.harness import NO_DROPOUT, START, prior_of
from gumdrop_experiments.shared import seeded
from gumdrop_experiments.uci.work import (
    LR,
    NUM_SAMPLES,
    PAPER_LENGTHSCALE,
    Outcome,
    Work,
    chosen,
    ensemble,
    in_units,
    mean_rates,
    network,
    peer,
    training_parts,
)

RATES_OF_GRID = (0.005, 0.01, 0.05, 0.1)
GRID: dict[str, tuple[float, float, float]] = {
    "boston-housing": (0.1, 0.15, 0.2),
    "concrete-strength": (0.025, 0.05, 0.075),
    "kin8nm": (150.0, 200.0, 250.0),
    "wine-quality-red": (2.5, 3.0, 3.5),
}
"""Noise precisions of the published search, in units of the target; for other sets see `grid_settings`."""
CYCLES = 10
SCHEME_BATCH_SIZE = 200
"""That of the report, and not that of the default, which would change how often a scheme goes through the rows."""
KINDS = {"scaled_logit": "rates", "log_variance": "noise"}
"""What parameters are, by the end of their names; all others are weights."""


@dataclass(frozen=True)
class Method:
    """A method and its name."""

    label: str
    run: Callable[[Work], Outcome]
    default: bool = True
    """Whether it runs unless others are named."""


def single(
    work: Work,
    *,
    heteroscedastic: bool = False,
    dropout: bool = True,
    members: int = 1,
    epochs: int | None = None,
    lengthscale: Lengthscale,
) -> Outcome:
    """Train networks on the whole training part, noise and all, and mix those of each split into one."""
    with seeded(work.seed):
        models = [
            network(split, heteroscedastic=heteroscedastic, p=START if dropout else NO_DROPOUT, fixed=not dropout)
            for split in work.splits
            for _ in range(members)
        ]
    splits = [split for split in work.splits for _ in range(members)]
    _, most = work.schedule
    epochs = min(epochs or most, most)
    results, seconds = _train(work, models, splits, "training", epochs=epochs, lengthscale=lengthscale)
    count = NUM_SAMPLES // members if dropout else 1
    parts = [
        predict_regression(model, split.x_test, num_samples=count, seed=work.seed + i)
        for i, (model, split) in enumerate(zip(models, splits, strict=True))
    ]
    mixed = [RegressionPrediction.mixture(parts[i : i + members]) for i in range(0, len(parts), members)]
    rates = [mean_rates([result]) for result in results] if dropout else []
    passes = epochs * sum(len(split.x_train) for split in splits)
    return Outcome(in_units(mixed, work.splits), rates, seconds, passes, [])


_paper = partial(single, heteroscedastic=True, lengthscale=PAPER_LENGTHSCALE)


def deep_ensemble(work: Work) -> Outcome:
    """Mix five networks without dropout, each trained on all rows for as long as published (arXiv:1612.01474)."""
    return _paper(work, dropout=False, members=5, epochs=40)


def _train(
    work: Work,
    models: Sequence[nn.Module],
    splits: Sequence[Split],
    stage: str,
    *,
    epochs: int,
    batch_size: int | None = None,
    lengthscale: Lengthscale,
    speed: tuple[float, float] = (LR, LR),
) -> tuple[list[FitResult], float]:
    """Train a network on each training part, as one program, at a speed of weights and rates; add processor time."""
    started = time.process_time()
    results = fit_stacked(
        models,
        training_parts(splits),
        likelihood="gaussian",
        epochs=epochs,
        batch_size=batch_size or work.schedule[0],
        lr=speed[0],
        rate_lr=speed[1],
        lengthscale=lengthscale,
        seed=work.seed,
        checkpoint=work.checkpoint(stage),
        progress=f"{work.name} {stage}",
    )
    return results, time.process_time() - started


def _predictions(models: Sequence[nn.Module], work: Work) -> list[RegressionPrediction]:
    return [
        predict_regression(model, split.x_test, num_samples=NUM_SAMPLES, seed=work.seed)
        for model, split in zip(models, work.splits, strict=True)
    ]


def _grid(work: Work) -> Outcome:
    """Fixed dropout, with rate and noise searched on a fifth of each training part, then trained on all of it."""
    settings = grid_settings(work.name, work.splits)
    generator = torch.Generator().manual_seed(work.seed)
    orders = [torch.randperm(len(split.x_train), generator=generator) for split in work.splits]
    pairs = zip(work.splits, orders, strict=True)
    inner = [split.part(*order.tensor_split([len(order) // 5])[::-1]) for split, order in pairs]
    _, epochs = work.schedule
    train = partial(_train, work, epochs=epochs, lengthscale=PAPER_LENGTHSCALE)
    with seeded(work.seed):
        candidates = [fixed_network(split, *setting) for split in work.splits for setting in settings]
        final = [[fixed_network(split, *setting) for setting in settings] for split in work.splits]
    searched = [split for split in inner for _ in settings]
    _, search_seconds = train(candidates, searched, "search")
    predict = partial(predict_regression, num_samples=100, seed=work.seed)
    tried = zip(candidates, searched, strict=True)
    scores = torch.tensor([predict(model, part.x_test).log_prob(part.y_test).mean() for model, part in tried])
    best = scores.view(len(work.splits), len(settings)).argmax(1).tolist()
    models = [each[i] for each, i in zip(final, best, strict=True)]
    _, refit_seconds = train(models, work.splits, "refit")
    predictions = _predictions(models, work)
    passes = epochs * sum(len(split.x_train) for split in [*searched, *work.splits])
    chosen = [dict(zip(("p", "precision"), settings[i], strict=True)) for i in best]
    return Outcome(in_units(predictions, work.splits), [], search_seconds + refit_seconds, passes, chosen)


def _in_turn(work: Work, passes: Sequence[Sequence[str]]) -> Outcome:
    """A scheme of the replication report: weights, noise under a Gamma prior, and rates in turn; three layers of 50.

    Each pass trains what it names and leaves the rest. Networks of which a part stays as it is cannot be stacked, so
    they train split by split.
    """
    build = partial(mlp, hidden=(50, 50, 50), homoscedastic_noise=True)
    with seeded(work.seed):
        models = [build(split.x_train.shape[1], 1) for split in work.splits]
    lengthscale: Lengthscale = "weak"
    speed = (LR, LR)
    if work.regularisers is not None:
        # Splits of a set have the same number of rows, to one; the report's loss is exp(-s) (y-f)^2 + s.
        lengthscale, strength = prior_of(work.regularisers, num_data=len(work.splits[0].x_train), scale=2)
        for model in models:
            set_strength(model, strength)
        scaled, units = work.splits, partial(dataclasses.replace, y_mean=0.0, y_std=1.0)
        work = dataclasses.replace(work, splits=[units(s, y_train=s.y_train * s.y_std + s.y_mean) for s in scaled])
        # In one cycle on average the report's 1e-3, and 1e-1 for logits, in tens, that have a pass of their own.
        speed = (2e-3, 2e-2 if len(passes) == 3 else 2e-4)
    for model in models:
        model[-1].gamma_prior = (0.1, 0.01)  # type: ignore[assignment]
    epochs = max(1, work.scheme_epochs // CYCLES)
    train = partial(_train, epochs=epochs, batch_size=SCHEME_BATCH_SIZE, lengthscale=lengthscale, speed=speed)
    seconds, rates = 0.0, []
    for i, (model, split) in enumerate(zip(models, work.splits, strict=True)):
        for turn, kinds in itertools.product(range(CYCLES), passes):
            for name, parameter in model.named_parameters():
                kind = KINDS.get(name.rsplit(".", 1)[-1], "weights")
                parameter.requires_grad_(kind in kinds)
            # No checkpoints: each would hold a part of a turn.
            cycle = dataclasses.replace(work, seed=work.seed + CYCLES * i + turn, checkpoint=lambda stage: None)
            stage = f"{i + 1}/{len(models)} {turn + 1}/{CYCLES} {' and '.join(kinds)}"
            results, spent = train(cycle, [model], [split], stage)
            seconds += spent
        rates.append(mean_rates(results))
    predictions = _predictions(models, work)
    seen = len(passes) * CYCLES * epochs * sum(len(split.x_train) for split in work.splits)
    return Outcome(in_units(predictions, work.splits), rates, seconds, seen, [])


_THREE_PASS = partial(_in_turn, passes=(("weights",), ("noise",), ("rates",)))
_TWO_PASS = partial(_in_turn, passes=(("weights", "rates"), ("noise",)))
METHODS: dict[str, Method] = {
    "chosen": Method("gumdrop, networks chosen by held-out rows", chosen),
    "gumdrop": Method("gumdrop, 5 members of 2 x 50", ensemble),
    "one-member": Method("gumdrop, 1 member", partial(ensemble, num_members=1)),
    "dropout-off": Method("the same 5 members, dropout off", partial(ensemble, dropout=False)),
    "grid": Method("fixed dropout, grid search", _grid),
    "no-dropout": Method("no dropout", partial(single, dropout=False, lengthscale=PAPER_LENGTHSCALE)),
    "paper": Method("learned dropout, paper's setting", _paper),
    "deep-ensemble": Method("deep ensemble of 5", deep_ensemble),
    "peer": Method("package concretedropout", peer),
    "three-pass": Method("three passes, Gamma prior (3 layers)", _THREE_PASS, default=False),
    "two-pass": Method("two passes, weights and rates, then noise (3 layers)", _TWO_PASS, default=False),
}
"""All methods, by the names that ``--methods`` takes."""


def grid_settings(name: str, splits: Sequence[Split]) -> list[tuple[float, float]]:
    """List rates and noise precisions to search."""
    variance = splits[0].y_std ** 2
    precisions = GRID.get(name, (2 / variance, 10 / variance, 50 / variance))
    return list(itertools.product(RATES_OF_GRID, precisions))


def fixed_network(split: Split, rate: float, precision: float) -> nn.Sequential:
    """Build a network with fixed dropout and fixed noise, whose precision is in units of the target."""
    model = network(split, p=rate, fixed=True)
    log_variance = model[-1].log_variance
    assert isinstance(log_variance, Tensor)
    log_variance.requires_grad_(False).fill_(-math.log(precision * split.y_std**2))
    return model
