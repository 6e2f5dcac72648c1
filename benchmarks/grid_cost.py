"""One network with learned rates against its grid of twelve fixed ones and a refit, both batched: score and time.

The grid is that of ``gumdrop reproduce uci``: four rates by three noises, judged on a fifth of the training part, then
trained on all of it. The learned network is trained with three strengths as one program, on four fifths of the rows;
the others set its noise and choose the strength. Both are 2 x 50 and take the same number of steps, a split at a time.
Run with ``make benchmark-grid DATA=DIR``, which holds DIR/uci; writes ``docs/results/grid_cost.json``.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gumdrop.ensembles import EnsembleSettings, Rows, fit_ensembles
from gumdrop.likelihoods import Gaussian, RegressionPrediction
from gumdrop.networks import set_strength
from gumdrop.training import STRENGTHS
from gumdrop.training.strength import choose_strength
from gumdrop_experiments.data.uci import Split, read_splits
from gumdrop_experiments.uci.methods import METHODS
from gumdrop_experiments.uci.work import LR, NUM_SAMPLES, Work, in_units, mean_rates, network

from timing import write_results

SETS = ("boston-housing", "concrete-strength", "wine-quality-red", "kin8nm")
SPLITS = 3
SEED = 0


def learned(work: Work) -> tuple[RegressionPrediction, dict[str, Any]]:
    """Train a network of each strength, and predict by the one that held-out rows prefer."""
    (split,) = work.splits
    batch_size, epochs = work.schedule
    started = time.process_time()
    fits = fit_ensembles(
        [partial(of_strength, split, strength) for strength in STRENGTHS],
        [Rows(split.x_train, split.y_train)] * len(STRENGTHS),
        EnsembleSettings(num_members=1, epochs=epochs, batch_size=batch_size, lr=LR, seed=work.seed),
        Gaussian(),
    )
    strength = choose_strength({strength: fit.scores for strength, fit in zip(STRENGTHS, fits, strict=True)})
    fit = fits[STRENGTHS.index(strength)]
    seconds = time.process_time() - started
    (prediction,) = in_units([fit.model.predict(split.x_test, num_samples=NUM_SAMPLES, seed=work.seed)], work.splits)
    return prediction, {"seconds": seconds, "strength": strength, "rates": mean_rates(fit.members)}


def of_strength(split: Split, strength: float) -> nn.Module:
    """Build a network with learned rates."""
    return set_strength(network(split), strength)


def grid(work: Work) -> tuple[RegressionPrediction, dict[str, Any]]:
    """Search rate and noise, and train once more with the best."""
    outcome = METHODS["grid"].run(work)
    return outcome.predictions[0], {"seconds": outcome.seconds, **outcome.chosen[0]}


def of_split(name: str, split: Split) -> dict[str, Any]:
    """Score both on one split, in nats per row and units of the target."""
    work = Work(name, [split], SEED, epochs=None)
    target = split.y_test * split.y_std + split.y_mean
    found = {}
    for way, train in {"learned": learned, "grid": grid}.items():
        prediction, said = train(work)
        found[way] = said | {"log_likelihood": prediction.log_prob(target).mean().item()}
    return found


def of_set(name: str, splits: Sequence[Split]) -> dict[str, Any]:
    """Compare both on some splits of a set."""
    rows = [of_split(name, split) for split in splits]
    gains = [row["learned"]["log_likelihood"] - row["grid"]["log_likelihood"] for row in rows]
    ratios = [row["grid"]["seconds"] / row["learned"]["seconds"] for row in rows]
    return {
        "log_likelihood": {way: statistics.mean(row[way]["log_likelihood"] for row in rows) for way in rows[0]},
        "gain": [statistics.mean(gains), statistics.stdev(gains) / len(gains) ** 0.5],
        "grid_takes_times_as_long": [statistics.median(ratios), min(ratios), max(ratios)],
        "splits": rows,
    }


def main() -> None:
    """Compare both on all sets, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data / "uci"
    torch.set_num_threads(1)
    results = {}
    for name in SETS:
        results[name] = of_set(name, read_splits(folder / name, most=SPLITS))
        print(name, {key: value for key, value in results[name].items() if key != "splits"}, flush=True)
    write_results("grid_cost", command="make benchmark-grid DATA=DIR", seed=SEED, results=results)


if __name__ == "__main__":
    main()
