"""The page of `mnist`."""

import math
import statistics
from collections.abc import Sequence

from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import (
    Page,
    Picture,
    Table,
    dress,
    legend_below,
    log_ticks,
    mean_and_error,
    subplots,
    ticks_at,
    with_error,
)

RATES = """Learned drop probability of each layer against the number of training images, and over training on the
most of them. Good are rates that fall as data grow."""
CURVES = "Test scores, the mean over seeds. With draws: the average of drawn functions. Lower is better in each."
WIDTHS = "The same with other widths, one seed."
NOTES = (
    """Published: 98.6 % for learned rates (Gal, Hron & Kendall 2017, from memory), 98 % in a replication report,
    whose rates fall as the share of the training images grows.""",
    "Fixed dropout has the same network, prior, steps and optimiser. Its two rates are chosen for each size on a sixth "
    "of its training images, and the networks that are scored train on all of them. Nothing is chosen on test images.",
    "Smaller sets are the beginnings of one shuffled list; each seed shuffles anew.",
)

LAYERS = ("inputs", "hidden 1", "hidden 2", "hidden 3")
LAYER_COLOURS = (plots.PALETTE[3], plots.BLUE, plots.GREEN, plots.ORANGE)
SCORES = {"accuracy": "test error", "nll": "test NLL, nats per image", "ece": "calibration error (ECE)"}
KINDS = {
    ("learned", "drawn"): ("learned, with draws", plots.BLUE, "o-"),
    ("learned", "plain"): ("learned, dropout off", plots.BLUE, "o:"),
    ("fixed", "drawn"): ("fixed, with draws", plots.ORANGE, "s-"),
    ("fixed", "plain"): ("fixed, dropout off", plots.ORANGE, "s:"),
}


def page(results: Plain) -> Page:
    """Say how good learned rates are, and how good searched ones."""
    last = results["sizes"][-1]
    learned, fixed = ({score: mean_of(last[kind], "drawn", score) for score in SCORES} for kind in ("learned", "fixed"))
    lead = f"""From {last["num_data"]:,} images a network of {results["settings"]["layers"]} that learns its rates is
    right on {learned["accuracy"]:.2%} of {results["settings"]["test_images"]:,} test images, with an NLL of
    {learned["nll"]:.4f} and a calibration error of {learned["ece"]:.4f}; with the best of the fixed settings
    ({last["chosen"]}) it is {fixed["accuracy"]:.2%}, {fixed["nll"]:.4f} and {fixed["ece"]:.4f}."""
    body: list[Picture | Table] = [
        Picture("mnist-rates", RATES, _rates(results)),
        Picture("mnist-scores", CURVES, _scores(results)),
        _table(results),
        _search_table(results),
        Picture("mnist-widths", WIDTHS, _widths(results)),
    ]
    return Page("Learned dropout on MNIST", lead, body, NOTES)


def _table(results: Plain) -> Table:
    records = {
        (each["num_data"], name): [study[kind] for study in each[method]]
        for each in results["sizes"]
        for (method, kind), (name, *_) in KINDS.items()
    }
    rows = [[f"{n:,}", name, *_cells(scores)] for (n, name), scores in records.items()]
    ours = [i for i, (_, name) in enumerate(records) if name == KINDS["learned", "drawn"][0]]
    columns = ["images", "", "accuracy", "NLL", "ECE", "Brier score"]
    seeds = len(results["sizes"][0]["learned"])
    caption = f"Test scores, the mean over {seeds} seed{'s' * (seeds > 1)} (standard error); NLL in nats per image."
    return Table(caption, columns, rows, ours=ours)


def _cells(scores: Sequence[Plain]) -> list[str]:
    means = {score: mean_and_error(each[score] for each in scores) for score in scores[0]}
    accuracy, nll = ("{:.2%} ({:.2%})".format(*means["accuracy"]), with_error(means["nll"], ".4f"))
    return [accuracy, nll, *(f"{means[score][0]:.4f}" for score in ("ece", "brier"))]


def _search_table(results: Plain) -> Table:
    names = list(results["sizes"][0]["search"])
    rows = [[f"{each['num_data']:,}", *(f"{each['search'][n]['nll']:.4f}" for n in names)] for each in results["sizes"]]
    best = {(i, names.index(each["chosen"]) + 1) for i, each in enumerate(results["sizes"])}
    caption = "The search: NLL of the fixed settings (inputs / hidden units) on held-out training images."
    return Table(caption, ["images", *names], rows, best=best)


