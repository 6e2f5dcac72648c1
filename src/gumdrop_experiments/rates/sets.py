"""The tables of `rates`, from 200 to 400,000 training rows, of numbers and of classes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets
from torch.nn import functional as F

from gumdrop_experiments.data.download import RemoteFile
from gumdrop_experiments.data.mnist import MNIST, read_mnist
from gumdrop_experiments.data.uci import Split, read_table, splits_of, standardised

MOST_STEPS = 1000
"""Of 1,024 rows each: 26 passes over 40,000 rows, 3 over 400,000."""
FOLDERS: dict[str, tuple[RemoteFile, ...]] = {"uci": (), "tables": (), "mnist": MNIST}
"""Folders of data, and where their files can be had."""


@dataclass(frozen=True)
class TableOfRates:
    """A table and its splits."""

    label: str
    splits: int
    """How many splits a whole run has."""
    num_classes: int
    """Number of classes; 0 for numbers."""
    read: Callable[[Path, int, int], list[Split]]
    """Reads the splits, of a folder of data, at most so many, with a seed."""
    gaps: bool = False
    """Whether test rows are a stretch of an input that training lacks, and not drawn at random."""
    most_steps: int | None = None
    """Steps of training at most, which bounds the cost of long tables; those of the default if None."""
    folder: str | None = None
    """Folder of data that it is read from; None for what needs no file."""


def _of_uci(name: str, data: Path, most: int, seed: int, *, kind: str = "random") -> list[Split]:
    return splits_of(data / "uci" / name, kind, most=most)


_gaps = partial(_of_uci, kind="gap")


def _large(name: str, data: Path, most: int, seed: int) -> list[Split]:
    return _at_random(*read_table(data / "tables", name), most, seed)


def _at_random(x: np.ndarray, y: np.ndarray, most: int, seed: int) -> list[Split]:
    splits = []
    for i in range(most):
        test, train = np.split(np.random.default_rng((seed, i)).permutation(len(x)), [round(0.2 * len(x))])
        split = standardised(x, y if y.ndim == 2 else np.zeros((len(x), 1)), train, test)
        if y.ndim == 1:
            labels = torch.from_numpy(y.astype(np.int64))
            split = replace(split, y_train=labels[train], y_test=labels[test])
        splits.append(split)
    return splits


def _of_scikit_learn(name: str, data: Path, most: int, seed: int) -> list[Split]:
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return _at_random(x, y[:, None] if name == "diabetes" else y, most, seed)


def _digits(data: Path, most: int, seed: int) -> list[Split]:
    """Read MNIST at half its width and height, in units of the spread of all pixels; its one split."""
    train, test = (read_mnist(data / "mnist", train=which) for which in (True, False))
    x_train, x_test = (F.avg_pool2d(each.images, 2).flatten(1) for each in (train, test))
    mean, std = x_train.mean(), x_train.std()
    return [Split((x_train - mean) / std, train.labels, (x_test - mean) / std, test.labels, 0.0, 1.0)]


def _classes(rows: int, data: Path, most: int, seed: int) -> list[Split]:
    """Draw four classes whose log odds are known functions of six of ten inputs; Gumbel noise draws from them."""
    splits = []
    for i in range(most):
        random = np.random.default_rng((seed, i, rows))
        x = random.normal(size=(rows, 10))
        odds = np.stack([np.sin(2 * x[:, 0]), x[:, 1] * x[:, 2], np.abs(x[:, 3]), x[:, 4] + np.tanh(x[:, 5])], axis=1)
        splits += _at_random(x, (2 * odds + random.gumbel(size=odds.shape)).argmax(1), 1, seed + i)
    return splits


def _simulated(kind: str, rows: int, data: Path, most: int, seed: int, *, tests: int = 1000) -> list[Split]:
    splits = []
    for i in range(most):
        random = np.random.default_rng((seed, i, rows))
        total = rows + tests
        if kind == "friedman":
            x, y = datasets.make_friedman1(total, noise=1.0, random_state=int(random.integers(2**31)))
        elif kind == "noisy":  # a line, in noise four times as large, among inputs that say nothing
            x = random.normal(size=(total, 30))
            y = x[:, 0] + 4 * random.normal(size=total)
        else:  # smooth, without noise
            x = random.normal(size=(total, 8))
            y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + np.tanh(x[:, 3:].sum(1) / 2)
        order = np.arange(total)
        splits.append(standardised(x, y[:, None], order[:rows], order[rows:]))
    return splits


SETS: dict[str, TableOfRates] = {
    "noisy": TableOfRates("line in noise, 300 rows", 5, 0, partial(_simulated, "noisy", 300)),
    "diabetes": TableOfRates("diabetes", 10, 0, partial(_of_scikit_learn, "diabetes")),
    "friedman": TableOfRates("Friedman, 200 rows", 5, 0, partial(_simulated, "friedman", 200)),
    "boston": TableOfRates("boston", 10, 0, partial(_of_uci, "boston-housing"), folder="uci"),
    "boston-gaps": TableOfRates("boston, gaps", 13, 0, partial(_gaps, "boston-housing"), True, folder="uci"),
    "concrete": TableOfRates("concrete", 5, 0, partial(_of_uci, "concrete-strength"), folder="uci"),
    "concrete-gaps": TableOfRates("concrete, gaps", 8, 0, partial(_gaps, "concrete-strength"), True, folder="uci"),
    "airfoil": TableOfRates("airfoil", 3, 0, partial(_large, "airfoil"), folder="tables"),
    "wine": TableOfRates("wine", 3, 0, partial(_of_uci, "wine-quality-red"), folder="uci"),
    "smooth": TableOfRates("smooth, without noise", 3, 0, partial(_simulated, "smooth", 2000)),
    "kin8nm": TableOfRates("kin8nm", 3, 0, partial(_of_uci, "kin8nm"), folder="uci"),
    "bike": TableOfRates("bike sharing, 14,000 rows", 1, 0, partial(_large, "bike-sharing"), folder="tables"),
    "cancer": TableOfRates("breast cancer, classes", 3, 2, partial(_of_scikit_learn, "breast_cancer")),
    "classes": TableOfRates("four classes, 40,000 rows", 1, 4, partial(_classes, 50_000), most_steps=MOST_STEPS),
    "digits": TableOfRates("MNIST, 60,000 images", 1, 10, _digits, most_steps=MOST_STEPS, folder="mnist"),
    "friedman-40k": TableOfRates(
        "Friedman, 40,000 rows", 1, 0, partial(_simulated, "friedman", 40_000, tests=10_000), most_steps=MOST_STEPS
    ),
    "friedman-400k": TableOfRates(
        "Friedman, 400,000 rows", 1, 0, partial(_simulated, "friedman", 400_000, tests=10_000), most_steps=MOST_STEPS
    ),
}
