"""The figures of `line`."""

from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.line import PUBLISHED
from gumdrop_experiments.line.study import NOISE, OFFSET, SIZES, SLOPE, even_network
from gumdrop_experiments.pages.axes import dress

LAYERS = ("input", "hidden 1", "hidden 2", "hidden 3")
COLOURS = (plots.PALETTE[3], plots.BLUE, plots.GREEN, plots.ORANGE)


def figures(results: Plain) -> Iterator[tuple[str, Figure]]:
    """Draw what each network says, and both beside the published numbers."""
    wide, narrow = results["networks"]
    yield "line-fits", _fits(wide)
    yield "line-fits-narrow", _fits(narrow)
    yield "line-uncertainty", _uncertainty([wide, narrow])
    yield "line-rates", _rates([wide, narrow])


def _fits(series: Plain) -> Figure:
    """Data, mean and both bands, a panel for each number of data."""
    drawing = Figure(figsize=(9, 5.6), layout="constrained")
    panels = drawing.subplots(2, 3, sharex=True, sharey=True)
    for ax, result in zip(panels.flat, series["runs"], strict=True):
        curve = {name: np.asarray(values) for name, values in result["curve"].items()}
        x, mean = curve["x"], curve["mean"]
        for name, colour, opacity in (("aleatoric", plots.BLUE, 0.16), ("epistemic", plots.ORANGE, 0.4)):
            band = 2 * curve[name]
            ax.fill_between(x, mean - band, mean + band, color=colour, alpha=opacity, linewidth=0, label=name)
        ax.plot(x, SLOPE * x + OFFSET, color=plots.INK, linewidth=1, linestyle=":", label="the line")
        ax.plot(x, mean, color=plots.ORANGE, linewidth=1.6, label="mean")
        ax.plot(result["data"]["x"], result["data"]["y"], ".", color=plots.INK, markersize=3, alpha=0.5, label="data")
        ax.set(xlim=(-4, 4), ylim=(-4, 20))
        dress(ax, title=f"N = {result['num_data']:,}")
    drawing.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return drawing


def _uncertainty(networks: list[Plain]) -> Figure:
    """Both standard deviations against the number of data, beside the published ends and the truth."""
    drawing = Figure(figsize=(9, 4.4), layout="constrained")
    sizes = np.geomspace(SIZES[0], SIZES[-1], 40).round().astype(int)
    panels = drawing.subplots(1, 2)
    for ax, name in zip(panels, ("aleatoric", "epistemic"), strict=True):
        ax.axhline(NOISE if name == "aleatoric" else 0, color=plots.INK, linewidth=1, label="truth (unlimited data)")
        ax.plot(*zip(*PUBLISHED[name].items(), strict=True), "D--", color="grey", label="published (ends)")
        for series, colour in zip(networks, (plots.BLUE, plots.ORANGE), strict=True):
            units = f"{series['width']} units"
            optimum = [even_network(int(n), series["width"])[name] for n in sizes]
            ax.plot(SIZES, [run[name] for run in series["runs"]], "o-", color=colour, label=f"ours, {units}")
            ax.plot(SIZES, [run[name] for run in series["half_the_steps"]], "o--", color=colour, alpha=0.4)
            ax.plot(sizes, optimum, ":", color=colour, label=f"optimum, even weights, {units}")
            held_out = {each["num_data"]: _chosen(each)[name] for each in series["held_out"]}
            label = f"strength by held-out points, {units}"
            ax.plot(*zip(*held_out.items(), strict=True), "s", color=colour, markerfacecolor="white", label=label)
        ax.set(xscale="log", xlabel="number of data, N", ylim=(-0.03 if name == "epistemic" else 0.8, None))
        dress(ax, title=f"{name} standard deviation")
    panels[0].plot([], [], "o--", color="grey", alpha=0.4, label="half the steps")
    entries = panels[0].get_legend_handles_labels()
    drawing.legend(*entries, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return drawing


def _chosen(result: Plain) -> Plain:
    """The run with the strength that the held-out points prefer."""
    return next(run for run in result["strengths"] if run["strength"] == result["chosen"])


def _rates(networks: list[Plain]) -> Figure:
    """The learned rate of each layer against the number of data, beside the published ends."""
    drawing = Figure(figsize=(9, 4.4), layout="constrained")
    panels = drawing.subplots(1, 2, sharey=True)
    for ax, series in zip(panels, networks, strict=True):
        for layer, (label, colour) in enumerate(zip(LAYERS, COLOURS, strict=True)):
            ax.plot(SIZES, [run["rates"][layer] for run in series["runs"]], "o-", color=colour, label=f"ours, {label}")
            half = [run["rates"][layer] for run in series["half_the_steps"]]
            ax.plot(SIZES, half, "o--", color=colour, alpha=0.4, markersize=4)
        for name, style in (("hidden", "D--"), ("input", "s")):
            sizes, rates = zip(*PUBLISHED[name].items(), strict=True)
            ax.plot(sizes, rates, style, color="grey", label=f"published, {name} (1024 units)")
        ax.set(xscale="log", xlabel="number of data, N", ylim=(-0.02, 0.54))
        dress(ax, title=f"{series['width']} units")
    panels[0].set_ylabel("drop probability p")
    panels[0].plot([], [], "o--", color="grey", alpha=0.4, label="half the steps")
    drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return drawing
