"""What a fit of a table takes, and what its length buys: the default beside fits with one choice changed, in turns.

Tables are simulated, or come with scikit-learn, so that the run needs no data. Seconds are those of the processor, with
one thread: of the choice of the networks and their training. Tables of further shapes are fitted by `fit_table` without
a comparison, from the frame to the model. Run with ``make benchmark-fits``; writes ``docs/results/fits.json`` and a
figure.
"""

import contextlib
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from torch import nn

from gumdrop.ensembles import Architecture, EnsembleSettings, Rows, fit
from gumdrop.layers import PiecewiseLinear
from gumdrop.likelihoods import Categorical, Gaussian, Likelihood
from gumdrop.tables import FitSettings, fit_table
from gumdrop_experiments.data.uci import Split
from gumdrop_experiments.rates.sets import SETS, TableOfRates

from timing import RESULTS, write_results

SPLITS, SEED = 2, 0
DEFAULT, ALL_KINDS = "the default", "bins tried in any case"
WORTH_A_NAME = 0.02
"""Nats from which on the table of a mark is named."""


TABLES = ("noisy", "diabetes", "friedman", "cancer", "smooth")
"""Tables of `gumdrop reproduce rates`, of 200 to 2,000 training rows."""

SHAPES = {
    "numbers": ((210, 19), (442, 10), (614, 8), (2000, 4), (2000, 10)),
    "counts": ((2000, 12),),
    "smooth": ((2000, 16),),
    "two classes": ((856, 17), (1000, 20)),
    "two classes, 6 %": ((2000, 85),),
}
"""Rows and columns of tables, by what their target is."""


def simulated(target: str, rows: int, columns: int) -> pd.DataFrame:
    """A table of one shape: five of its columns say something of the target."""
    random = np.random.default_rng((SEED, rows, columns))
    x = random.normal(size=(rows, columns))
    smooth = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + np.tanh(x[:, 3:5].sum(1)) if columns > 4 else np.sin(x).sum(1)
    noisy = smooth + random.normal(size=rows)
    y = {
        "numbers": lambda: noisy,
        "counts": lambda: random.poisson(np.exp(smooth / 2 + 1)),
        "smooth": lambda: smooth,
        "two classes": lambda: np.where(noisy > 0, "yes", "no"),
        "two classes, 6 %": lambda: np.where(noisy > np.quantile(noisy, 0.94), "yes", "no"),
    }[target]()
    return pd.DataFrame(x, columns=[f"x{k}" for k in range(columns)]).assign(y=y)


def timed(target: str, rows: int, columns: int) -> dict[str, Any]:
    """Seconds of the processor that a fit takes without a comparison."""
    table = simulated(target, rows, columns)
    started = time.process_time()
    fit_table(table, "y", settings=FitSettings(compare=False))
    seconds = round(time.process_time() - started, 2)
    print(f"{rows:6,} x {columns:3} {target:20}{seconds:7.1f} s", flush=True)
    return {"target": target, "seconds": seconds}


def changes(num_rows: int, likelihood: Likelihood) -> dict[str, EnsembleSettings]:
    """The default, and fits with one choice changed."""
    default = EnsembleSettings(seed=SEED)
    _, epochs = default.schedule(num_rows, likelihood)
    return {
        DEFAULT: default,
        ALL_KINDS: default,
        "one strength of dropout": replace(default, strength=1.0),
        "half the networks": replace(default, num_members=5),
        "half the epochs": replace(default, epochs=epochs // 2),
        "batches of 32": replace(default, batch_size=32),
    }


def measured(
    data: Split, num_classes: int, likelihood: Likelihood, settings: EnsembleSettings, *, all_kinds: bool
) -> dict[str, float]:
    """Fit, if asked for with a trial of bins whatever ridge regression tells, and score the test rows."""

    def build(architecture: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
        outputs = num_classes or 1
        return architecture.network(data.x_train.shape[1], outputs, encoding, homoscedastic_noise=not num_classes)

    told = mock.patch("gumdrop.ensembles.choosing.bins_lose", return_value=False)
    started = time.process_time()
    with told if all_kinds else contextlib.nullcontext():
        fitted = fit(build, Rows(data.x_train, data.y_train), settings, likelihood)
    seconds = time.process_time() - started
    nats = fitted.model.predict(data.x_test, seed=0).log_prob(data.y_test).double().mean().item()
    return {"seconds": seconds, "log_likelihood": nats}


def compared(table: TableOfRates) -> dict[str, dict[str, float]]:
    """Fit in turns, and give the mean seconds, their ratio to the default's, and the gain on it in nats."""
    rounds = []
    likelihood = Categorical() if table.num_classes else Gaussian()
    for data in table.read(None, SPLITS, SEED):
        settings = changes(len(data.x_train), likelihood)
        rounds.append(
            {
                name: measured(data, table.num_classes, likelihood, each, all_kinds=name == ALL_KINDS)
                for name, each in settings.items()
            }
        )
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
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    changes = [name for name in next(iter(results.values())) if name != DEFAULT]
    for name, mark in zip(changes, "PDsv^", strict=True):
        found = [of_table[name] for of_table in results.values()]
        axes.plot([each["ratio"] for each in found], [each["gain"] for each in found], mark, label=name, alpha=0.8)
        for table, each in zip(results, found, strict=True):
            if abs(each["gain"]) > WORTH_A_NAME:
                place = (each["ratio"], each["gain"])
                axes.annotate(table, place, (7, 0), textcoords="offset points", fontsize=8, va="center")
    axes.plot(1, 0, "*", color="black", markersize=13, label=DEFAULT, zorder=0)
    axes.axhline(0, color="gray", linewidth=0.8, zorder=0)
    axes.set_yscale("symlog", linthresh=0.05)
    axes.set_ylim(-0.6, 0.6)
    axes.set_yticks([-0.4, -0.2, -0.1, -0.05, 0, 0.05, 0.1, 0.2, 0.4])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlim(0.35, 2.0)
    axes.set_xlabel("processor time over that of the default")
    axes.set_ylabel("gain, nats per row; linear up to 0.05")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.15)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(RESULTS / "fits.png", dpi=150)


def main() -> None:
    """Compare on all tables, print, and write what came out."""
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for name in TABLES:
        results[name] = compared(SETS[name])
        print(SETS[name].label)
        for change, found in results[name].items():
            print(
                f"  {change:24s}{found['seconds']:8.1f} s {found['ratio']:6.2f} {found['gain']:+8.4f} nats", flush=True
            )
    draw(results)
    results["shapes"] = {f"{n} x {f}": timed(target, n, f) for target, shapes in SHAPES.items() for n, f in shapes}
    write_results("fits", command="make benchmark-fits", seed=SEED, results=results)


if __name__ == "__main__":
    main()
