"""Every method on every set and split, what training costs, and the comparison with the grid search."""

import dataclasses
import importlib.util
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from gumdrop.ensembles import EnsembleSettings, Rows, fit_ensembles
from gumdrop.likelihoods import Gaussian
from gumdrop.training import fit, fit_stacked
from gumdrop_experiments.data.uci import Split, read_splits
from gumdrop_experiments.harness import Plain, Run, data_folder
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.shared import seeded
from gumdrop_experiments.uci import Settings
from gumdrop_experiments.uci.methods import METHODS, fixed_network, grid_settings
from gumdrop_experiments.uci.work import LR, PAPER_LENGTHSCALE, Work, network, scores, training_parts

OURS, REFERENCE = "gumdrop", "grid"
"""The method that is ours, and the one that others are compared with."""
QUICK_SPLITS, QUICK_EPOCHS = 3, 10
SHARE_OF_SPEED = 10
"""The comparison of one program with a loop takes this part of the passes."""


def study(settings: Settings, run: Run) -> Plain:
    """Train and score the methods on all splits of the sets, and take the time of some."""
    folder, quick = data_folder(run.options, "uci"), run.options.quick
    most = settings.splits or (QUICK_SPLITS if quick else None)
    epochs = QUICK_EPOCHS if quick else None
    passes = min(settings.scheme_epochs, epochs or settings.scheme_epochs)
    empty = Work("", [], run.options.seed, epochs, regularisers=settings.regularisers, scheme_epochs=passes)
    splits = {name: read_splits(folder / name, most=most) for name in settings.dataset}
    works = {name: dataclasses.replace(empty, name=name, splits=each) for name, each in splits.items()}
    methods = list(settings.methods)
    if "peer" in methods and importlib.util.find_spec("concretedropout") is None:
        print("uci: the package concretedropout is not installed, so it is left out (pip install concretedropout)")
        methods.remove("peer")
    parts = run.parts({(name, key): partial(part, run, key, work) for name, work in works.items() for key in methods})
    results = {}
    for name, work in works.items():
        done = {key: parts[name, key] for key in methods}
        cost = run.part(f"{name}.cost", partial(_cost, work)) if REFERENCE in methods else None
        results[name] = {
            "splits": len(work.splits),
            "methods": summaries(done, work.splits),
            "parts": done,
            "cost": cost,
        }
    return results


def part(run: Run, key: str, work: Work) -> Plain:
    """Run one method on one set, and score it."""
    work = dataclasses.replace(work, checkpoint=lambda stage: run.checkpoint(f"{work.name}.{key}.{stage}"))
    outcome = METHODS[key].run(work)
    return {
        "scores": scores(outcome, work.splits),
        "rates": outcome.rates,
        "chosen": outcome.chosen,
        "seconds": outcome.seconds,
        "row_passes": outcome.row_passes,
    }


def _cost(work: Work) -> dict[str, float]:
    """Processor time for one table as a user would train it, and of all splits as one program against one by one."""
    first = dataclasses.replace(work, splits=work.splits[:1])
    batch_size, epochs = work.schedule
    options: Plain = {"likelihood": "gaussian", "batch_size": batch_size, "lr": LR, "lengthscale": PAPER_LENGTHSCALE}
    few = max(1, epochs // SHARE_OF_SPEED)
    with seeded(work.seed):
        models, parts = [network(each) for each in work.splits], training_parts(work.splits)
        return {
            "grid_in_turn": _grid_in_turn(work, epochs=epochs, **options),
            "grid_as_one_program": METHODS["grid"].run(first).seconds,
            "ensemble": _ensemble(work, 5),
            "one_member": _ensemble(work, 1),
            "splits_as_one_program": _timed(partial(fit_stacked, models, parts, epochs=few, **options)),
            "splits_in_turn": sum(
                _timed(partial(fit, network(each), train, epochs=few, **options))
                for each, train in zip(work.splits, parts, strict=True)
            ),
        }


def _grid_in_turn(work: Work, **options: Any) -> float:
    """Time a search over the grid on a fifth of the first training part, and a training on all of it."""
    split, settings = work.splits[0], grid_settings(work.name, work.splits)
    fifth = len(split.x_train) // 5
    searched = split.x_train[fifth:], split.y_train[fifth:]
    trainings = [*((searched, setting) for setting in settings), ((split.x_train, split.y_train), settings[0])]
    return sum(_timed(partial(fit, fixed_network(split, *setting), data, **options)) for data, setting in trainings)


def _ensemble(work: Work, members: int) -> float:
    """Time the default, or one member of it, on the first training part."""
    batch_size, epochs = work.schedule
    settings = EnsembleSettings(num_members=members, epochs=epochs, batch_size=batch_size, seed=work.seed)
    rows = [Rows(*part) for part in training_parts(work.splits[:1])]
    return _timed(partial(fit_ensembles, [partial(network, work.splits[0])], rows, settings, Gaussian()))


def _timed(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def summaries(done: Plain, splits: Sequence[Split]) -> Plain:
    """Mean and standard error of each score, and the paired comparison with the grid search."""
    summaries = {}
    for key, part in done.items():
        columns = {score: np.array([each[score] for each in part["scores"]]) for score in part["scores"][0]}
        summary: Plain = {score: mean_and_error(values) for score, values in columns.items()}
        if REFERENCE in done and key != REFERENCE:
            reference = np.array([each["log_likelihood"] for each in done[REFERENCE]["scores"]])
            gain = columns["log_likelihood"] - reference
            summary |= {"gain": float(gain.mean()), "p_value": paired_test(gain, splits)}
            summary["cost_ratio"] = part["row_passes"] / done[REFERENCE]["row_passes"]
            summary["seconds_ratio"] = part["seconds"] / done[REFERENCE]["seconds"]
        if part["rates"]:
            summary["rates"] = np.mean(part["rates"], axis=0).tolist()
        summaries[key] = summary
    return summaries


def paired_test(gain: Any, splits: Sequence[Split]) -> float | None:
    """Two-sided p-value of a t-test that allows for the overlap of the training parts (Nadeau & Bengio 2003)."""
    if len(gain) < 2 or gain.var() == 0:
        return None
    overlap = len(splits[0].x_test) / len(splits[0].x_train)
    error = math.sqrt(gain.var(ddof=1) * (1 / len(gain) + overlap))
    return float(2 * stats.t.sf(abs(gain.mean()) / error, len(gain) - 1))
