"""Figures and page of the experiment on gradients, from the numbers of its parts alone."""

import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import NullFormatter

from gumdrop.views import plots
from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.pages.page import Figure, Page, Table

__all__ = ["bias_variance", "norms", "page"]

FORMS = ("original", "simplified", "ours")
OTHERS = {"straight-through": plots.PALETTE[3], "REINFORCE": plots.PALETTE[5], "DisARM": plots.GREEN}
STAGES = {"start": "at the start, all rates one half", "midst": "in the midst of a search"}
SHADES = ("#084081", "#0868ac", "#2b8cbe", "#4eb3d3", "#7bccc4")


def _temperatures(found: Mapping[str, Any]) -> list[str]:
    return [name.removeprefix("ours t=") for name in found if name.startswith("ours t=")]


def _dress(ax: Axes, xlabel: str, ylabel: str, title: str) -> None:
    ax.set_xlabel(xlabel, fontsize=plots.SIZE)
    ax.set_ylabel(ylabel, fontsize=plots.SIZE)
    ax.set_title(title, fontsize=plots.SIZE + 0.5, color=plots.INK)
    ax.tick_params(labelsize=plots.SIZE - 0.5, length=0)
    ax.grid(color=plots.INK, alpha=0.1)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def bias_variance(part: Mapping[str, Any]) -> Drawing:
    """Standard deviation against bias of each estimator, both as shares of the exact gradient's norm.

    Args:
        part: The part `enumeration`.

    Returns:
        The figure.
    """
    drawing = Drawing(figsize=(8.2, 3.6), layout="constrained")
    for ax, (stage, title) in zip(drawing.subplots(1, 2, sharex=True, sharey=True), STAGES.items(), strict=True):
        found = part[stage]
        relaxed = [found[f"ours t={t}"] for t in _temperatures(found)]
        xs, ys = [row["bias"] for row in relaxed], [row["deviation"] for row in relaxed]
        ax.plot(xs, ys, "o-", color=plots.BLUE, markersize=4, linewidth=1.2, label="relaxed, any of its three forms")
        for x, y, t in zip(xs, ys, _temperatures(found), strict=True):
            ax.annotate(f"t={t}", (x, y), xytext=(5, 4), textcoords="offset points", fontsize=plots.SIZE - 1.5)
        for name, colour in OTHERS.items():
            ax.plot(found[name]["bias"], found[name]["deviation"], "D", color=colour, markersize=5, label=name)
        ax.set(yscale="log", xlim=(-0.015, None))
        ax.set_yticks([0.2, 0.5, 1, 2, 4], labels=["0.2", "0.5", "1", "2", "4"])
        ax.yaxis.set_minor_formatter(NullFormatter())
        _dress(ax, "bias / norm of the exact gradient", "standard deviation / norm" if stage == "start" else "", title)
    ax.legend(fontsize=plots.SIZE - 1, frameon=False, loc="best")
    return drawing


def norms(part: Mapping[str, Any]) -> Drawing:
    """Norm of the gradient over searches: mean and one standard deviation over runs.

    Args:
        part: Searches by name.

    Returns:
        The figure.
    """
    drawing = Drawing(figsize=(8.2, 5.6), layout="constrained")
    axes = drawing.subplots(2, 2, sharex=True, sharey=True).flat
    for ax, form in zip(axes, FORMS, strict=False):
        for t, colour in zip(_temperatures(part), SHADES, strict=True):
            _band(ax, part[f"{form} t={t}"], colour, f"t={t}")
        _dress(ax, "", "L2 norm" if form == "original" else "", form)
    for name, colour in OTHERS.items():
        _band(axes[3], part[name], colour, name)
    _dress(axes[3], "step", "", "without a relaxation")
    axes[2].set_xlabel("step", fontsize=plots.SIZE)
    axes[2].set_ylabel("L2 norm", fontsize=plots.SIZE)
    for ax, place in ((axes[0], "upper right"), (axes[3], "center right")):
        ax.legend(fontsize=plots.SIZE - 1, frameon=False, loc=place)
    axes[0].set_yscale("log")
    axes[0].set_yticks([0.1, 0.2, 0.5, 1, 2, 5], labels=["0.1", "0.2", "0.5", "1", "2", "5"])
    axes[0].yaxis.set_minor_formatter(NullFormatter())
    return drawing


def _band(ax: Axes, row: Mapping[str, Any], colour: str, label: str) -> None:
    mean, sd = np.asarray(row["mean"]), np.asarray(row["sd"])
    steps = np.arange(1, len(mean) + 1)
    ax.plot(steps, mean, color=colour, linewidth=1.3, label=label)
    ax.fill_between(steps, np.maximum(mean - sd, mean * 0.05), mean + sd, color=colour, alpha=0.18, linewidth=0)


# The page


def _error_table(part: Mapping[str, Any]) -> Table:
    rows = [
        [
            name,
            *(f"{part[stage][name][key]:.3f}" for stage in STAGES for key in ("bias", "deviation")),
            f"{part['midst'][name]['microseconds']:.0f}",
        ]
        for name in part["start"]
    ]
    head = ["estimator", "bias, start", "SD, start", "bias, midst", "SD, midst", "µs a gradient"]
    caption = (
        "Nine cells, five digits, two evaluations a gradient: bias and standard deviation over the norm of the exact "
        "gradient. The same noise for all."
    )
    return Table(caption, head, rows, ours=[i for i, name in enumerate(part["start"]) if name.startswith("ours")])


