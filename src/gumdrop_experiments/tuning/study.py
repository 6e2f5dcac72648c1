"""How the default for tables was chosen: candidates that differ from it in one thing, on training parts alone.

Of each UCI training part a fifth is held out and predicted; the test parts are never touched. Beside them stand
simulated sets, where the noise is known. `gumdrop reproduce tuning`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure as MatplotlibFigure
from numpy.typing import NDArray

from gumdrop.ensembles import schedule
from gumdrop.machine.threads import limited_threads
from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.data.uci import Split, read_splits, standardised
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.uci.methods import ensemble, single
from gumdrop_experiments.uci.work import Outcome, Work, scores

__all__ = ["CANDIDATES", "simulated", "tuning"]

UCI = ("boston-housing", "concrete-strength", "wine-quality-red")
SIMULATED = ("friedman-200", "linear-100", "sine-200")
SPLITS, QUICK_SPLITS, QUICK_EPOCHS = 10, 2, 5
TEST_ROWS = 500
DEFAULT = "the default"


def _passes(work: Work, factor: float) -> Work:
    """The same work with another number of passes."""
    _, epochs = schedule(len(work.splits[0].x_train), epochs=work.epochs)
    return replace(work, epochs=max(1, round(epochs * factor)))


CANDIDATES: dict[str, Callable[[Work], Outcome]] = {
    DEFAULT: ensemble,
    "prior: fan_in, ten times as strong": partial(ensemble, lengthscale="fan_in"),
    "prior: the paper's lengthscale of .01": partial(ensemble, lengthscale=0.01),
    "noise: one variance for all rows": partial(ensemble, input_noise=False),
    "dropout: off": partial(ensemble, dropout=False),
    "members: 1": partial(ensemble, num_members=1),
    "members: 3": partial(ensemble, num_members=3),
    "steps: half": lambda work: ensemble(_passes(work, 0.5)),
    "steps: double": lambda work: ensemble(_passes(work, 2.0)),
    "learning rate: half": partial(ensemble, lr=5e-3),
    "members 5, noise from training residuals": partial(single, members=5, lengthscale="weak"),
    "members 5, noise head on training rows": partial(single, members=5, heteroscedastic=True, lengthscale="weak"),
    "members 5, noise head, prior fan_in": partial(single, members=5, heteroscedastic=True, lengthscale="fan_in"),
}
"""What is compared: the default first, then variants that change what they name."""


def simulated(name: str, count: int, seed: int) -> list[Split]:
    """Draw data sets whose noise is known.

    Args:
        name: ``friedman-200`` (Friedman 1991, noise 1), ``linear-100`` (20 inputs, noise 1) or ``sine-200`` (noise
            from 0.05 to 0.35).
        count: Number of data sets.
        seed: Seed of the draws.

    Returns:
        A split for each data set, with 500 test rows.
    """
    from sklearn.datasets import make_friedman1

    kind, rows = name.split("-")
    splits = []
    for i in range(count):
        random = np.random.default_rng((seed, i))
        total = int(rows) + TEST_ROWS
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


def tuning(options: RunOptions = RunOptions()) -> None:
    """How the default for tables was chosen: variants of it, scored on held-out fifths of training parts.

    Args:
        options: The shared flags.
    """
    folder = data_folder(options, "uci")
    most = QUICK_SPLITS if options.quick else SPLITS
    epochs = QUICK_EPOCHS if options.quick else None
    with limited_threads(1), Run("tuning", options) as run:
        computes: dict[str, Callable[[], Any]] = {}
        for name in (*UCI, *SIMULATED):
            if name in UCI:
                splits = [_inner(split, options.seed) for split in read_splits(folder / name, most=most)]
            else:
                splits = simulated(name, most, options.seed)
            work = Work(name, splits, options.seed, epochs)
            computes |= {f"{name}.{i}": partial(_part, each, work) for i, each in enumerate(CANDIDATES.values())}
        parts = run.parts(computes)
        sets = {
            name: {label: parts[f"{name}.{i}"] for i, label in enumerate(CANDIDATES)} for name in (*UCI, *SIMULATED)
        }
        summary = _summary(sets)
        run.figure("tuning", _figure(summary))
        caption = (
            "Log likelihood of held-out rows less that of the default, in nats per row, mean and standard error over "
            "splits; left of the line is worse. Numbers at the edge are too far to show."
        )
        body: list[Figure | Table] = [
            Figure("tuning", caption),
            *(_table(name, each) for name, each in summary.items()),
        ]
        lead = "Each variant changes one thing of the default. None of it has seen a test row of the UCI splits."
        run.finish({"sets": sets, "summary": summary}, Page("How the default was chosen", lead, body))


def _inner(split: Split, seed: int) -> Split:
    """Hold out a fifth of the training part; the test part is dropped."""
    order = torch.randperm(len(split.x_train), generator=torch.Generator().manual_seed(seed))
    return split.part(order[len(order) // 5 :], order[: len(order) // 5])


def _part(candidate: Callable[[Work], Outcome], work: Work) -> dict[str, Any]:
    outcome = candidate(work)
    return {"scores": scores(outcome, work.splits), "rates": outcome.rates, "seconds": outcome.seconds}


def _summary(sets: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Means over splits, and the gain over the default with its standard error."""
    summary: dict[str, dict[str, dict[str, Any]]] = {}
    for name, parts in sets.items():
        reference = _column(parts[DEFAULT], "log_likelihood")
        summary[name] = {}
        for label, part in parts.items():
            gain = _column(part, "log_likelihood") - reference
            row = {score: float(_column(part, score).mean()) for score in part["scores"][0]}
            row |= {"gain": float(gain.mean()), "gain_error": float(gain.std(ddof=1) / len(gain) ** 0.5)}
            summary[name][label] = row | {"rates": np.mean(part["rates"], axis=0).tolist() if part["rates"] else []}
    return summary


