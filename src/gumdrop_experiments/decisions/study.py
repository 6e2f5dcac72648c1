"""What uncertainty is good for: which rows to label next, which rows to distrust, and what more data change.

`gumdrop reproduce decisions`.

References:
    Houlsby et al. 2011, "Bayesian Active Learning for Classification and Preference Learning" (arXiv:1112.5745).
    Hendrycks & Gimpel 2017, "A Baseline for Detecting Misclassified and Out-of-Distribution Examples"
    (arXiv:1610.02136).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MatplotlibFigure
from threadpoolctl import threadpool_limits

from gumdrop.machine.threads import limited_threads
from gumdrop.views.plots import INK, PALETTE
from gumdrop_experiments.decisions.work import CHOICES, growing, label, outliers
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages.page import Figure, Page, Table

__all__ = ["decisions"]

SEEDS, LABEL_SEEDS, QUICK_SEEDS = 5, 3, 2
ROUNDS, QUICK_ROUNDS = 4, 1
QUICK_PASSES = 3
SIZES = {"diabetes": [50, 100, 200, 442], "digits": [100, 200, 400, 800, 1797]}
QUICK_SIZES = {"diabetes": [50, 100], "digits": [50, 100]}


def decisions(options: RunOptions = RunOptions()) -> None:
    """Active learning, rows unlike the training data, and rates as data grow.

    Args:
        options: The shared flags.
    """
    seeds = range(options.seed, options.seed + (QUICK_SEEDS if options.quick else SEEDS))
    rounds, passes = (QUICK_ROUNDS, QUICK_PASSES) if options.quick else (ROUNDS, None)
    with limited_threads(1), threadpool_limits(1), Run("decisions", options) as run:
        strange = [run.part(f"outliers.{seed}", partial(outliers, seed, passes)) for seed in seeds]
        sizes = QUICK_SIZES if options.quick else SIZES
        rates = {
            name: [run.part(f"growing.{name}.{seed}", partial(growing, name, seed, each, passes)) for seed in seeds[:2]]
            for name, each in sizes.items()
        }
        curves = {
            choice: [
                run.part(f"digits.{number}.{seed}", partial(label, choice, seed, rounds, passes))
                for seed in seeds[:LABEL_SEEDS]
            ]
            for number, choice in enumerate(CHOICES)
        }
        _finish(run, curves, strange, rates)


def _finish(run: Run, curves: dict[str, Any], strange: list[Any], rates: dict[str, Any]) -> None:
    run.figure("decisions-labels", _curves(curves))
    run.figure("decisions-outliers", _aurocs(strange))
    run.figure("decisions-growing", _rates(rates))
    body: list[Figure | Table] = [
        Figure("decisions-labels", "What a test set says after each batch of labels: mean over seeds, band of one SE."),
        _label_table(curves),
        Figure("decisions-outliers", "AUROC of each score: 0.5 is guessing, 1 is right always. Dots are seeds."),
        *(_outlier_table(kind, [each[kind] for each in strange]) for kind in strange[0]),
        Figure("decisions-growing", "Learned rate of each layer as rows are added by partial_fit; lines are seeds."),
    ]
    results = {"labels": curves, "outliers": strange, "growing": rates}
    lead = "Which rows to label, which rows to distrust, and what more data change."
    run.finish(results, Page("What uncertainty is good for", lead, body, NOTES))


def _column(curves: Sequence[Any], score: str) -> Any:
    return np.array([[point[score] for point in curve] for curve in curves])


def _curves(curves: Mapping[str, Any]) -> MatplotlibFigure:
    figure = MatplotlibFigure(figsize=(10, 3.6), layout="constrained")
    names = {"accuracy": "accuracy on test rows", "log_likelihood": "log likelihood of test rows, nats"}
    for axes, (score, name) in zip(figure.subplots(1, 2), names.items(), strict=True):
        for colour, (choice, each) in zip((INK, *PALETTE[:2]), curves.items(), strict=True):
            labels, values = _column(each, "labels")[0], _column(each, score)
            mean, error = values.mean(0), values.std(0, ddof=1) / len(values) ** 0.5
            axes.plot(labels, mean, color=colour, label=choice, marker="o", markersize=3)
            axes.fill_between(labels, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)
        axes.set_xticks(labels)
        _dress(axes, "digits", "rows with a label", name)
        axes.legend(fontsize=8, frameon=False, loc="lower right")
    return figure


def _aurocs(strange: Sequence[Any]) -> MatplotlibFigure:
    figure = MatplotlibFigure(figsize=(10, 3.0), layout="constrained")
    panels = figure.subplots(1, len(strange[0]), sharey=True)
    for axes, kind in zip(panels, strange[0], strict=True):
        names = list(strange[0][kind])[::-1]
        for i, name in enumerate(names):
            values = [each[kind][name]["auroc"] for each in strange]
            colour = PALETTE[1] if name.startswith("gumdrop") else PALETTE[0]
            axes.scatter(values, [i] * len(values), s=16, alpha=0.5, color=colour, linewidths=0)
            axes.scatter(np.mean(values), i, s=70, marker="|", color=INK)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.set_ylim(-0.6, len(names) - 0.4)
        _dress(axes, kind, "AUROC", "")
    return figure


def _rates(rates: Mapping[str, Any]) -> MatplotlibFigure:
    figure = MatplotlibFigure(figsize=(10, 3.0), layout="constrained")
    for axes, (name, curves) in zip(figure.subplots(1, len(rates)), rates.items(), strict=True):
        for curve in curves:
            values = np.array([point["rates"] for point in curve])
            for layer, colour in zip(range(values.shape[1]), PALETTE, strict=False):
                label = f"layer {layer + 1}" + (", inputs" if layer == 0 else "") if curve is curves[0] else None
                axes.plot(
                    [point["rows"] for point in curve], values[:, layer], "o-", markersize=3, color=colour, label=label
                )
        axes.set_xscale("log")
        axes.set_xticks([point["rows"] for point in curves[0]], [str(point["rows"]) for point in curves[0]])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        _dress(axes, name, "rows", "drop probability p")
        axes.legend(fontsize=8, frameon=False)
    return figure


def _dress(axes: Axes, title: str, xlabel: str, ylabel: str) -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(xlabel, fontsize=9)
    axes.set_ylabel(ylabel, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _label_table(curves: Mapping[str, Any]) -> Table:
    labels = [int(point["labels"]) for point in curves["random"][0]]
    rows = []
    for choice, each in curves.items():
        values = _column(each, "accuracy")
        gain = values - _column(curves["random"], "accuracy")
        cells = [f"{values[:, i].mean():.3f} ({_with_error(gain[:, i])})" for i in range(len(labels))]
        rows.append([choice, *(cell.removesuffix(" (+0.000, 0.000)") for cell in cells)])
    caption = "digits: accuracy by number of labels; in brackets the gain over random rows, seed by seed, and its SE"
    return Table(caption, ["", *map(str, labels)], rows)


def _with_error(values: Any) -> str:
    return f"{values.mean():+.3f}, {values.std(ddof=1) / len(values) ** 0.5:.3f}"


def _outlier_table(kind: str, parts: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for name in parts[0]:
        auroc, false, found = (
            np.array([part[name][what] for part in parts]) for what in ("auroc", "false_alarms", "found")
        )
        error = auroc.std(ddof=1) / len(auroc) ** 0.5
        rows.append(
            [name, f"{auroc.mean():.3f} ({error:.3f})", f"{100 * found.mean():.0f}", f"{100 * false.mean():.1f}"]
        )
    best = max(range(len(rows)), key=lambda i: float(rows[i][1].split()[0]))
    columns = ["", "AUROC (SE)", "found at an alarm rate of 5 %", "false alarms, %"]
    return Table(f"{kind}: strange rows against test rows of the known digits 0 to 7", columns, rows, best=[(best, 1)])


NOTES = (
    "Labels: 20 random rows of a pool of 1,000 to begin with, 40 more in each batch; after each batch the estimator "
    "trains anew on all labels, by partial_fit, with 200 passes. The same first rows and test rows for all choices.",
    "Alarms: outlier_p_values of each score against half of the test rows of the known digits; false alarms are "
    "counted on the other half.",
)
