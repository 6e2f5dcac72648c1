"""Every way to ask, from each pool, for several seeds."""

from functools import partial

import torch

from gumdrop_experiments.data.mnist import MNIST, DigitImages, read_mnist
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.labels import POOLS, Settings
from gumdrop_experiments.labels.pools import pool_of
from gumdrop_experiments.labels.results import summary
from gumdrop_experiments.labels.rounds import ask
from gumdrop_experiments.labels.ways import WAYS


def study(settings: Settings, run: Run) -> Plain:
    """Ask in each way, a part for each way, pool and seed, and sum up the seeds."""
    folder = data_folder(run.options, "mnist", sources=MNIST)
    train, test = read_mnist(folder), read_mnist(folder, train=False)
    # Spread over all of them: the first half of the test images is the harder one.
    count = min(settings.test_images, len(test.labels))
    rows = torch.arange(count) * len(test.labels) // count
    test = DigitImages(test.images[rows], test.labels[rows])
    seeds = range(run.options.seed, run.options.seed + settings.seeds)
    pools, ways = settings.pools or POOLS, settings.ways or tuple(WAYS)
    names = {(pool, way, seed): f"{pool}-{way}-{seed}" for seed in seeds for pool in pools for way in ways}

    def of(pool: str, way: str, seed: int) -> Plain:
        digits, checkpoint = pool_of(pool, train, test, seed=seed), run.checkpoint(names[pool, way, seed])
        return ask(WAYS[way], digits, settings, seed=seed, checkpoint=checkpoint)

    done = run.parts({name: partial(of, *key) for key, name in names.items()})
    return {
        "test_images": len(test.labels),
        "pools": {
            pool: {way: summary([done[names[pool, way, seed]] for seed in seeds]) for way in WAYS if way in ways}
            for pool in pools
        },
    }
