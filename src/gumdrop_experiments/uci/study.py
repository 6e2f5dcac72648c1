"""UCI regression: is a rate that is learned, with nothing to tune, as good as one that is searched for?

Every method trains on the same splits; nothing is chosen on a test part. `gumdrop reproduce uci`.

References:
    Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).
    Gal & Ghahramani 2016, "Dropout as a Bayesian Approximation" (arXiv:1506.02142), and the clean grid search that
    its authors published with their code in 2018.
    Nadeau & Bengio 2003, "Inference for the Generalization Error" (Machine Learning 52), for the paired test.
"""

import dataclasses
import importlib.util
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from gumdrop.ensembles import fit_regression_ensembles
from gumdrop.machine.threads import limited_threads
from gumdrop.training import fit, fit_stacked
from gumdrop_experiments.data.uci import Split, read_splits
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.uci import figures as uci_figures
from gumdrop_experiments.uci.methods import METHODS, fixed_network, grid_settings
from gumdrop_experiments.uci.work import LR, PAPER_LENGTHSCALE, Work, network, scores

__all__ = ["uci"]

QUICK_SPLITS, QUICK_EPOCHS = 3, 10
OURS, REFERENCE = "gumdrop", "grid"
SHARE_OF_SPEED = 10
"""The comparison of one program with a loop takes this part of the passes."""

PUBLISHED: dict[str, list[tuple[str, str, str]]] = {
    "boston-housing": [("2.90 (.18)", "-2.40 (.04)", "-2.34*"), ("2.65", "-2.72", "")],
    "concrete-strength": [("4.83 (.16)", "-2.94 (.02)", "-2.82*"), ("4.46", "-3.51", "")],
    "energy": [("0.539 (.014)", "-1.21 (.01)", "-0.61"), ("0.46", "-2.30", "")],
    "kin8nm": [(".0789 (.0006)", "1.14 (.01)", "1.28"), (".07", "0.65", "")],
    "naval": [(".00074", "4.45", "6.33"), (".00", "5.87", "")],
    "power-plant": [("4.01 (.04)", "-2.81 (.01)", "-2.67*"), ("3.70", "-2.75", "")],
    "protein": [("4.27 (.02)", "-2.87 (.00)", "-2.63"), ("3.85", "-2.81", "")],
    "wine-quality-red": [("0.62 (.01)", "-0.93 (.01)", "-0.89"), ("0.62", "-1.70", "")],
    "yacht": [("0.67 (.05)", "-1.25 (.02)", "-0.73"), ("0.57", "-1.75", "")],
}
"""RMSE, log likelihood and best network seen: of the clean grid search, then of the Concrete Dropout paper."""


def uci(
    options: RunOptions = RunOptions(),
    *,
    dataset: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    splits: int | None = None,
) -> None:
    """Learned dropout with nothing to tune against a searched rate, on the UCI regression sets and their splits.

    Args:
        options: The shared flags.
        dataset: Sets to run, by the names of their folders in DIR/uci; all by default.
        methods: Methods to run: gumdrop, one-member, dropout-off, grid, no-dropout, paper, deep-ensemble, peer,
            three-pass; all but the last by default.
        splits: Splits to run; all of them by default.

    Raises:
        ValueError: If there is no such set or method.
    """
    folder = data_folder(options, "uci")
    known = sorted(path.name for path in folder.iterdir() if path.is_dir())
    names = _checked("set", dataset, known) if dataset else known
    wanted = _checked("method", methods, METHODS) if methods else [key for key in METHODS if METHODS[key].default]
    most = splits or (QUICK_SPLITS if options.quick else None)
    epochs = QUICK_EPOCHS if options.quick else None
    settings = {"dataset": names, "methods": wanted, "splits": splits}
    with limited_threads(1), Run("uci", options, settings) as run:
        if "peer" in wanted and importlib.util.find_spec("concretedropout") is None:
            wanted = [key for key in wanted if key != "peer"]
            print("uci: the package concretedropout is not installed, so it is left out (pip install concretedropout)")
        works = {name: Work(name, read_splits(folder / name, most=most), options.seed, epochs) for name in names}
        parts = run.parts(
            {f"{name}.{key}": partial(_part, run, key, work) for name, work in works.items() for key in wanted}
        )
        sets = {}
        for name, work in works.items():
            done = {key: parts[f"{name}.{key}"] for key in wanted}
            cost = run.part(f"{name}.cost", partial(_cost, work)) if REFERENCE in wanted else None
            sets[name] = {"splits": len(work.splits), "methods": _summaries(done, work), "parts": done, "cost": cost}
        _finish(run, sets)


