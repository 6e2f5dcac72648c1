"""Figures and page of `gumdrop reproduce co2`, from its results alone."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from gumdrop.views import plots
from gumdrop_experiments.pages.axes import dress
from gumdrop_experiments.pages.page import Figure, Page, Table

__all__ = ["page", "panels"]

Results = Mapping[str, Any]

PROCESSES = {"squared-exponential": "GP, squared exponential", "seasonal": "GP, seasonal kernel"}
NETWORKS = {
    "relu-fixed": "MC dropout, ReLU, p = .2",
    "tanh-fixed": "MC dropout, tanh, p = .2",
    "relu-learned": "MC dropout, ReLU, learned p",
    "tanh-learned": "MC dropout, tanh, learned p",
}


def panels(results: Results, kind: str) -> Drawing:
    """Weight averaging, a Gaussian process, and drawn functions of both networks, with bands of two SDs.

    Args:
        results: What `results.json` holds.
        kind: `fixed` or `learned` rates; the second comes with the seasonal process.

    Returns:
        The figure.
    """
    drawing = Drawing(figsize=(10, 6.2), layout="constrained")
    axes = drawing.subplots(2, 2, sharex=True, sharey=True)
    process = "squared-exponential" if kind == "fixed" else "seasonal"
    names = [f"{activation}-{kind}" for activation in ("relu", "tanh")]
    relu, tanh = (results["networks"][name] for name in names)
    for ax in axes.flat:
        _data(ax, results)
    _line(axes[0, 0], relu["curve"]["x"], relu["curve"]["averaged"])
    dress(axes[0, 0], title=f"weight averaging, ReLU, {'p = .2' if kind == 'fixed' else 'learned p'}")
    curve = results["processes"][process]["curve"]
    _line(axes[0, 1], curve["x"], curve["mean"])
    _band(axes[0, 1], curve["x"], curve["mean"], curve["std"], plots.BLUE, "2 SD, noise included")
    dress(axes[0, 1], title=PROCESSES[process])
    for ax, name, network in zip(axes[1], names, (relu, tanh), strict=True):
        curve = network["curve"]
        total = np.hypot(curve["epistemic"], network["noise"])
        _line(ax, curve["x"], curve["mean"])
        _band(ax, curve["x"], curve["mean"], total, plots.BLUE, "2 SD, noise included")
        _band(ax, curve["x"], curve["mean"], curve["epistemic"], plots.ORANGE, "2 SD of drawn functions")
        dress(ax, title=NETWORKS[name], x="month, standardised")
    for ax in axes[:, 0]:
        ax.set_ylabel("CO₂ less trend, standardised")
    axes[0, 0].set(xlim=(results["data"]["x"][0], results["data"]["later_x"][-1]), ylim=(-4.5, 9))
    drawing.legend(*axes[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return drawing


def _data(ax: Axes, results: Results) -> None:
    data = results["data"]
    ax.plot(data["x"], data["y"], "-", color=plots.INK, linewidth=0.7, label="record, trained on")
    ax.plot(data["later_x"], data["later_y"], "-", color=plots.GREEN, linewidth=0.9, label="record, later")
    ax.axvline(data["x"][-1], color=plots.INK, linewidth=0.8, linestyle=":")


def _line(ax: Axes, x: Any, y: Any) -> None:
    ax.plot(x, y, color=plots.ORANGE, linewidth=1.7, label="prediction", zorder=3)


def _band(ax: Axes, x: Any, mean: Any, std: Any, colour: str, label: str) -> None:
    middle, width = np.asarray(mean), 2 * np.asarray(std)
    ax.fill_between(x, middle - width, middle + width, color=colour, alpha=0.2, linewidth=0, label=label)


# Page


def page(results: Results) -> Page:
    """Say what came out.

    Args:
        results: What `results.json` holds.

    Returns:
        The page.
    """
    networks = results["networks"]
    relu, tanh = networks["relu-learned"], networks["tanh-learned"]
    fixed = {name: networks[f"{name}-fixed"]["band_ratio"] for name in ("relu", "tanh")}
    end = results["data"]["later_x"][-1]
    return Page(
        title="Extrapolating carbon dioxide",
        lead=(
            f"With learned rates the band of the ReLU network at x = {end:.1f} is {relu['band_ratio']:.1f} times that "
            f"at the last month of training, that of the tanh network {tanh['band_ratio']:.1f} times (with p = .2: "
            f"{fixed['relu']:.1f} and {fixed['tanh']:.1f}). {relu['later']['coverage_95']:.0%} of what was measured "
            "later lies inside the 95 % interval of the first."
        ),
        body=[Figure("co2", FIXED), Figure("co2-learned", LEARNED), _table(results), _rates(results)],
        notes=_notes(results),
    )


WHAT = (
    "The record less a straight line (black: trained on; green: what came to pass), each method's mean, and bands of "
    "two standard deviations: of the functions that were drawn (orange) and with the noise on top (blue). "
)
FIXED = (
    f"{WHAT}Rates of .2, as in the tutorial, and a squared-exponential kernel. Good is a band that grows where there "
    "are no data; that of tanh units, which saturate, cannot."
)
LEARNED = f"{WHAT}Learned rates, and a kernel that knows of years and of a slow trend."


def _scores_of(results: Results) -> dict[str, Results]:
    rows = {label: results["processes"][name]["later"] for name, label in PROCESSES.items()}
    return rows | {label: results["networks"][name]["later"] for name, label in NETWORKS.items()}


def _table(results: Results) -> Table:
    names = ("coverage_50", "coverage_90", "coverage_95")
    rows = [
        [label, f"{later['log_likelihood']:.3f}", f"{later['rmse']:.3f}", *(f"{later[name]:.0%}" for name in names)]
        for label, later in _scores_of(results).items()
    ]
    caption = (
        "The 140 months after the last month of training, against what was measured: log likelihood in nats a month, "
        "error of the mean in units of the training targets "
        f"({results['record']['scale_ppm']:.2f} ppm), and the share inside central intervals."
    )
    columns = ["method", "log likelihood", "RMSE", *(f"inside {name.split('_')[1]} %" for name in names)]
    ours = [i for i, label in enumerate(_scores_of(results)) if "learned" in label]
    return Table(caption, columns, rows, ours=ours)


def _rates(results: Results) -> Table:
    rows = []
    for name, label in NETWORKS.items():
        each = results["networks"][name]
        bands = [f"{each['band_at_last']:.3f}", f"{each['band_at_end']:.3f}", f"{each['band_ratio']:.2f}"]
        rates = ", ".join(f"{p:.2f}" for p in each["rates"])
        rows.append([label, *bands, f"{each['noise']:.3f}", rates, f"{each['seconds_of_draws']:.0f}"])
    caption = (
        f"SD of {results['settings']['draws']:,} drawn functions, and the processor time that they took on one thread."
    )
    columns = ["network", "at the last month", "at the end", "ratio", "noise SD", "p, from first to last", "seconds"]
    return Table(caption, columns, rows)


def _notes(results: Results) -> list[str]:
    settings = results["settings"]
    return [
        f"Networks of {settings['depth']} x {settings['width']} units, dropout in front of every layer but the first, "
        f"{settings['epochs']} epochs of AdamW, one learned noise variance; the tutorial trains far longer with plain "
        "gradient descent, and its bands have no noise on top.",
        "The networks are asked about every sixteenth month of training and every fifth month after it.",
        *(f"{PROCESSES[name]}: {each['kernel']}" for name, each in results["processes"].items()),
        f"The record: sha256 {results['record']['sha256']}. NOAA revises it now and then.",
    ]
