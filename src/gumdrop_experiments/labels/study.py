"""Ways to ask, rounds of asking from each pool for several seeds, and what the seeds say together."""

import copy
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gumdrop import dropout_rates, learn_dropout, parameter_groups, predict_classification, sample
from gumdrop.metrics import accuracy, choose, choose_classes_jointly
from gumdrop_experiments.data.mnist import DigitImages, read_digits
from gumdrop_experiments.harness import Plain, Run, part_name, read_json, write_json
from gumdrop_experiments.labels import POOLS, Settings
from gumdrop_experiments.networks.convolutional import labelling_network
from gumdrop_experiments.pages import mean_and_error, rounded
from gumdrop_experiments.shared import class_scores, plain_prediction, seeded, shuffled, step_on_digits

FIXED, START = 0.5, 0.1
RATES = {"none": "no dropout", "fixed": f"p = {FIXED:g}".replace("0.", "."), "learned": "learned p"}
Choice = Callable[[Tensor, int, int], Tensor]
"""Chooses rows by the logits of drawn functions, shape (S, N, C), the number wanted, and a seed."""
BATCH_SIZE, LR = 64, 1e-3
MOST_EPOCHS, PATIENCE = 30, 3
MEAN, STD = 0.1307, 0.3081
"""Of the pixels of MNIST; the source standardises by them."""
REPEATS, NOISE = 3, 0.1
HELD_OUT = 1024
ROWS_AT_ONCE = 500
TEST_SHARE = 5
"""One in this many drawn functions is enough to test; there are far more digits to test on than to choose from."""
GOALS = (0.9, 0.95)
"""Shares of test digits right that labels are counted to."""


def _bald(logits: Tensor, count: int, seed: int) -> Tensor:
    p = logits.double().softmax(2)
    told = torch.special.entr(p.mean(0)).sum(1) - torch.special.entr(p).sum(2).mean(0)
    return choose(told.clamp(min=0), count)


def _entropy(logits: Tensor, count: int, seed: int) -> Tensor:
    return choose(torch.special.entr(logits.double().softmax(2).mean(0)).sum(1), count)


def _batch_bald(logits: Tensor, count: int, seed: int) -> Tensor:
    return choose_classes_jointly(logits, count, seed=seed)


@dataclass(frozen=True)
class Way:
    """One way to ask."""

    rates: str
    """How they are set: `none`, `fixed` or `learned`."""
    choice: str
    """What figures and tables call the choice of rows."""
    choose: Choice | None
    """Chooses rows; at random if None."""
    at_a_time: int | None = None
    """Labels of a round, whatever was set; None leaves it to the flag."""

    @property
    def label(self) -> str:
        """What figures and tables call it."""
        return f"{RATES[self.rates]}, {self.choice}"


WAYS = {
    "fixed-batchbald": Way("fixed", "BatchBALD", _batch_bald),
    "learned-batchbald": Way("learned", "BatchBALD", _batch_bald),
    "fixed-random": Way("fixed", "random", None),
    "learned-random": Way("learned", "random", None),
    "none-random": Way("none", "random", None),
    "none-entropy": Way("none", "entropy", _entropy),
    "fixed-bald": Way("fixed", "BALD", _bald),
    "learned-bald": Way("learned", "BALD", _bald),
    "fixed-bald-1": Way("fixed", "BALD one at a time", _bald, at_a_time=1),
}
"""All of them by name, in the order in which they are run."""


def build(rates: str) -> nn.Sequential:
    """Build the network."""
    if rates == "learned":
        return learn_dropout(labelling_network(), p=START)
    return labelling_network(rate=FIXED if rates == "fixed" else 0.0)


class Digits(NamedTuple):
    """What a run asks about and is judged by."""

    pool: DigitImages
    held_out: DigitImages
    """Digits that say when training is to stop."""
    test: DigitImages