def _checked(what: str, names: tuple[str, ...], known: Any) -> list[str]:
    for name in names:
        if name not in known:
            raise ValueError(f"there is no {what} {name!r}; there are: {', '.join(known)}")
    return list(dict.fromkeys(names))


def _part(run: Run, key: str, work: Work) -> dict[str, Any]:
    """Run one method on one set, and score it."""
    checkpoint = partial(_checkpoint, run, f"{work.name}.{key}")
    outcome = METHODS[key].run(dataclasses.replace(work, checkpoint=checkpoint))
    return {
        "scores": scores(outcome, work.splits),
        "rates": outcome.rates,
        "chosen": outcome.chosen,
        "seconds": outcome.seconds,
        "row_passes": outcome.row_passes,
    }


def _checkpoint(run: Run, name: str, stage: str) -> Path:
    return run.checkpoint(f"{name}.{stage}")


def _summaries(done: dict[str, Any], work: Work) -> dict[str, Any]:
    """Mean and standard error of each score, and the paired comparison with the grid search."""
    summaries = {}
    for key, part in done.items():
        columns = {score: np.array([each[score] for each in part["scores"]]) for score in part["scores"][0]}
        summary: dict[str, Any] = {score: mean_and_error(values) for score, values in columns.items()}
        if REFERENCE in done and key != REFERENCE:
            reference = np.array([each["log_likelihood"] for each in done[REFERENCE]["scores"]])
            gain = columns["log_likelihood"] - reference
            summary["gain"] = float(gain.mean())
            summary["p_value"] = _paired_test(gain, work.splits)
            summary["cost_ratio"] = part["row_passes"] / done[REFERENCE]["row_passes"]
            summary["seconds_ratio"] = part["seconds"] / done[REFERENCE]["seconds"]
        if part["rates"]:
            summary["rates"] = np.mean(part["rates"], axis=0).tolist()
        summaries[key] = summary
    return summaries


def _paired_test(gain: Any, splits: list[Split]) -> float | None:
    """Two-sided p-value of a t-test that allows for the overlap of the training parts (Nadeau & Bengio 2003)."""
    if len(gain) < 2 or gain.var() == 0:
        return None
    overlap = len(splits[0].x_test) / len(splits[0].x_train)
    error = math.sqrt(gain.var(ddof=1) * (1 / len(gain) + overlap))
    return float(2 * stats.t.sf(abs(gain.mean()) / error, len(gain) - 1))


