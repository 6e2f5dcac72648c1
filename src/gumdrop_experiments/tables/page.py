"""The page of `tables`."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from gumdrop.views.plots import BLUE, INK, ORANGE, PALETTE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import (
    GREY,
    Page,
    Picture,
    Table,
    cell,
    dots,
    dress,
    edges_of,
    mean_of,
    name_rows,
    panels_of,
    subplots,
    with_error,
)
from gumdrop_experiments.tables.methods import CLASS_ROWS, KERNEL_ROWS, METHODS
from gumdrop_experiments.tables.study import OURS, WANTED_COVERAGE
from gumdrop_experiments.tables.tasks import COVERAGES

PEERS = (
    """Other packages have the settings of their documentation. NGBoost (a normal distribution; 2,000 rounds at most,
    as in its authors' benchmark), CatBoost (RMSEWithUncertainty with posterior sampling, the mixture of 10 virtual
    models; its defaults for classes) and TabM stop early on training rows that are held out: a tenth, a tenth and a
    fifth. RealMLP is trained on the quantiles, or on classes. TabM gives a point, and gets Gaussian noise of the
    variance that its held-out rows show. Seconds are processor time with one thread.""",
    """The quantile forest, boosted quantiles and RealMLP give quantiles and no density: 21 of them, put in order
    where they cross. Their coverage is that of these quantiles; CRPS is twice their mean pinball loss, integrated by
    the trapezoidal rule, which is 0.5 % too little against a Gaussian; their log likelihood is that of the Gaussian
    with the same 5 and 95 % quantiles, no narrower than rounding to the step in which the training targets come. The
    forest's RMSE is that of its mean, that of the others of their median.""",
)
"""What is to be said of the methods of other packages, wherever they run."""
CAPTIONS = {
    "tables-log-likelihood": """Held-out log likelihood of each method less that of the estimator as it comes, nats
    per row: mean and standard error over folds. Left of the line is worse; numbers at the edge are too far to show.""",
    "tables-coverage": "Share of held-out rows inside their 90 % intervals. The band is 88 to 92 %.",
    "tables-calibration": """Expected calibration error of the predicted class: the mean gap between how sure a
    method is and how often it is right. Less is better; a few hundred rows make some hundredths of it by chance.""",
}
NOTES = (
    """Five folds, the same for all methods; scores are over all rows, each predicted once. 'Less ours' is the mean
    over folds of the difference in log likelihood, with its standard error; folds share training rows, so it is
    somewhat too small. Nothing was chosen on these folds. The default for numbers was chosen on training parts of
    three of the UCI sets (gumdrop reproduce tuning), which hold many of the same rows.""",
    f"""Gaussian processes have an isotropic RBF kernel with a constant factor, and white noise for numbers. Kernels
    are learned from {KERNEL_ROWS} rows at most, drawn at random, and then they know all rows; for classes they know
    {CLASS_ROWS} rows at most, which is fewer than there are on digits alone. Boosted trees have scikit-learn's
    settings, and Gaussian noise of the variance that 5-fold validation within the training part finds. Probabilities
    of peers are kept above 1e-6.""",
    *PEERS,
    """'Rates fixed at .1' is the default in all but the learning of rates: five members, held-out noise, as many
    steps. The one network holds nothing out, and learns its noise with its weights, as is mostly done; as many
    steps. The deep ensemble does so too, without dropout, and stops after 40 passes as published.""",
)

Cells = dict[str, Callable[[Plain], str]]
"""How the columns of a table are written, by their heads."""
MARKERS = "o^sDvPX<>dhp8"
LABELS = {key: method.label for key, method in METHODS.items()}


def page(results: Plain) -> Page:
    """Say on how many sets the estimators as they come are best."""
    sets, verdicts = results["sets"], results["verdicts"]
    numbers, classes = (
        {name: each for name, each in sets.items() if bool(each["classes"]) == of} for of in (False, True)
    )
    drawings = {}
    if all(OURS in each["methods"] and len(each["methods"]) > 1 for each in sets.values()):
        drawings["tables-log-likelihood"] = _gaps(sets)
    if numbers:
        drawings["tables-coverage"], axes = _by_set(numbers, "coverage_90", "rows inside the 90 % interval, %")
        axes.axvspan(*(100 * edge for edge in WANTED_COVERAGE), color=GREY, alpha=0.2, linewidth=0, zorder=0)
    if classes:
        drawings["tables-calibration"], axes = _by_set(classes, "ece", "calibration error, points")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    figures = [Picture(name, CAPTIONS[name], drawing) for name, drawing in drawings.items()]
    return Page("Tables", _lead(verdicts), [*figures, *(_table(name, each) for name, each in sets.items())], NOTES)


def _lead(verdicts: Plain) -> str:
    if not verdicts:
        return "Five folds of each set."
    networks, everything = (sum(each[what] for each in verdicts.values()) for what in ("best_network", "best_of_all"))
    covered = [each["coverage"] for each in verdicts.values() if each["coverage"] is not None]
    scored = sum(bool(each["best_crps"]) for each in verdicts.values())
    return f"""The estimators as they come have the best held-out log likelihood of the networks, or one within a
    standard error of it, on {networks} of {len(verdicts)} sets; of all methods on {everything}. On {scored} of
    {len(covered)} sets of numbers that holds of CRPS, and on {sum(covered)} their 90 % intervals hold 88 to 92 % of
    the rows."""