def ask(way: Way, digits: Digits, settings: Settings, *, seed: int, checkpoint: Path) -> Plain:
    """Ask for labels, a few at a time, until there are enough."""
    state = read_json(checkpoint) if checkpoint.exists() else {}
    state = state or {"curve": [], "asked": first_labels(digits.pool.labels, seed)}
    curve, asked = state["curve"], state["asked"]
    while not curve or curve[-1]["labels"] < settings.labels:
        round_seed = seed * 1_000_003 + len(asked)
        known = digits.pool.rows(torch.tensor(asked))
        with seeded(round_seed):
            model = build(way.rates)
        learned = way.rates == "learned"
        epochs = train(
            model, known, digits.held_out, learned=learned, epoch_images=settings.epoch_images, seed=round_seed
        )
        rates = [round(float(p), 4) for p in dropout_rates(model).values()] if learned else []
        scores = _scores(model.eval(), way, digits.test, max(1, settings.num_samples // TEST_SHARE))
        curve.append({"labels": len(asked), "epochs": epochs, "rates": rates, **scores})
        said = f"{len(asked)} labels, {scores['accuracy']:.1%} right, {scores['nll']:.3f} nats"
        print(f"{checkpoint.stem}: {said}", flush=True)
        if len(asked) < settings.labels:
            count = min(way.at_a_time or settings.by, settings.labels - len(asked))
            asked += _more(model, way, digits.pool.images, asked, count, settings, round_seed)
            write_json(checkpoint, state)
    return state


def _scores(model: nn.Module, way: Way, test: DigitImages, num_samples: int) -> dict[str, float]:
    if way.rates == "none":
        prediction = plain_prediction(model, test.images, batch_size=ROWS_AT_ONCE)
    else:
        prediction = predict_classification(
            model, test.images, num_samples=num_samples, seed=0, batch_size=ROWS_AT_ONCE
        )
    return {name: round(value, 5) for name, value in class_scores(prediction, test.labels).items()}


@torch.no_grad()
def _more(
    model: nn.Module, way: Way, images: Tensor, asked: list[int], count: int, settings: Settings, seed: int
) -> list[int]:
    """Choose rows of the pool, of some that are drawn from those that are left."""
    left = shuffled(len(images), seed)
    left = left[~torch.isin(left, torch.tensor(asked))][: settings.pool]
    if way.choose is None:
        return left[:count].tolist()
    if way.rates == "none":
        logits = torch.cat([model(images[rows]) for rows in left.split(ROWS_AT_ONCE)])[None]
    else:
        logits = sample(model, images[left], num_samples=settings.num_samples, seed=seed, batch_size=ROWS_AT_ONCE)
    return left[way.choose(logits, count, seed)].tolist()


def pool_of(name: str, train: DigitImages, test: DigitImages, *, seed: int) -> Digits:
    """Lay out a pool."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(train.labels), generator=generator)
    count = min(HELD_OUT, len(order) // 10)
    held_out, pool = (_standardised(train.rows(rows)) for rows in (order[:count], order[count:]))
    if name == "repeated":
        images = torch.randn(REPEATS, *pool.images.shape, generator=generator).mul_(NOISE).add_(pool.images)
        pool = DigitImages(images.flatten(0, 1), pool.labels.repeat(REPEATS))
    return Digits(pool, held_out, _standardised(test))


def first_labels(labels: Tensor, seed: int) -> list[int]:
    """Draw two digits of each class; give their places in the pool."""
    order = shuffled(len(labels), seed)
    return [int(row) for digit in range(10) for row in order[labels[order] == digit][:2]]


def _standardised(digits: DigitImages) -> DigitImages:
    return digits._replace(images=(digits.images - MEAN) / STD)


def train(
    model: nn.Module, known: DigitImages, held_out: DigitImages, *, learned: bool, epoch_images: int, seed: int
) -> int:
    """Train a network in place by Adam, and leave it with the parameters of its best epoch."""
    groups = parameter_groups(model) if learned else [{"params": list(model.parameters())}]
    optimizer = torch.optim.Adam(groups, lr=LR)
    best, kept, waited, epoch = -1.0, copy.deepcopy(model.state_dict()), 0, 0
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        while epoch < MOST_EPOCHS and waited < PATIENCE:
            epoch += 1
            orders = [torch.randperm(len(known.labels)) for _ in range(-(-epoch_images // len(known.labels)))]
            for rows in torch.cat(orders)[:epoch_images].split(BATCH_SIZE):
                step_on_digits(model.train(), optimizer, known, rows, learned=learned)
            with torch.no_grad():
                right = accuracy(model.eval()(held_out.images).argmax(1), held_out.labels).item()
            waited += 1
            if right > best:
                best, kept, waited = right, copy.deepcopy(model.state_dict()), 0
    model.load_state_dict(kept)
    return epoch


def study(settings: Settings, run: Run) -> Plain:
    """Ask in each way, a part for each way, pool and seed, and sum up the seeds."""
    train, test = read_digits(run.options)
    # Spread over all of them: the first half of the test images is the harder one.
    count = min(settings.test_images, len(test.labels))
    test = test.rows(torch.arange(count) * len(test.labels) // count)
    seeds = run.options.seeds(settings.seeds)
    pools, ways = settings.pools or POOLS, settings.ways or tuple(WAYS)

    def of(pool: str, way: str, seed: int) -> Plain:
        digits, checkpoint = pool_of(pool, train, test, seed=seed), run.checkpoint(part_name(pool, way, seed))
        return ask(WAYS[way], digits, settings, seed=seed, checkpoint=checkpoint)

    done = run.parts({key: partial(of, *key) for key in ((p, w, s) for s in seeds for p in pools for w in ways)})
    return {
        "test_images": len(test.labels),
        "pools": {
            pool: {way: summary([done[pool, way, seed] for seed in seeds]) for way in WAYS if way in ways}
            for pool in pools
        },
    }


def summary(parts: Sequence[Any]) -> Plain:
    """Average curves over seeds, and count the labels to each goal."""
    curves = [part["curve"] for part in parts]
    results: Plain = {"seeds": len(curves), "curves": curves}
    results["curve"] = {"labels": [point["labels"] for point in curves[0]]}
    for score in ("accuracy", "nll"):
        values = np.array([[point[score] for point in curve] for curve in curves])
        mean, error = zip(*(mean_and_error(each) for each in values.T), strict=True)
        results["curve"] |= {score: rounded(mean), f"{score}_error": rounded(error)}
    results["goals"] = {f"{goal:g}": _reached(curves, goal) for goal in GOALS}
    return results


def _reached(curves: Sequence[Any], goal: float) -> dict[str, float] | None:
    first = [next((point for point in curve if point["accuracy"] >= goal), None) for curve in curves]
    there = [point for point in first if point is not None]
    if 2 * len(there) < len(curves) or not there:
        return None
    return {name: statistics.median(point[name] for point in there) for name in ("labels", "nll")}