def _column(part: Mapping[str, Any], score: str) -> NDArray[np.float64]:
    return np.array([each[score] for each in part["scores"]])


def _figure(summary: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> MatplotlibFigure:
    labels = [label for label in CANDIDATES if label != DEFAULT][::-1]
    figure = MatplotlibFigure(figsize=(11, 0.46 * len(labels) + 1.6), layout="constrained")
    for axes, (name, rows) in zip(
        figure.subplots(2, -(-len(summary) // 2), sharey=True).flat, summary.items(), strict=False
    ):
        axes.set_title(name, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.axvline(0, color=INK, linewidth=1)
        left, right = -0.3, 0.1
        for i, label in enumerate(labels):
            gain, error = rows[label]["gain"], rows[label]["gain_error"]
            if gain < left:
                axes.annotate(f"← {gain:.2f}", (left, i), fontsize=8, va="center", color=ORANGE)
            elif gain > right:
                axes.annotate(f"{gain:+.2f} →", (right, i), fontsize=8, va="center", ha="right", color=ORANGE)
            else:
                axes.errorbar(gain, i, xerr=error, marker="o", color=BLUE, capsize=2, markersize=4)
        axes.set_xlim(left, right)
        axes.set_yticks(range(len(labels)), labels, fontsize=8)
        axes.tick_params(axis="x", labelsize=8)
    figure.supxlabel("gain in log likelihood over the default, nats per row", fontsize=9)
    return figure


def _table(name: str, rows: Mapping[str, Mapping[str, Any]]) -> Table:
    columns: Sequence[str] = ["", "log likelihood", "gain (SE)", "RMSE", "CRPS", "90 %", "p by layer"]
    cells = [
        [
            label,
            f"{row['log_likelihood']:.3f}",
            "" if label == DEFAULT else f"{row['gain']:+.3f} ({row['gain_error']:.3f})",
            f"{row['rmse']:.4g}",
            f"{row['crps']:.4g}",
            f"{100 * row['coverage_90']:.1f}",
            ", ".join(f"{p:.3f}" for p in row["rates"]),
        ]
        for label, row in rows.items()
    ]
    return Table(f"{name}: held-out rows, mean over splits; 90 %: share inside that interval", columns, cells, ours=[0])