def _cost(work: Work) -> dict[str, float]:
    """Processor time for one table as a user would train it, and of all splits as one program against one by one."""
    split = work.splits[0]
    one = Work(work.name, [split], work.seed, work.epochs)
    batch_size, epochs = work.schedule
    options: dict[str, Any] = {
        "likelihood": "gaussian",
        "batch_size": batch_size,
        "lr": LR,
        "lengthscale": PAPER_LENGTHSCALE,
    }
    train = split.x_train, split.y_train
    fifth = len(split.x_train) // 5
    searched = split.x_train[fifth:], split.y_train[fifth:]
    settings = grid_settings(work.name, work.splits)
    seconds = {"grid_in_turn": 0.0}
    for data, setting in [*((searched, setting) for setting in settings), (train, settings[0])]:
        seconds["grid_in_turn"] += _timed(
            partial(fit, fixed_network(split, *setting), data, epochs=epochs, **options),
        )
    seconds["grid_as_one_program"] = METHODS["grid"].run(one).seconds
    for label, members in (("ensemble", 5), ("one_member", 1)):
        make = partial(network, split)
        seconds[label] = _timed(
            partial(
                fit_regression_ensembles,
                make,
                [train],
                num_members=members,
                epochs=epochs,
                batch_size=batch_size,
                seed=work.seed,
            )
        )
    few = max(1, epochs // SHARE_OF_SPEED)
    models = [network(each) for each in work.splits]
    parts = [(each.x_train, each.y_train) for each in work.splits]
    seconds["splits_as_one_program"] = _timed(partial(fit_stacked, models, parts, epochs=few, **options))
    seconds["splits_in_turn"] = sum(
        _timed(partial(fit, network(each), part, epochs=few, **options))
        for each, part in zip(work.splits, parts, strict=True)
    )
    return seconds


def _timed(call: Any) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def _finish(run: Run, sets: dict[str, Any]) -> None:
    """Draw the figures and write the page."""
    labels = {key: method.label for key, method in METHODS.items()}
    figures = []
    for name, figure, caption in uci_figures.figures(sets, labels, PUBLISHED):
        run.figure(name, figure)
        figures.append(Figure(name, caption))
    tables = [_table(name, each) for name, each in sets.items()]
    costs = [_cost_table(sets)] if any(each["cost"] for each in sets.values()) else []
    run.finish(sets, Page("UCI regression", _lead(sets), [*figures[:2], *tables, *figures[2:], *costs], NOTES))


def _lead(sets: dict[str, Any]) -> str:
    if not all({OURS, REFERENCE} <= set(each["methods"]) for each in sets.values()):
        return f"{len(sets)} sets, each with its published splits."
    ours = [each["methods"][OURS] for each in sets.values()]
    better = sum(each["gain"] > 0 for each in ours)
    surely = sum(each["gain"] > 0 and (each["p_value"] or 1) < 0.05 for each in ours)
    return (
        f"Learned dropout with nothing to tune has a higher test log likelihood than a grid search over rate and noise "
        f"on {better} of {len(sets)} sets, beyond what splits do by chance on {surely}."
    )


def _table(name: str, each: dict[str, Any]) -> Table:
    columns = ["", "RMSE", "log likelihood", "gain over grid (p)", "CRPS", "50 %", "90 %", "95 %", "row passes"]
    rows = [[METHODS[key].label, *_cells(summary)] for key, summary in each["methods"].items()]
    best = max(range(len(rows)), key=lambda i: list(each["methods"].values())[i]["log_likelihood"][0])
    sources = "published: clean grid", "published: Concrete Dropout"
    for label, published in zip(sources, PUBLISHED.get(name, []), strict=False):
        rows.append([label, published[0], published[1], *[""] * 6])
    if name in PUBLISHED:
        rows.append(["published: best network seen", "", PUBLISHED[name][0][2], *[""] * 6])
    caption = (
        f"{name}: mean over {each['splits']} splits, standard error in brackets; RMSE and CRPS in units of the target, "
        "log likelihood in nats per row, share of test rows inside the central 50, 90 and 95 % intervals, and rows "
        "through a network in training as a ratio to the grid search. * chosen with a view of test rows."
    )
    ours = [i for i, key in enumerate(each["methods"]) if key == OURS]
    return Table(caption, columns, rows, ours=ours, best=[(best, 2)])


def _cells(summary: dict[str, Any]) -> list[str]:
    def with_error(score: str, digits: int) -> str:
        mean, error = summary[score]
        return f"{mean:.{digits}f} ({error:.{digits}f})"

    digits = 3 if summary["rmse"][0] > 0.2 else 4
    gain = ""
    if "gain" in summary:
        gain = f"{summary['gain']:+.3f}" + ("" if summary["p_value"] is None else f" ({summary['p_value']:.2g})")
    coverage = [f"{100 * summary[f'coverage_{level}'][0]:.1f}" for level in (50, 90, 95)]
    cost = f"{summary['cost_ratio']:.3f}" if "cost_ratio" in summary else "1"
    return [
        with_error("rmse", digits),
        with_error("log_likelihood", 3),
        gain,
        f"{summary['crps'][0]:.{digits}f}",
        *coverage,
        cost,
    ]


def _cost_table(sets: dict[str, Any]) -> Table:
    columns = ["", *sets]
    ratios = {
        "ensemble of 5, one program / grid of 12 and refit, in turn": ("ensemble", "grid_in_turn"),
        "one member / grid of 12 and refit, in turn": ("one_member", "grid_in_turn"),
        "ensemble of 5 / grid, each as one program": ("ensemble", "grid_as_one_program"),
        "all splits in turn / as one program": ("splits_in_turn", "splits_as_one_program"),
    }
    rows = [
        [label, *(f"{each['cost'][a] / each['cost'][b]:.2f}" if each["cost"] else "" for each in sets.values())]
        for label, (a, b) in ratios.items()
    ]
    return Table("Ratios of processor time in training, one split unless it says all, one thread", columns, rows)


NOTES = (
    "All networks are 2 x 50 ReLU with the same batches and passes (about 2,500 steps), except the deep ensemble, "
    "which stops after 40 passes as published, and the three-pass scheme, which has three layers. Inputs and targets "
    "are standardised by the training part. The default holds out a tenth of the training rows for each member and "
    "sees no test row; its settings were chosen on training parts (docs/method.md).",
    "The grid search has the published rates .005, .01, .05, .1 and three noise precisions for each set, judged on a "
    "fifth of the training part, then trained on all of it. Its published figures come from 1 x 50 units and 4,000 "
    "passes.",
    "The p-value is that of a paired t-test over splits, corrected for the overlap of their training parts.",
)
