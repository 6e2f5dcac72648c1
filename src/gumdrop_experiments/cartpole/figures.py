"""The figures of `cartpole`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from gumdrop.views import plots
from gumdrop_experiments.cartpole import PUBLISHED
from gumdrop_experiments.cartpole.control.swing_up import SECONDS
from gumdrop_experiments.cartpole.film import film
from gumdrop_experiments.cartpole.results import fan_trials
from gumdrop_experiments.pages.axes import dress

NAMES = {"learned": "learned rates", "fixed": "fixed, p = 0.1", "none": "no dropout"}
COLOURS = {"learned": plots.ORANGE, "fixed": plots.BLUE, "none": plots.INK}
LAYERS = ("input", "hidden 1", "hidden 2")
LEAST_SD = 1e-3
"""What is less is drawn here; a rate of 0 leaves nothing."""
MOST_DISTANCE = 3.0

Variants = Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]
"""For each kind of dropout, for each seed, what there is to say of each trial."""


def figures(results: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Draw rewards, learned rates, what the models do not know, and moments of a trial."""
    variants, is_cart = results["arms"], results["environment"] == "swing-up"
    yield "cartpole-reward", _rewards(variants, results["references"], published=PUBLISHED if is_cart else None)
    yield "cartpole-rates", _rates(variants["learned"])
    yield "cartpole-uncertainty", _uncertainty(variants)
    yield "cartpole-fan", _fan({variant: runs[0] for variant, runs in variants.items()})
    if is_cart:
        yield "cartpole-film", film(variants["learned"][0][-1])


def _rewards(variants: Variants, references: Mapping[str, Any], *, published: float | None) -> Figure:
    """Cumulative reward of each trial: that trial itself, and the mean over many starts."""
    drawing = Figure(figsize=(9, 4.2), layout="constrained")
    panels = drawing.subplots(1, 2, sharey=True)
    reads: tuple[Callable[[Any], float], ...] = (lambda row: row["reward"], lambda row: row["evaluation"]["reward"])
    for ax, read, title in zip(panels, reads, ("the trial", "the same policy, mean of 100 starts"), strict=True):
        for variant, runs in variants.items():
            _band(ax, np.array([[read(row) for row in run] for run in runs]), COLOURS[variant], NAMES[variant])
        lines = [("true dynamics known", references["true dynamics"]["reward"], plots.GREEN)]
        lines += [("published, DeepPILCO", published, plots.PALETTE[3])] if published else []
        lines.append(("random actions", references["random"]["reward"], "grey"))
        for label, level, colour in lines:
            ax.axhline(level, color=colour, linewidth=1.2, linestyle="--", label=label)
        dress(ax, title=title, x="trial")
    panels[0].set_ylabel("cumulative reward")
    _legend(drawing, panels[0])
    return drawing


def _rates(runs: Sequence[Sequence[Mapping[str, Any]]]) -> Figure:
    """The learned rate of each layer after each trial."""
    drawing = Figure(figsize=(6.4, 3.8), layout="constrained")
    ax = drawing.subplots()
    for layer, (label, colour) in enumerate(zip(LAYERS, (plots.PALETTE[3], plots.BLUE, plots.GREEN), strict=True)):
        _band(ax, np.array([[row["rates"][layer] for row in run[1:]] for run in runs]), colour, label, first=2)
    ax.set_ylim(-0.01, None)
    dress(ax, title="learned rates in front of each layer", x="trial", y="drop probability p")
    ax.legend(frameon=False, fontsize=plots.SIZE)
    return drawing


def _uncertainty(variants: Variants) -> Figure:
    """What the model says that it does not know of a swing-up, its error, and its log likelihood."""
    drawing = Figure(figsize=(10, 3.8), layout="constrained")
    titles = {"epistemic": "epistemic SD", "error": "RMS error", "log_likelihood": "log likelihood, nats"}
    grid = drawing.add_gridspec(1, 3)
    left = drawing.add_subplot(grid[0])
    panels = (left, drawing.add_subplot(grid[1], sharey=left), drawing.add_subplot(grid[2]))
    for ax, (key, title) in zip(panels, titles.items(), strict=True):
        for variant, runs in variants.items():
            if (key, variant) != ("epistemic", "none"):
                values = np.array([[row["held_out"][key] for row in run[1:]] for run in runs])
                values = values if key == "log_likelihood" else np.maximum(values, LEAST_SD)
                _band(ax, values, COLOURS[variant], NAMES[variant], first=2)
        if key == "log_likelihood":
            ax.set_yscale("symlog", linthresh=10)
        else:
            ax.set_yscale("log")
        dress(ax, title=title, x="trial")
    panels[0].set_ylabel("SDs of the change of state")
    _legend(drawing, panels[1])
    return drawing


def _fan(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """What particles expected of a trial, and what happened: distance of the tip from its goal."""
    chosen = fan_trials(len(runs["learned"]))
    drawing = Figure(figsize=(2.1 * len(chosen) + 0.6, 1.6 * len(runs) + 0.6), layout="constrained")
    panels = drawing.subplots(len(runs), len(chosen), sharex=True, sharey=True, squeeze=False)
    for row, (variant, run) in zip(panels, runs.items(), strict=True):
        for ax, index in zip(row, chosen, strict=True):
            expected, real = np.array(run[index]["fan"]), run[index]["distance"]
            time = SECONDS * np.arange(len(expected))
            ax.plot(time, expected, color=COLOURS[variant], linewidth=0.6, alpha=0.4)
            ax.plot(SECONDS * np.arange(1, len(real) + 1)[: len(time)], real[: len(time)], color="black", linewidth=1.6)
            title, label = f"trial {index + 1}", "time, s"
            dress(ax, title=title if variant == "learned" else "", x=label if variant == list(runs)[-1] else "")
            ax.set_ylim(0, MOST_DISTANCE)
        row[0].set_ylabel(f"{NAMES[variant]}\ndistance, m", fontsize=plots.SIZE)
    return drawing


def _band(ax: Axes, values: NDArray[np.float64], colour: str, label: str, *, first: int = 1) -> None:
    """Median over seeds, and the range of all."""
    steps = np.arange(first, first + values.shape[1])
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.plot(steps, np.median(values, axis=0), "o-", color=colour, markersize=3, linewidth=1.5, label=label)
    ax.fill_between(steps, values.min(0), values.max(0), color=colour, alpha=0.13, linewidth=0)


def _legend(drawing: Figure, ax: Axes) -> None:
    handles = ax.get_legend_handles_labels()
    drawing.legend(*handles, loc="outside lower center", ncols=3, frameon=False, fontsize=plots.SIZE)