def _norm_table(part: Mapping[str, Any]) -> Table:
    rows = [
        [
            name,
            f"{statistics.fmean(row['mean']):.3f}",
            f"{statistics.fmean(row['sd']):.4f}",
            f"{row['kept_log_odds']:.2f} / {row['kept_area']:.3f}",
            f"{row['destroyed_log_odds']:.2f} / {row['dropped_area']:.3f}",
        ]
        for name, row in part.items()
    ]
    head = ["estimator", "mean norm", "SD over runs", "log-odds / area kept", "log-odds / area dropped"]
    caption = (
        "Searches at full size: norm of the gradient of the score, mean over steps and runs, and its standard "
        "deviation over runs, mean over steps; then what sharp masks at the end of the search keep and destroy."
    )
    return Table(caption, head, rows, ours=[i for i, name in enumerate(part) if name.startswith("ours")])


def _identity_table(part: Mapping[str, Any]) -> Table:
    names = ("original", "simplified")
    rows = []
    for i, row in enumerate(part["t=0.1"]):
        cells = [f"{each[name]:.0e}" for each in (row, part["t=1"][i]) for name in names]
        rows.append([f"{row['logit']:g}", *cells])
    head = ["logit of p", "original, t=0.1", "simplified, t=0.1", "original, t=1", "simplified, t=1"]
    caption = (
        "Derivative of a mask in float32: largest difference from ours, over its largest value. The original has a "
        "margin of 1e-7 in its logarithms; in float32 noise itself ends at 6e-8, where ours is cut."
    )
    return Table(caption, head, rows)


def _uci_table(part: Mapping[str, Any]) -> Table:
    rows = []
    for name, ways in part.items():
        for way, row in ways.items():
            cells = [
                f"{statistics.fmean(row[key]):.3f} ({mean_and_error(row[key])[1]:.3f})"
                for key in ("rmse", "log_likelihood")
            ]
            rows.append([f"{name}, {way}", *cells, ", ".join(f"{p:.3f}" for p in row["rates"])])
    head = ["set and gradient", "RMSE (SE)", "log likelihood (SE)", "learned rates"]
    caption = "UCI sets, 2 x 50 units, the same start, batches and noise, two masks a step: does the gradient matter?"
    return Table(caption, head, rows)


def _gain(part: Mapping[str, Any]) -> list[str]:
    """What DisARM adds to the log likelihood of the relaxation, split by split, in words."""
    texts = []
    for name, ways in part.items():
        pairs = zip(ways["DisARM"]["log_likelihood"], ways["relaxed t=0.1"]["log_likelihood"], strict=True)
        gains = [a - b for a, b in pairs]
        texts.append(f"{statistics.fmean(gains):+.3f} (SE {mean_and_error(gains)[1]:.3f}) on {name}")
    return texts


def page(results: Mapping[str, Any]) -> Page:
    """Write the page.

    Args:
        results: The numbers of all parts.

    Returns:
        The page.
    """
    norm, error = results["norms"], results["enumeration"]["midst"]
    spreads = {form: statistics.fmean(norm[f"{form} t=0.1"]["sd"]) for form in FORMS}
    return Page(
        "Gradients of dropout rates",
        f"At one temperature the simplified gradient is the original one: over {len(norm['ours t=0.1']['mean'])} steps "
        f"at t=0.1 its norm has a standard deviation of {spreads['simplified']:.4f} over runs, against "
        f"{spreads['original']:.4f}. What a higher temperature buys in variance it pays in bias: at t=1 the bias is "
        f"{100 * error['ours t=1']['bias']:.0f} % of the gradient, at t=0.1 {100 * error['ours t=0.1']['bias']:.1f} %.",
        [
            Figure(
                "gradients-bias-variance",
                "Bias and standard deviation against the exact gradient. The corner at the "
                "lower left is best. Of the bias, what the number of draws explains is taken away.",
            ),
            _error_table(results["enumeration"]),
            Figure(
                "gradients-norms",
                "Norm of the gradient over searches for masks; bands are one standard deviation "
                "over runs. The first three panels agree.",
            ),
            _norm_table(norm),
            _identity_table(results["identity"]),
            _uci_table(results["uci"]),
        ],
        notes=[
            "What the simplification does not change: the gradient. At a given temperature original, simplified and "
            "ours are one number, up to rounding and to the margin of 1e-7 that the original puts into its logarithms. "
            "What it does change: fewer operations in the backward pass. What a published comparison of norms shows is "
            "the temperature, where the released code of the simplified form runs at t=1 against t=0.1.",
            "As written, the simplified form overflows in float32 at small temperatures; here its exponent is bounded.",
            f"What an unbiased gradient adds to the log likelihood of learned dropout over the relaxed one at t=0.1, "
            f"split by split: {'; '.join(_gain(results['uci']))}.",
        ],
    )
