"""The page of `gaps`."""

from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import GREY, Page, Picture, Table, cell, dot, edges_of, legend_of, name_rows, panels_of
from gumdrop_experiments.tables.page import COST, COVERED, LABELS, PEERS, Cells, in_units, methods_table
from gumdrop_experiments.tables.study import OURS

CAPTION = """Test log likelihood, nats per row, higher is better: mean and standard error over splits of each kind.
What falls from random splits to gaps and tails is what a method does not know and does not say. Lines: published for
gap splits. Numbers at the edge are too far to show."""
NOTES = (
    """Random splits are the published ones. A gap split holds out the middle third of the rows in the order of one
    input, a tail split both outer sixths; there is one for each input, and rows of equal values stay in the order of
    the file. All is standardised by the training part, and scored in units of the target. Standard errors are over
    splits, which share rows.""",
    """'Rates fixed at .1' is the default in all but the learning of rates; the one network with MC dropout holds
    nothing out, and learns its noise with its weights; the deep ensemble has a head for the noise, no dropout, and
    stops after 40 passes. The published networks are others.""",
    *PEERS,
)

LOOKS: dict[str, Plain] = {
    "random": {"color": GREY, "marker": "o"},
    "gap": {"color": ORANGE, "marker": "s"},
    "tail": {"color": BLUE, "marker": "D"},
}
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
    said = ", ".join(f"{LABELS[key]} {mean:.3f}" for key, mean in ranked)
    return f"Mean log likelihood over sets where the middle third of an input is held out: {said}."


def _means(means: Plain) -> Table:
    keys = list(next(iter(means.values())))
    columns = [[each[key] for key in keys] for each in means.values()]
    rows = [
        [LABELS[key], *("" if mean is None else f"{mean:.3f}" for mean in row)]
        for key, row in zip(keys, zip(*columns, strict=True), strict=True)
    ]
    values = [[-np.inf if mean is None else mean for mean in column] for column in columns]
    best = [(int(np.argmax(column)), i) for i, column in enumerate(values, 1)]
    ours = [i for i, key in enumerate(keys) if key == OURS]
    return Table("Log likelihood, nats per row, mean over sets", ["", *means], rows, ours=ours, best=best)


CELLS: Cells = {
    "log likelihood": cell("log_likelihood", error=True),
    "RMSE": in_units("rmse"),
    "CRPS": in_units("crps"),
    **COVERED,
    "seconds": COST["seconds"],
}


def _table(kind: str, name: str, scores: Plain, published: Plain) -> Table:
    caption = f"""{name}, {kind} splits: mean over {scores["splits"]}, standard error in brackets; nats per row and
    units of the target; share of rows inside their intervals in %; median seconds of one core to train and predict"""
    theirs = [[f"published: {label}", f"{value:.2f}", *[""] * 6] for label, value in published.get(name, {}).items()]
    return methods_table(caption, scores["methods"], CELLS, published=theirs)


def _log_likelihoods(kinds: Plain, published: Plain) -> Figure:
    names = list(next(iter(kinds.values())))
    keys = list(next(iter(kinds.values()))[names[0]]["methods"])[::-1]
    figure, panels = panels_of(names, 2, panel=(3.8, 0.46 * len(keys) + 1.1), margin=2.4, sharey=True)
    for name, axes in panels.items():
        name_rows(axes, [LABELS[key] for key in keys])
        _draw(axes, {kind: sets[name]["methods"] for kind, sets in kinds.items()}, keys)
        for label, value in published.get(name, {}).items():
            if axes.get_xlim()[0] <= value <= axes.get_xlim()[1]:
                axes.axvline(value, color=INK, linestyle=LINES[label], linewidth=1, zorder=0)
    looks: Plain = {f"{kind} splits": {**LOOKS[kind], "linestyle": "none"} for kind in kinds}
    looks |= {
        f"published, gap: {name}": {"color": INK, "linestyle": line, "linewidth": 1} for name, line in LINES.items()
    }
    legend_of(figure, looks, 3)
    return figure


def _draw(axes: Axes, methods: Plain, keys: list[str]) -> None:
    scores = {
        (kind, i): each[key]["log_likelihood"]
        for kind, each in methods.items()
        for i, key in enumerate(keys)
        if "failed" not in each[key]
    }
    edges = edges_of(list(scores.values()))
    steps = {kind: 0.22 * (1 - j) for j, kind in enumerate(methods)}
    for (kind, i), (mean, error) in scores.items():
        dot(axes, mean, i + steps[kind], error, edges, ".3g", markersize=4, **LOOKS[kind])
    axes.set_xlim(edges)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("test log likelihood, nats per row", fontsize=8)