def mean_of(studies: Sequence[Plain], kind: str, score: str) -> float:
    """Average a score over seeds."""
    return statistics.mean(study[kind][score] for study in studies)


def _courses(network: Plain) -> Figure:
    """Draw rates over training for the one size that there is, each seed."""
    drawing, ax = subplots(size=(9, 4.4))
    for layer, (label, colour) in enumerate(zip(LAYERS, LAYER_COLOURS, strict=True)):
        for i, study in enumerate(network["learned"]):
            path = [epoch[layer] for epoch in study["rates_over_training"]]
            look = {"label": label, "linewidth": 1.6} if i == 0 else {"linewidth": 0.8, "alpha": 0.55}
            ax.plot(range(1, len(path) + 1), path, color=colour, **look)
    title = f"over training, {network['num_data']:,} images; a line for each seed"
    dress(ax, title=title, x="epoch", y="drop probability p", ylim=(0, 0.52))
    legend_below(drawing, ax, 4)
    return drawing


def _rates(results: Plain) -> Figure:
    if len(results["sizes"]) == 1:
        return _courses(results["sizes"][0])
    drawing = Figure(figsize=(11, 5.2), layout="constrained")
    beside, paths = drawing.subfigures(1, 2, width_ratios=[1, 1.5], squeeze=False)[0]
    sizes = [network["num_data"] for network in results["sizes"]]
    shape = (math.ceil(len(sizes) / 2), min(len(sizes), 2))
    left, over = beside.subplots(), paths.subplots(*shape, sharey=True, squeeze=False)
    for unused in over.flat[len(sizes) :]:
        unused.set_axis_off()
    for layer, (label, colour) in enumerate(zip(LAYERS, LAYER_COLOURS, strict=True)):
        mean = [statistics.mean(study["rates"][layer] for study in network["learned"]) for network in results["sizes"]]
        left.plot(sizes, mean, "-", color=colour, label=label)
        for network in results["sizes"]:
            rates = [study["rates"][layer] for study in network["learned"]]
            left.plot([network["num_data"]] * len(rates), rates, "o", color=colour, markersize=4, alpha=0.7)
        for ax, network in zip(over.flat, results["sizes"], strict=False):
            path = [epoch[layer] for epoch in network["learned"][0]["rates_over_training"]]
            ax.plot(range(1, len(path) + 1), path, "-", color=colour)
            dress(ax, title=f"over training, {network['num_data']:,} images", x="epoch").set_ylim(0, 0.52)
    ticks_at(left, sizes)
    title = "after training; a dot is a seed"
    dress(left, title=title, x="training images", y="drop probability p", ylim=(0, 0.52), legend=9)
    return drawing


def _scores(results: Plain) -> Figure:
    drawing, panels = subplots(1, 3, size=(10, 3.9))
    sizes = [each["num_data"] for each in results["sizes"]]
    for ax, (score, label) in zip(panels, SCORES.items(), strict=True):
        for (method, kind), (name, colour, style) in KINDS.items():
            values = [mean_of(each[method], kind, score) for each in results["sizes"]]
            if score == "accuracy":
                values = [1 - value for value in values]
            ax.plot(sizes, values, style, color=colour, label=name, markersize=4.5, markerfacecolor="white")
        ticks_at(ax, sizes)
        if score == "ece":
            ax.set_ylim(0, None)
        else:
            log_ticks(ax, 1, 1.5, 2, 3, 5, 7, form=plots.PERCENT if score == "accuracy" else "{x:g}")
        dress(ax, title=label, x="training images")
    legend_below(drawing, panels[0], 4)
    return drawing


def _widths(results: Plain) -> Figure:
    drawing, (left, right) = subplots(1, 2, size=(9, 3.9))
    widths = [each["width"] for each in results["widths"]]
    for layer, (label, colour) in enumerate(zip(LAYERS, LAYER_COLOURS, strict=True)):
        left.plot(widths, [each["rates"][layer] for each in results["widths"]], "o-", color=colour, label=label)
    for kind, style in (("drawn", "o-"), ("plain", "o:")):
        name = KINDS["learned", kind][0]
        right.plot(widths, [each[kind]["nll"] for each in results["widths"]], style, color=plots.BLUE, label=name)
    for ax in (left, right):
        ticks_at(ax, widths)
        dress(ax, x="units of each hidden layer", legend=9)
    title = f"learned rates, {results['widths'][0]['num_data']:,} images"
    dress(left, title=title, y="drop probability p", ylim=(0, None))
    dress(right, title=SCORES["nll"])
    return drawing
