"""What a fit of a table takes, and what its length buys: the default beside fits with one choice changed, in turns.

Tables are simulated, or come with scikit-learn, so that the run needs no data. Seconds are those of the processor, with
one thread, of the choice of the networks and their training. Run with ``make benchmark-fits``; writes
``docs/results/fits.json`` and a figure.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn import datasets
from torch import Tensor, nn

from gumdrop.ensembles import Architecture, EnsembleSettings, Rows, fit, schedule
from gumdrop.layers import PiecewiseLinear
from gumdrop.likelihoods import Categorical, Gaussian

from timing import RESULTS, write_results

SEEDS = (0, 1)
DEFAULT = "the default"


class Table(NamedTuple):
    """Rows to train on and to test with, standardised by the former."""

    train: Rows
    """The former."""
    test: tuple[Tensor, Tensor]
    """The latter."""
    num_classes: int
    """0 for numbers."""


def table(x: np.ndarray, y: np.ndarray, count: int) -> Table:
    """Train on the first rows."""
    inputs = torch.tensor((x - x[:count].mean(0)) / x[:count].std(0), dtype=torch.float32)
    if y.dtype.kind == "f":
        targets, classes = torch.tensor((y - y[:count].mean()) / y[:count].std(), dtype=torch.float32)[:, None], 0
    else:
        targets, classes = torch.tensor(y), int(y.max()) + 1
    return Table(Rows(inputs[:count], targets[:count]), (inputs[count:], targets[count:]), classes)


def few(seed: int) -> Table:
    """A few linear rows."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(1210, 19))
    y = x @ random.normal(0, 0.4, 19) + 0.6 * np.abs(x[:, 0]) + 0.7 * random.normal(size=len(x))
    return table(x, y, 210)


def diabetes(seed: int) -> Table:
    """The table of scikit-learn, four fifths to train on."""
    x, y = datasets.load_diabetes(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    return table(x[order], y[order], 354)


def friedman(rows: int, seed: int) -> Table:
    """Friedman's function, whose noise is known."""
    return table(*datasets.make_friedman1(rows + 1000, noise=1.0, random_state=seed), rows)


def classes(seed: int) -> Table:
    """The simulated classes of scikit-learn."""
    return table(*datasets.make_classification(3000, 20, random_state=seed), 1000)


TABLES: dict[str, Callable[[int], Table]] = {
    "210 x 19, a line and an absolute value": few,
    "354 x 10, diabetes": diabetes,
    "500 x 10, Friedman": lambda seed: friedman(500, seed),
    "1,000 x 20, two classes": classes,
    "2,000 x 10, Friedman": lambda seed: friedman(2000, seed),
}


def changes(num_rows: int) -> dict[str, EnsembleSettings]:
    """The default, and fits with one choice changed."""
    default = EnsembleSettings()
    _, epochs = schedule(num_rows)
    return {
        DEFAULT: default,
        "one strength of dropout": replace(default, strength=1.0),
        "half the networks": replace(default, num_members=5),
        "half the epochs": replace(default, epochs=epochs // 2),
        "batches of 32": replace(default, batch_size=32),
    }


def measured(data: Table, settings: EnsembleSettings) -> dict[str, float]:
    """Fit, and score the test rows."""

    def build(architecture: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
        inputs, outputs = data.train.x.shape[1], data.num_classes or 1
        return architecture.network(inputs, outputs, encoding, homoscedastic_noise=not data.num_classes)

    started = time.process_time()
    fitted = fit(build, data.train, settings, Categorical() if data.num_classes else Gaussian())
    seconds = time.process_time() - started
    x, y = data.test
    nats = fitted.model.predict(x, seed=0).log_prob(y).double().mean().item()
    return {"seconds": seconds, "log_likelihood": nats}


def compared(make: Callable[[int], Table]) -> dict[str, dict[str, float]]:
    """Fit in turns, and give the mean seconds, their ratio to the default's, and the gain on it in nats."""
    rounds = []
    for seed in SEEDS:
        data = make(seed)
        settings = changes(len(data.train))
        rounds.append({name: measured(data, replace(each, seed=seed)) for name, each in settings.items()})
    return {
        name: {
            "seconds": statistics.mean(found[name]["seconds"] for found in rounds),
            "ratio": statistics.median(found[name]["seconds"] / found[DEFAULT]["seconds"] for found in rounds),
            "gain": statistics.mean(
                found[name]["log_likelihood"] - found[DEFAULT]["log_likelihood"] for found in rounds
            ),
        }
        for name in rounds[0]
    }


def draw(results: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """Draw what each change gains against the time that it takes, a mark for each table."""
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for name, mark in zip(next(iter(results.values())), "oDsv^", strict=True):
        found = [of_table[name] for of_table in results.values()]
        axes.plot([each["ratio"] for each in found], [each["gain"] for each in found], mark, label=name, alpha=0.8)
    axes.axhline(0, color="gray", linewidth=0.8)
    axes.set(xlabel="processor time over that of the default", ylabel="gain in log likelihood, nats per row")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(RESULTS / "fits.png", dpi=150)


def main() -> None:
    """Compare on all tables, print, and write what came out."""
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for name, make in TABLES.items():
        results[name] = compared(make)
        print(name)
        for change, found in results[name].items():
            print(
                f"  {change:24s}{found['seconds']:8.1f} s {found['ratio']:6.2f} {found['gain']:+8.4f} nats", flush=True
            )
    write_results("fits", command="make benchmark-fits", seed=SEEDS[0], results=results)
    draw(results)


if __name__ == "__main__":
    main()
