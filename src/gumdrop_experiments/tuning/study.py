"""Each candidate on each set."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gumdrop.ensembles import Architecture, candidates, schedule
from gumdrop.likelihoods import Gaussian
from gumdrop_experiments.data.uci import Split, read_splits, standardised
from gumdrop_experiments.harness import BaseSettings, Plain, Run, data_folder
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.shared import shuffled
from gumdrop_experiments.uci.methods import single
from gumdrop_experiments.uci.work import Outcome, Work, chosen, scores

DEFAULT = "the default"
UCI = ("boston-housing", "concrete-strength", "wine-quality-red")
SIMULATED = ("friedman-200", "linear-100", "sine-200")
SPLITS, QUICK_SPLITS, QUICK_EPOCHS = 3, 2, 5


def _passes(work: Work, factor: float) -> Work:
    _, epochs = schedule(len(work.splits[0].x_train), epochs=work.epochs)
    return replace(work, epochs=max(1, round(epochs * factor)))


def _kind(number: int, num_inputs: int, **changes: Any) -> Architecture:
    """One of the kinds of networks that are tried, changed; that without bins where bins are no choice."""
    kinds = candidates(num_inputs, Gaussian())
    return replace(kinds[min(number, len(kinds) - 1)], **changes)


CANDIDATES: dict[str, Callable[[Work], Outcome]] = {
    DEFAULT: chosen,
    "networks: plain inputs, weak prior": partial(chosen, kind=partial(_kind, 0, lengthscale="weak")),
    "networks: plain inputs, fainter prior": partial(chosen, kind=partial(_kind, 0)),
    "networks: inputs in bins": partial(chosen, kind=partial(_kind, 1)),
    "networks: 2 x 50 ReLU": partial(chosen, kind=lambda num_inputs: Architecture((50, 50))),
    "dropout: strength 1, the ELBO's": partial(chosen, strength=1.0),
    "dropout: off": partial(chosen, dropout=False, strength=1.0),
    "members: 5": partial(chosen, num_members=5),
    "noise: one variance for all rows": partial(chosen, input_noise=False),
    "noise: from training residuals, 5 of 2 x 50": partial(single, members=5, lengthscale="weak"),
    "steps: half": lambda work: chosen(_passes(work, 0.5)),
    "steps: double": lambda work: chosen(_passes(work, 2.0)),
}
"""What is compared: the default first, then variants that change what they name."""


def simulated(name: str, count: int, seed: int) -> list[Split]:
    """Draw data sets whose noise is known."""
    from sklearn.datasets import make_friedman1

    kind, rows = name.split("-")
    splits = []
    for i in range(count):
        random = np.random.default_rng((seed, i))
        total = int(rows) + 500
        x: NDArray[np.float64]
        if kind == "friedman":
            x, y = make_friedman1(total, noise=1.0, random_state=int(random.integers(2**31)))
        elif kind == "linear":
            x = random.normal(size=(total, 20))
            y = x @ random.normal(0, 0.5, 20) + random.normal(size=total)
        else:
            x = random.uniform(-3, 3, (total, 1))
            y = np.sin(2 * x[:, 0]) + (0.05 + 0.05 * (x[:, 0] + 3)) * random.normal(size=total)
        order = np.arange(total)
        splits.append(standardised(x, y[:, None], order[: int(rows)], order[int(rows) :]))
    return splits


def study(settings: BaseSettings, run: Run) -> Plain:
    """Score all candidates on held-out fifths of training parts, and on simulated sets."""
    folder, quick, seed = data_folder(run.options, "uci"), run.options.quick, run.options.seed
    most = QUICK_SPLITS if quick else SPLITS
    splits = {name: [_inner(split, seed) for split in read_splits(folder / name, most=most)] for name in UCI}
    splits |= {name: simulated(name, most, seed) for name in SIMULATED}
    works = [Work(name, each, seed, QUICK_EPOCHS if quick else None) for name, each in splits.items()]
    calls = list(CANDIDATES.values())
    parts = run.parts({(work.name, i): partial(_part, each, work) for work in works for i, each in enumerate(calls)})
    sets = {name: {label: parts[name, i] for i, label in enumerate(CANDIDATES)} for name in splits}
    return {"sets": sets, "summary": summary(sets)}


def _inner(split: Split, seed: int) -> Split:
    """Hold out a fifth of the training part; the test part is dropped."""
    order = shuffled(len(split.x_train), seed)
    return split.part(order[len(order) // 5 :], order[: len(order) // 5])


def _part(candidate: Callable[[Work], Outcome], work: Work) -> Plain:
    outcome = candidate(work)
    return {"scores": scores(outcome, work.splits), "rates": outcome.rates, "seconds": outcome.seconds}


def summary(sets: Mapping[str, Plain]) -> dict[str, dict[str, Plain]]:
    """Means over splits, and the gain over the default with its standard error."""
    results: dict[str, dict[str, Plain]] = {}
    for name, parts in sets.items():
        reference = _column(parts[DEFAULT], "log_likelihood")
        results[name] = {}
        for label, part in parts.items():
            gain = _column(part, "log_likelihood") - reference
            row = {score: float(_column(part, score).mean()) for score in part["scores"][0]}
            row["gain"], row["gain_error"] = mean_and_error(gain)
            same_depth = len({len(rates) for rates in part["rates"]}) == 1
            results[name][label] = row | {"rates": np.mean(part["rates"], axis=0).tolist() if same_depth else []}
    return results


def _column(part: Plain, score: str) -> NDArray[np.float64]:
    return np.array([each[score] for each in part["scores"]])