def _table(name: str, table: Plain) -> Table:
    cells: Cells = {
        "log likelihood": cell("log_likelihood"),
        "less ours (SE)": lambda row: with_error((row["gap"], row["gap_error"]), "+.3f") if "gap" in row else "",
    }
    if table["classes"]:
        cells |= {head: cell(score) for head, score in (("accuracy", "accuracy"), ("Brier", "brier"), ("ECE", "ece"))}
    else:
        cells |= {"RMSE": cell("rmse"), "CRPS": cell("crps")}
        cells |= {f"{level} %": cell(f"coverage_{level}") for level in COVERAGES} | {"width of 90 %": cell("width")}
    what = f"{table['classes']} classes" if table["classes"] else "numbers, in units of their standard deviation"
    caption = f"""{name}: {table["rows"]} rows, {table["columns"]} columns, {what}; seconds of one core to train on a
    fold and predict, and memory at most beside what was held before; medians over folds"""
    return methods_table(caption, table["methods"], cells | COST, best=("log likelihood", "log_likelihood", 1))


def in_units(score: str, *, error: bool = False) -> Callable[[Plain], str]:
    """Write a score in units of the target, with a digit more where errors are small."""
    return lambda summary: cell(score, ".3f" if summary["rmse"][0] > 0.2 else ".4f", error=error)(summary)


COVERED = {f"{level} %": cell(f"coverage_{level}", ".1f", scale=100) for level in COVERAGES}
"""Shares of rows inside intervals."""
COST: Cells = {
    "seconds": cell("seconds", ".1f"),
    "MB": lambda summary: "" if summary["megabytes"] is None else f"{summary['megabytes']:.0f}",
}
"""What a method took; the memory is empty where the system does not tell."""


def methods_table(
    caption: str,
    methods: Plain,
    cells: Cells,
    *,
    labels: Mapping[str, str] = LABELS,
    best: tuple[str, str, int] | None = None,
    published: Sequence[Sequence[str]] = (),
) -> Table:
    """Put the methods into rows, ours marked, and what is published below; a rival that failed says why.

    The best has a star in the column of this head, by this score, whose largest counts, or with -1 the smallest.
    """
    empty = [""] * (len(cells) - 1)
    rows = [
        [labels[key], f"failed: {summary['failed']}", *empty]
        if "failed" in summary
        else [labels[key], *(write(summary) for write in cells.values())]
        for key, summary in methods.items()
    ]
    stars = []
    if best is not None:
        head, score, sign = best
        ranks = [sign * mean_of(each[score]) if score in each else -math.inf for each in methods.values()]
        stars.append((int(np.argmax(ranks)), 1 + list(cells).index(head)))
    ours = [i for i, key in enumerate(methods) if key == OURS]
    return Table(caption, ["", *cells], [*rows, *published], ours=ours, best=stars)


def _gaps(sets: Plain) -> Figure:
    keys = [key for key in METHODS if key != OURS and any(key in each["methods"] for each in sets.values())]
    figure, panels = panels_of(list(sets), 2, panel=(3.0, 0.22 * len(keys) + 0.8), margin=2.2, sharey=True)
    for name, axes in panels.items():
        axes.axvline(0, color=INK, linewidth=1, zorder=0)
        methods, rows = sets[name]["methods"], {}
        for key in keys:
            summary = methods.get(key, {})
            absent = "failed" if key in methods else "none for classes"
            rows[LABELS[key]] = (summary["gap"], summary["gap_error"]) if "gap" in summary else absent
        edges = edges_of([(0.0, 0.0), *(row for row in rows.values() if not isinstance(row, str))])
        dots(axes, rows, edges, look=lambda label: {"color": BLUE, "markersize": 4})
    figure.supxlabel("log likelihood less that of gumdrop, nats per row; each panel on a scale of its own", fontsize=9)
    return figure


def _by_set(sets: Plain, score: str, title: str) -> tuple[Figure, Axes]:
    """Draw a score of all methods, in percent, a line for each set."""
    figure, axes = subplots(size=(8.4, 0.5 * len(sets) + 1.7))
    names = list(sets)[::-1]
    for j, (key, label) in enumerate(LABELS.items()):
        pairs = [
            (100 * sets[name]["methods"][key][score], i)
            for i, name in enumerate(names)
            if score in sets[name]["methods"].get(key, {})
        ]
        if pairs:
            look: Plain = {"s": 28, "color": PALETTE[j % len(PALETTE)], "marker": MARKERS[j]}
            if key == OURS:
                look = {"s": 110, "color": ORANGE, "marker": "*", "zorder": 3}
            axes.scatter(*zip(*pairs, strict=True), label=label, linewidths=0, **look)
    dress(axes, x=title)
    name_rows(axes, names)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure, axes
