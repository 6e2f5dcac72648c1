"""The figures of `mnist`."""

import statistics
from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from gumdrop.views import plots
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.axes import dress

LAYERS = ("inputs", "hidden 1", "hidden 2", "hidden 3")
LAYER_COLOURS = (plots.PALETTE[3], plots.BLUE, plots.GREEN, plots.ORANGE)
SCORES = {"accuracy": "test error", "nll": "test NLL, nats per image", "ece": "calibration error (ECE)"}
KINDS = {
    ("learned", "drawn"): ("learned, with draws", plots.BLUE, "o-"),
    ("learned", "plain"): ("learned, dropout off", plots.BLUE, "o:"),
    ("fixed", "drawn"): ("fixed, with draws", plots.ORANGE, "s-"),
    ("fixed", "plain"): ("fixed, dropout off", plots.ORANGE, "s:"),
}


def figures(results: Plain) -> Iterator[tuple[str, Figure]]:
    """Draw the learned rates, the scores of both kinds, and both against the width."""
    yield "mnist-rates", _rates(results)
    yield "mnist-scores", _scores(results)
    yield "mnist-widths", _widths(results)


def mean_of(studies: Sequence[Plain], kind: str, score: str) -> float:
    """Average a score over seeds."""
    return statistics.mean(study[kind][score] for study in studies)


def _rates(results: Plain) -> Figure:
    """Learned rates against the number of images, and over the training on all of them."""
    drawing = Figure(figsize=(9, 3.9), layout="constrained")
    left, right = drawing.subplots(1, 2)
    sizes = [each["num_data"] for each in results["sizes"]]
    for layer, (label, colour) in enumerate(zip(LAYERS, LAYER_COLOURS, strict=True)):
        mean = [statistics.mean(study["rates"][layer] for study in each["learned"]) for each in results["sizes"]]
        left.plot(sizes, mean, "-", color=colour, label=label)
        for each in results["sizes"]:
            rates = [study["rates"][layer] for study in each["learned"]]
            left.plot([each["num_data"]] * len(rates), rates, "o", color=colour, markersize=4, alpha=0.7)
        path = [epoch[layer] for epoch in results["sizes"][-1]["learned"][0]["rates_over_training"]]
        right.plot(range(1, len(path) + 1), path, "-", color=colour, label=label)
    left.set(xscale="log", ylim=(0, None))
    right.set(ylim=(0, None))
    left.set_xticks(sizes, [f"{size:,}" for size in sizes])
    left.minorticks_off()
    dress(left, title="after training; a dot is a seed", x="training images", y="drop probability p")
    dress(right, title=f"over training on {sizes[-1]:,} images", x="epoch", y="drop probability p")
    left.legend(frameon=False, fontsize=9)
    return drawing


def _scores(results: Plain) -> Figure:
    """Error, likelihood and calibration against the number of images."""
    drawing = Figure(figsize=(10, 3.9), layout="constrained")
    sizes = [each["num_data"] for each in results["sizes"]]
    panels = drawing.subplots(1, 3)
    for ax, (score, label) in zip(panels, SCORES.items(), strict=True):
        for (method, kind), (name, colour, style) in KINDS.items():
            values = [mean_of(each[method], kind, score) for each in results["sizes"]]
            if score == "accuracy":
                values = [1 - value for value in values]
            ax.plot(sizes, values, style, color=colour, label=name, markersize=4.5, markerfacecolor="white")
        ax.set(xscale="log", yscale="log" if score != "ece" else "linear")
        if score == "ece":
            ax.set_ylim(0, None)
        else:
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
            ax.yaxis.set_major_formatter(plots.PERCENT if score == "accuracy" else "{x:g}")
        ax.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8.5)
        ax.minorticks_off()
        dress(ax, title=label, x="training images")
    drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return drawing


def _widths(results: Plain) -> Figure:
    """Rates and scores against the width of the network."""
    drawing = Figure(figsize=(9, 3.9), layout="constrained")
    left, right = drawing.subplots(1, 2)
    widths = [each["width"] for each in results["widths"]]
    for layer, (label, colour) in enumerate(zip(LAYERS, LAYER_COLOURS, strict=True)):
        left.plot(widths, [each["rates"][layer] for each in results["widths"]], "o-", color=colour, label=label)
    for kind, style in (("drawn", "o-"), ("plain", "o:")):
        name = KINDS["learned", kind][0]
        right.plot(widths, [each[kind]["nll"] for each in results["widths"]], style, color=plots.BLUE, label=name)
    for ax in (left, right):
        ax.set(xscale="log")
        ax.set_xticks(widths, [f"{width:,}" for width in widths])
        ax.minorticks_off()
        ax.legend(frameon=False, fontsize=9)
    left.set_ylim(0, None)
    images = f"{results['widths'][0]['num_data']:,} images"
    dress(left, title=f"learned rates, {images}", x="units of each hidden layer", y="drop probability p")
    dress(right, title=SCORES["nll"], x="units of each hidden layer")
    return drawing
