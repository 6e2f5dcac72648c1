"""The page of `gaps`."""

from functools import partial
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import GREY, Page, Picture, Table, dot, legend_of, name_rows, panels_of
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.page import COST, COVERED, PEERS, Cells, cell, methods_table
from gumdrop_experiments.tables.study import OURS

CAPTION = (
    "Test log likelihood, nats per row, higher is better: mean and standard error over splits of each kind. What falls "
    "from random splits to gaps and tails is what a method does not know and does not say. Lines: published for gap "
    "splits. Numbers at the edge are too far to show."
)
NOTES = (
    "Random splits are the published ones. A gap split holds out the middle third of the rows in the order of one "
    "input, a tail split both outer sixths; there is one for each input, and rows of equal values stay in the order of "
    "the file. All is standardised by the training part, and scored in units of the target. Standard errors are over "
    "splits, which share rows.",
    "'Rates fixed at .1' is the default in all but the learning of rates; the one network with MC dropout holds "
    "nothing out, and learns its noise with its weights; the deep ensemble has a head for the noise, no dropout, and "
    "stops after 40 passes. The published networks are others.",
    *PEERS,
)

LOOKS: dict[str, tuple[str, str]] = {"random": (GREY, "o"), "gap": (ORANGE, "s"), "tail": (BLUE, "D")}
LINES: dict[str, Literal["--", ":"]] = {"MC dropout": "--", "ensemble": ":"}


def page(results: Plain) -> Page:
    """Say how far each method falls where a stretch of an input was held out."""
    kinds, means = results["kinds"], results["means"]
    tables = [
        _table(kind, name, each, results["published"] if kind == "gap" else {})
        for kind, sets in kinds.items()
        for name, each in sets.items()
    ]
    figure = _log_likelihoods(kinds, results["published"] if "gap" in kinds else {})
    return Page("Gaps", _lead(means), [Picture("gaps", CAPTION, figure), _means(means), *tables], NOTES)


def _lead(means: Plain) -> str:
    if "gap" not in means:
        return "Splits of the UCI sets that hold out a stretch of one input, beside random ones."
    known = {key: mean for key, mean in means["gap"].items() if mean is not None}
    ranked = sorted(known.items(), key=lambda pair: -pair[1])
    said = ", ".join(f"{METHODS[key].label} {mean:.3f}" for key, mean in ranked)
    return f"Mean log likelihood over sets where the middle third of an input is held out: {said}."


def _means(means: Plain) -> Table:
    keys = list(next(iter(means.values())))
    rows = [
        [METHODS[key].label, *("" if each[key] is None else f"{each[key]:.3f}" for each in means.values())]
        for key in keys
    ]
    best = [
        (int(np.argmax([-np.inf if each[key] is None else each[key] for key in keys])), column + 1)
        for column, each in enumerate(means.values())
    ]
    ours = [i for i, key in enumerate(keys) if key == OURS]
    return Table("Log likelihood, nats per row, mean over sets", ["", *means], rows, ours=ours, best=best)


def _in_units(score: str, summary: Plain) -> str:
    """Write a score in units of the target, with a digit more where errors are small."""
    return f"{summary[score][0]:.{3 if summary['rmse'][0] > 0.2 else 4}f}"


CELLS: Cells = {
    "log likelihood": cell("log_likelihood", error=True),
    "RMSE": partial(_in_units, "rmse"),
    "CRPS": partial(_in_units, "crps"),
    **COVERED,
    "seconds": COST["seconds"],
}


def _table(kind: str, name: str, each: Plain, published: Plain) -> Table:
    caption = (
        f"{name}, {kind} splits: mean over {each['splits']}, standard error in brackets; nats per row and units of the "
        "target; share of rows inside their intervals in %; median seconds of one core to train and predict"
    )
    theirs = [[f"published: {label}", f"{value:.2f}", *[""] * 6] for label, value in published.get(name, {}).items()]
    return methods_table(caption, each["methods"], CELLS, published=theirs)


def _log_likelihoods(kinds: Plain, published: Plain) -> Figure:
    """The log likelihood of each method on each kind of split, a panel for each set."""
    names = list(next(iter(kinds.values())))
    keys = list(next(iter(kinds.values()))[names[0]]["methods"])[::-1]
    figure, panels = panels_of(names, 2, panel=(3.8, 0.46 * len(keys) + 1.1), margin=2.4, sharey=True)
    for name, axes in panels.items():
        name_rows(axes, [METHODS[key].label for key in keys])
        _draw(axes, {kind: sets[name]["methods"] for kind, sets in kinds.items()}, keys)
        for label, value in published.get(name, {}).items():
            if axes.get_xlim()[0] <= value <= axes.get_xlim()[1]:
                axes.axvline(value, color=INK, linestyle=LINES[label], linewidth=1, zorder=0)
    marks = {
        f"{kind} splits": {"color": LOOKS[kind][0], "marker": LOOKS[kind][1], "linestyle": "none"} for kind in kinds
    }
    lines = {
        f"published, gap: {label}": {"color": INK, "linestyle": style, "linewidth": 1} for label, style in LINES.items()
    }
    legend_of(figure, marks | lines, 3)
    return figure


def _draw(axes: Axes, methods: Plain, keys: list[str]) -> None:
    scores = {
        (kind, i): each[key]["log_likelihood"]
        for kind, each in methods.items()
        for i, key in enumerate(keys)
        if "failed" not in each[key]
    }
    means = sorted(mean for mean, _ in scores.values())
    high, middle = means[-1], means[len(means) // 3]
    low = middle - 0.6 * (high - middle) - 1e-3
    steps = {kind: 0.22 * (1 - j) for j, kind in enumerate(methods)}
    for (kind, i), (mean, error) in scores.items():
        colour, marker = LOOKS[kind]
        dot(axes, mean, i + steps[kind], error, (low, high), ".3g", color=colour, marker=marker, markersize=4)
    axes.set_xlim(low - 0.05 * (high - low), high + 0.08 * (high - low))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("test log likelihood, nats per row", fontsize=8)
