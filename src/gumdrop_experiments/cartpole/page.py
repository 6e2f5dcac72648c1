"""The page of `cartpole`."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from gumdrop.views import plots
from gumdrop_experiments.cartpole import PUBLISHED
from gumdrop_experiments.cartpole.control.swing_up import SECONDS, film
from gumdrop_experiments.cartpole.study import CRITERION, fan_trials
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import Page, Picture, Table, band, dress, legend_below, subplots

REWARD = "Cumulative reward against the trial: median of the searches, and their range. High and early is good."
RATES = "Median over the searches, and their range. Good are rates that fall as data grow."
UNCERTAINTY = """What a model says of transitions that it has not seen, in units of their standard deviation. Good is
an epistemic SD that falls as the error does and is about as large."""
FAN = """What particles expected of a trial (coloured, each with a function of its own), and what happened (black).
Good is a fan that holds the black line, and that narrows."""
FILM = "The last trial of the first search with learned rates, in moments."
NOTES = (
    f"""Published: DeepPILCO (Gal, McAllister & Rasmussen 2016), a fixed rate of 0.1 and the same system; its figure
    ends near {PUBLISHED} of 25.""",
    CRITERION,
    """A transition in eight of each trial is held out from the weights and sets the noise of the model. Uncertainty,
    error and log likelihood are those of transitions that no search has seen: trials of the policy that was improved
    with the true dynamics, disturbed.""",
)

NAMES = {"learned": "learned rates", "fixed": "fixed, p = 0.1", "none": "no dropout"}
COLOURS = {"learned": plots.ORANGE, "fixed": plots.BLUE, "none": plots.INK}
LAYERS = ("input", "hidden 1", "hidden 2")
LEAST_SD = 1e-3
"""What is less is drawn here; a rate of 0 leaves nothing."""
Variants = Mapping[str, Sequence[Sequence[Plain]]]
"""For each kind of dropout, for each seed, what there is to say of each trial."""


def page(results: Plain) -> Page:
    """Hold learned rates against a fixed one and none, by the reward of the last trial."""
    is_cart, variants, references = results["environment"] == "swing-up", results["arms"], results["references"]
    rewards = _rewards(variants, references, published=PUBLISHED if is_cart else None)
    first = {variant: runs[0] for variant, runs in variants.items()}
    body: list[Picture | Table] = [
        Picture("cartpole-reward", REWARD, rewards),
        _table(results["summary"], references),
        Picture("cartpole-rates", RATES, _rates(variants["learned"])),
        Picture("cartpole-uncertainty", UNCERTAINTY, _uncertainty(variants)),
        Picture("cartpole-fan", FAN, _fan(first)),
        *([Picture("cartpole-film", FILM, film(first["learned"][-1]))] if is_cart else []),
    ]
    title = "Swinging up a pole" if is_cart else "Control from few trials"
    return Page(title, _lead(results), body, [*NOTES, _without_model(references["model-free"])])


def _lead(results: Plain) -> str:
    summary, trials = results["summary"], len(results["arms"]["learned"][0])
    ours = summary["learned"]
    others = " and ".join(f"{each['median']:.1f} with {NAMES[v]}" for v, each in summary.items() if v != "learned")
    return f"""In trial {trials}, the median cumulative reward of {ours["searches"]} searches with learned rates is
    {ours["median"]:.1f}; it is {others}. The goal is reached by {ours["reached"]} of {ours["searches"]}."""


def _without_model(runs: Sequence[Plain]) -> str:
    size = runs[0]["trials_per_generation"]
    enough = [[i for i, reward in enumerate(run["rewards"], 1) if reward >= PUBLISHED] for run in runs]
    reached = [f"{size * generations[0]:,}" for generations in enough if generations]
    best = statistics.median(max(run["rewards"]) for run in runs)
    return f"""Without a model: a cross-entropy search over the weights of the same policy, {size} trials a generation.
        After {size * len(runs[0]["rewards"]):,} trials the median of the best mean reward is {best:.1f}; """ + (
        f"a mean of {PUBLISHED} is reached after {', '.join(reached)} trials." if reached else "no search succeeds."
    )


def _table(summary: Plain, references: Plain) -> Table:
    rows = []
    for variant, row in summary.items():
        cells = [f"{row[key]:.2f}" for key in ("median", "least", "most", "evaluation")]
        firsts = sorted(math.inf if first is None else first for first in row["first_reached"])
        middle = statistics.median_low(firsts)
        reached = f"{row['reached']} of {row['searches']}"
        rows.append([NAMES[variant], *cells, reached, "–" if middle == math.inf else f"{middle}"])
    for name in ("true dynamics", "random"):
        rows.append([name, "–", "–", "–", f"{references[name]['reward']:.2f}", "–", "–"])
    columns = ["", "median", "least", "most", "mean of 100 starts", "goal reached", "first reached in trial, median"]
    return Table("Cumulative reward in the last trial.", columns, rows, ours=[0])


def _rewards(variants: Variants, references: Plain, *, published: float | None) -> Figure:
    drawing, panels = subplots(1, 2, sharey=True, size=(9, 4.2))
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
    legend_below(drawing, panels[0], 3, plots.SIZE)
    return drawing


def _rates(runs: Sequence[Sequence[Plain]]) -> Figure:
    drawing, ax = subplots(size=(6.4, 3.8))
    for layer, (label, colour) in enumerate(zip(LAYERS, (plots.PALETTE[3], plots.BLUE, plots.GREEN), strict=True)):
        _band(ax, np.array([[row["rates"][layer] for row in run[1:]] for run in runs]), colour, label, first=2)
    title = "learned rates in front of each layer"
    dress(ax, title=title, x="trial", y="drop probability p", ylim=(-0.01, None), legend=plots.SIZE)
    return drawing


def _uncertainty(variants: Variants) -> Figure:
    drawing, panels = subplots(1, 3, size=(10, 3.8))
    panels[1].sharey(panels[0])
    titles = {"epistemic": "epistemic SD", "error": "RMS error", "log_likelihood": "log likelihood, nats"}
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
    panels[0].axhline(LEAST_SD, color=plots.INK, linewidth=0.8, linestyle=":")
    panels[0].annotate(f"{LEAST_SD:g} or less", (2, LEAST_SD), (0, 4), textcoords="offset points", fontsize=8)
    panels[0].set_ylabel("SDs of the change of state")
    panels[1].fill_between([], [], color=plots.INK, alpha=0.13, label="range of all searches")
    legend_below(drawing, panels[1], 4, plots.SIZE)
    return drawing


def _fan(runs: Mapping[str, Sequence[Plain]]) -> Figure:
    chosen = fan_trials(len(runs["learned"]))
    size = 2.1 * len(chosen) + 0.6, 1.6 * len(runs) + 0.6
    drawing, panels = subplots(len(runs), len(chosen), sharex=True, sharey=True, squeeze=False, size=size)
    for row, (variant, run) in zip(panels, runs.items(), strict=True):
        for ax, index in zip(row, chosen, strict=True):
            expected, real = np.array(run[index]["fan"]), run[index]["distance"]
            time = SECONDS * np.arange(len(expected))
            ax.plot(time, expected, color=COLOURS[variant], linewidth=0.6, alpha=0.4)
            ax.plot(SECONDS * np.arange(1, len(real) + 1)[: len(time)], real[: len(time)], color="black", linewidth=1.6)
            title, x = f"trial {index + 1}" * (variant == "learned"), "time, s" * (variant == list(runs)[-1])
            dress(ax, title=title, x=x, ylim=(0, 3.0))
        row[0].set_ylabel(f"{NAMES[variant]}\ndistance, m", fontsize=plots.SIZE)
    return drawing


def _band(ax: Axes, values: NDArray[np.float64], colour: str, label: str, *, first: int = 1) -> None:
    steps = np.arange(first, first + values.shape[1])
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    look: Plain = {"marker": "o", "markersize": 3, "linewidth": 1.5, "color": colour, "label": label}
    band(ax, steps, np.median(values, axis=0), values.min(0), values.max(0), **look)
