"""Every way to ask, from each pool, for several seeds, and what the seeds say together."""

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from gumdrop_experiments.data.mnist import read_digits
from gumdrop_experiments.harness import Plain, part_name
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.labels import POOLS, Settings
from gumdrop_experiments.labels.rounds import ask, pool_of
from gumdrop_experiments.labels.ways import WAYS
from gumdrop_experiments.pages import mean_and_error, rounded

GOALS = (0.9, 0.95)
"""Shares of test digits right that labels are counted to."""


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
    found: Plain = {"seeds": len(curves), "curves": curves}
    found["curve"] = {"labels": [point["labels"] for point in curves[0]]}
    for score in ("accuracy", "nll"):
        values = np.array([[point[score] for point in curve] for curve in curves])
        mean, error = zip(*(mean_and_error(each) for each in values.T), strict=True)
        found["curve"] |= {score: rounded(mean), f"{score}_error": rounded(error)}
    found["goals"] = {f"{goal:g}": _reached(curves, goal) for goal in GOALS}
    return found


def _reached(curves: Sequence[Any], goal: float) -> dict[str, float] | None:
    first = [next((point for point in curve if point["accuracy"] >= goal), None) for curve in curves]
    there = [point for point in first if point is not None]
    if 2 * len(there) < len(curves) or not there:
        return None
    return {name: statistics.median(point[name] for point in there) for name in ("labels", "nll")}
