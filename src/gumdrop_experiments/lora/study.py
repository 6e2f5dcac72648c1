"""Adapters and paths under each way to set their rates; what a way has to choose, rows for development choose."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gumdrop_experiments.data.mnist import DigitImages, read_digits, small_digits
from gumdrop_experiments.data.texts import SST, SST_TREES
from gumdrop_experiments.harness import Plain, Run, data_folder
from gumdrop_experiments.lora import Settings, adapters, depth
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.shared import save_weights, shuffled

Arm = tuple[Sequence[str], str]
"""The ways that it chooses from, and how they predict."""
PEFT = [f"peft {p:g}" for p in adapters.RATES]
ADAPTER_ARMS: dict[str, Arm] = {
    "no dropout": (["none"], "one pass"),
    "BERT's and peft's .1": (["usual"], "one pass"),
    "BERT's and peft's .1, MC dropout": (["usual"], "draws"),
    "fixed rate": (PEFT, "one pass"),
    "fixed rate, MC dropout": (PEFT, "draws"),
    "fixed rate, Laplace": (PEFT, "Laplace"),
    "masks of ranks, fixed rate": ([f"ranks {p:g}" for p in adapters.RATES], "draws"),
    "one half, prior": ([f"half {prior}" for prior in adapters.PRIORS], "draws"),
    **{
        f"learned, {says}": ([f"learned {place} {prior}" for prior in adapters.PRIORS], "draws")
        for place, says in {"inputs": "inputs", "ranks": "ranks", "own": "wherever there is dropout"}.items()
    },
}
DEPTH_ARMS: dict[str, Arm] = {
    "no dropout": (["none"], "one pass"),
    "linear rule": ([f"linear {p:g}" for p in depth.LAST_RATES], "one pass"),
    "linear rule, draws": ([f"linear {p:g}" for p in depth.LAST_RATES], "draws"),
    "learned, the ELBO": (["learned 1"], "draws"),
    "learned, strength chosen": ([f"learned {s:g}" for s in depth.STRENGTHS], "draws"),
    "strength chosen, one pass": ([f"learned {s:g}" for s in depth.STRENGTHS], "one pass"),
}
TEST_IMAGES, HELD_OUT, QUICK_ROWS = 2000, 297, 40
SCORES = {"accuracy": "accuracy", "nll": "nats", "ece": "calibration error"}


def study(settings: Settings, run: Run) -> Plain:
    """Train all, choose, and compare."""
    seed, folder = run.options.seed, data_folder(run.options, "sst", sources=SST, files=[SST_TREES])
    words, num_words = adapters.read(folder)
    train, test = read_digits(run.options)
    sets = {"digits": (small_digits(), None), "MNIST": (train, test.rows(slice(TEST_IMAGES)))}
    if run.options.quick:
        words = {part: (x[:QUICK_ROWS], y[:QUICK_ROWS]) for part, (x, y) in words.items()}
        sets["MNIST"] = train, test.rows(slice(QUICK_ROWS))
    seeds, image_seeds = run.options.seeds(settings.seeds), run.options.seeds(settings.image_seeds)
    counts = (settings.few, settings.more)
    base = run.folder / "base.pt"
    run.part("base", partial(_base, base, words["phrases"], num_words, settings.base_steps, seed))
    parts: dict[tuple[Any, ...], Callable[[], Any]] = {
        ("sst", count, way, seed): partial(_adapted, base, num_words, words, count, way, settings.steps, seed)
        for count, way, seed in itertools.product(counts, adapters.WAYS, seeds)
    }
    tasks = [(network, name) for name in sets for network in depth.NETWORKS]
    for (network, name), way, seed in itertools.product(tasks, depth.WAYS, image_seeds):
        one = partial(_deep, network, way, sets[name], settings.images, settings.epochs, seed)
        parts[network, name, way, seed] = one
    done = run.parts(parts)
    return {
        "adapters": {str(count): _compared(ADAPTER_ARMS, done, ("sst", count), seeds) for count in counts},
        "paths": {" on ".join(task): _compared(DEPTH_ARMS, done, task, image_seeds) for task in tasks},
    }


def _base(path: Path, rows: adapters.Rows, num_words: int, steps: int, seed: int) -> Plain:
    model = adapters.pretrained(rows, num_words, steps, seed)
    save_weights(model, path)
    return {"phrases": len(rows[0])}


def _adapted(
    base: Path, num_words: int, words: dict[str, adapters.Rows], count: int, name: str, steps: int, seed: int
) -> Plain:
    way, (sentences, labels) = adapters.WAYS[name], words["train"]
    drawn = shuffled(len(labels), seed)[:count]
    weights = torch.load(base, weights_only=True)
    rows = sentences[drawn], labels[drawn]
    model = adapters.adapted(weights, num_words, rows, way, steps, seed)
    results: Plain = {"rates": adapters.rates_of(model) if way.is_learned else {}}
    judged = {part: words[part] for part in ("dev", "test")}
    kinds = {"one pass": False} if name == "none" else {"one pass": False, "draws": True}
    for part, held_out in judged.items():
        results[part] = {kind: adapters.scored(model, held_out, drawn=drawn) for kind, drawn in kinds.items()}
    if name in PEFT:
        for part, scores in adapters.laplace_scored(model, rows, judged).items():
            results[part]["Laplace"] = scores
    return results


def _deep(
    network: str, way: str, data: tuple[DigitImages, DigitImages | None], count: int, epochs: int, seed: int
) -> Plain:
    """Train on some of the images, and test on others: the rest, where there is no set of their own."""
    train, test = data
    order = shuffled(len(train.labels), seed)
    some, held_out, rest = order[:count], order[count : count + HELD_OUT], order[count + HELD_OUT :]
    split = depth.Split(train.rows(some), train.rows(held_out), train.rows(rest) if test is None else test)
    return depth.trained(network, way, split, epochs, seed)


def _compared(arms: Mapping[str, Arm], done: Mapping[Any, Any], words: tuple[Any, ...], seeds: range) -> Plain:
    """Score each arm on test rows, with the way that rows for development choose, seed by seed."""
    results: Plain = {}
    for arm, (ways, kind) in arms.items():
        chosen = []
        for seed in seeds:
            parts = {way: done[*words, way, seed] for way in ways}
            best = min(ways, key=lambda way: parts[way]["dev"][kind]["nll"])
            chosen.append({"way": best, **parts[best]["test"][kind], "rates": parts[best]["rates"]})
        means = {score: mean_and_error([each[score] for each in chosen]) for score in SCORES}
        results[arm] = {**means, "chosen": chosen}
    return results
