"""Figures, animation and page of `gumdrop reproduce cartpole`."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from gumdrop.machine.files import replacing
from gumdrop.views import plots
from gumdrop_experiments.cartpole.control import CartPole
from gumdrop_experiments.cartpole.control.drawing import draw_cart_pole
from gumdrop_experiments.cartpole.control.swing_up import MAX_FORCE, SECONDS
from gumdrop_experiments.pages.page import Figure, Page, Table

__all__ = ["PUBLISHED", "animation", "fan", "fan_trials", "film", "page", "rates", "rewards", "uncertainty"]

PUBLISHED = 16.5
"""Cumulative reward that DeepPILCO reaches, of 25, by its figure."""
NAMES = {"learned": "learned rates", "fixed": "fixed, p = 0.1", "none": "no dropout"}
COLOURS = {"learned": plots.ORANGE, "fixed": plots.BLUE, "none": plots.INK}
LAYERS = ("input", "hidden 1", "hidden 2")
FRAMES_PER_STEP = 2
LEAST_SD = 1e-3
"""What is less is drawn here; a rate of 0 leaves nothing."""
MOST_DISTANCE = 3.0

Arms = Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]


def rewards(arms: Arms, references: Mapping[str, Any], *, published: float | None) -> Drawing:
    """Cumulative reward of each trial: that trial itself, and the mean over many starts.

    Args:
        arms: For each kind of dropout, for each seed, what there is to say of each trial.
        references: What other ways reach.
        published: Reward to draw a line at.

    Returns:
        The figure.
    """
    drawing = Drawing(figsize=(9, 4.2), layout="constrained")
    panels = drawing.subplots(1, 2, sharey=True)
    reads: tuple[Callable[[Any], float], ...] = (lambda row: row["reward"], lambda row: row["evaluation"]["reward"])
    for ax, read, title in zip(panels, reads, ("the trial", "the same policy, mean of 100 starts"), strict=True):
        for arm, runs in arms.items():
            _band(ax, np.array([[read(row) for row in run] for run in runs]), COLOURS[arm], NAMES[arm])
        lines = [("true dynamics known", references["true dynamics"]["reward"], plots.GREEN)]
        lines += [("published, DeepPILCO", published, plots.PALETTE[3])] if published else []
        lines.append(("random actions", references["random"]["reward"], "grey"))
        for label, level, colour in lines:
            ax.axhline(level, color=colour, linewidth=1.2, linestyle="--", label=label)
        _dress(ax, title, "trial")
    panels[0].set_ylabel("cumulative reward", fontsize=plots.SIZE)
    _legend(drawing, panels[0])
    return drawing


def rates(runs: Sequence[Sequence[Mapping[str, Any]]]) -> Drawing:
    """The learned rate of each layer after each trial.

    Args:
        runs: The searches with learned rates.

    Returns:
        The figure.
    """
    drawing = Drawing(figsize=(6.4, 3.8), layout="constrained")
    ax = drawing.subplots()
    for layer, (label, colour) in enumerate(zip(LAYERS, (plots.PALETTE[3], plots.BLUE, plots.GREEN), strict=True)):
        _band(ax, np.array([[row["rates"][layer] for row in run[1:]] for run in runs]), colour, label, first=2)
    ax.set_ylabel("drop probability p", fontsize=plots.SIZE)
    ax.set_ylim(-0.01, None)
    _dress(ax, "learned rates in front of each layer", "trial")
    ax.legend(frameon=False, fontsize=plots.SIZE)
    return drawing


def uncertainty(arms: Arms) -> Drawing:
    """What the model says that it does not know of a swing-up, its error, and its log likelihood.

    Args:
        arms: See `rewards`.

    Returns:
        The figure.
    """
    drawing = Drawing(figsize=(10, 3.8), layout="constrained")
    titles = {"epistemic": "epistemic SD", "error": "RMS error", "log_likelihood": "log likelihood, nats"}
    grid = drawing.add_gridspec(1, 3)
    left = drawing.add_subplot(grid[0])
    panels = (left, drawing.add_subplot(grid[1], sharey=left), drawing.add_subplot(grid[2]))
    for ax, (key, title) in zip(panels, titles.items(), strict=True):
        for arm, runs in arms.items():
            if (key, arm) != ("epistemic", "none"):
                values = np.array([[row["held_out"][key] for row in run[1:]] for run in runs])
                values = values if key == "log_likelihood" else np.maximum(values, LEAST_SD)
                _band(ax, values, COLOURS[arm], NAMES[arm], first=2)
        if key == "log_likelihood":
            ax.set_yscale("symlog", linthresh=10)
        else:
            ax.set_yscale("log")
        _dress(ax, title, "trial")
    panels[0].set_ylabel("SDs of the change of state", fontsize=plots.SIZE)
    _legend(drawing, panels[1])
    return drawing


def fan_trials(total: int) -> list[int]:
    """Choose the trials of the fan plot.

    Args:
        total: Number of trials.

    Returns:
        Their indices, from 0: the second, the fifth, the tenth of twenty, and the last.
    """
    return sorted({1, min(total, 5) - 1, max(total // 2, 2) - 1, total - 1})


def fan(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Drawing:
    """What particles expected of a trial, and what happened: distance of the tip from its goal.

    Args:
        runs: One search with each kind of dropout.

    Returns:
        The figure.
    """
    chosen = fan_trials(len(runs["learned"]))
    drawing = Drawing(figsize=(2.1 * len(chosen) + 0.6, 1.6 * len(runs) + 0.6), layout="constrained")
    panels = drawing.subplots(len(runs), len(chosen), sharex=True, sharey=True, squeeze=False)
    for row, (arm, run) in zip(panels, runs.items(), strict=True):
        for ax, index in zip(row, chosen, strict=True):
            expected, real = np.array(run[index]["fan"]), run[index]["distance"]
            time = SECONDS * np.arange(len(expected))
            ax.plot(time, expected, color=COLOURS[arm], linewidth=0.6, alpha=0.4)
            ax.plot(SECONDS * np.arange(1, len(real) + 1)[: len(time)], real[: len(time)], color="black", linewidth=1.6)
            _dress(ax, f"trial {index + 1}" if arm == "learned" else "", "time, s" if arm == list(runs)[-1] else "")
            ax.set_ylim(0, MOST_DISTANCE)
        row[0].set_ylabel(f"{NAMES[arm]}\ndistance, m", fontsize=plots.SIZE)
    return drawing


def _band(ax: Axes, values: NDArray[np.float64], colour: str, label: str, *, first: int = 1) -> None:
    """Median over seeds, and the range of all."""
    steps = np.arange(first, first + values.shape[1])
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.plot(steps, np.median(values, axis=0), "o-", color=colour, markersize=3, linewidth=1.5, label=label)
    ax.fill_between(steps, values.min(0), values.max(0), color=colour, alpha=0.13, linewidth=0)


def _dress(ax: Axes, title: str, xlabel: str) -> None:
    ax.set_title(title, fontsize=plots.SIZE + 0.5, loc="left", color=plots.INK)
    ax.set_xlabel(xlabel, fontsize=plots.SIZE)
    ax.tick_params(labelsize=plots.SIZE - 0.5)
    ax.grid(alpha=0.15)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _legend(drawing: Drawing, ax: Axes) -> None:
    handles = ax.get_legend_handles_labels()
    drawing.legend(*handles, loc="outside lower center", ncols=3, frameon=False, fontsize=plots.SIZE)


# Pictures of the cart


def film(record: Mapping[str, Any], *, count: int = 10) -> Drawing:
    """Some moments of a trial, side by side.

    Args:
        record: What there is to say of the trial.
        count: How many.

    Returns:
        The figure.
    """
    drawing = Drawing(figsize=(9, 2.7), layout="constrained")
    steps = np.linspace(0, len(record["actions"]), count).round().astype(int)
    for ax, step in zip(drawing.subplots(2, count // 2).flat, steps, strict=True):
        force = MAX_FORCE * record["actions"][min(step, len(record["actions"]) - 1)]
        ax.imshow(draw_cart_pole(record["states"][step], force))
        ax.set_title(f"{SECONDS * step:.1f} s", fontsize=plots.SIZE)
        ax.axis("off")
    return drawing


def animation(path: Path, records: Mapping[str, Mapping[str, Any]]) -> None:
    """Write trials side by side as an animated GIF, at the speed at which they ran.

    Args:
        path: The file.
        records: What there is to say of each trial, by what is to be written over it.
    """
    films = [_moments(record) for record in records.values()]
    frames = []
    for moments in zip(*films, strict=True):
        panels = [
            np.asarray(Image.fromarray(draw_cart_pole(state, force)).resize((320, 200))) for state, force in moments
        ]
        frames.append(_titled(np.concatenate(panels, axis=1), list(records)))
    some = np.concatenate([np.asarray(frame) for frame in frames[:: len(frames) // 3]])
    palette = Image.fromarray(some).quantize(128, dither=Image.Dither.NONE)
    frames = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    milliseconds = round(1000 * SECONDS / FRAMES_PER_STEP)
    durations = [milliseconds] * (len(frames) - 1) + [1500]
    with replacing(path, "wb") as file:
        frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)


def _moments(record: Mapping[str, Any]) -> list[tuple[list[float], float]]:
    """States and forces of a trial, with some in between."""
    cart_pole, moments = CartPole(), []
    for state, action in zip(record["states"], record["actions"], strict=False):
        now, force = torch.tensor(state, dtype=torch.float64), torch.tensor(MAX_FORCE * action, dtype=torch.float64)
        for part in range(FRAMES_PER_STEP):
            seconds = SECONDS * part / FRAMES_PER_STEP
            moments.append((cart_pole.advance(now, force, seconds=seconds).tolist(), float(force)))
    return [*moments, (record["states"][-1], 0.0)]


def _titled(picture: NDArray[np.uint8], titles: Sequence[str]) -> Image.Image:
    image = Image.fromarray(picture)
    pen, width = ImageDraw.Draw(image), image.width // len(titles)
    for i, title in enumerate(titles):
        pen.text((i * width + 10, 6), title, fill=plots.INK, font=ImageFont.load_default(15))
        if i:
            pen.line([(i * width, 0), (i * width, image.height)], fill="#e3e5e8", width=2)
    return image


# The page


def page(results: Mapping[str, Any], *, task: str, trials: int, criterion: str) -> Page:
    """Write the page.

    Args:
        results: What was found.
        task: Its name.
        trials: Number of trials of each search.
        criterion: When the goal counts as reached.

    Returns:
        The page.
    """
    summary, references = results["summary"], results["references"]
    ours = summary["learned"]
    others = " and ".join(f"{summary[arm]['median']:.1f} with {NAMES[arm]}" for arm in summary if arm != "learned")
    body: list[Figure | Table] = [
        Figure("cartpole-reward", REWARD),
        _table(summary, references),
        Figure("cartpole-rates", RATES),
        Figure("cartpole-uncertainty", UNCERTAINTY),
        Figure("cartpole-fan", FAN),
    ]
    if task == "swing-up":
        body.append(Figure("cartpole-film", "The last trial of the first search with learned rates, in moments."))
    return Page(
        title="Control from few trials" if task != "swing-up" else "Swinging up a pole",
        lead=(
            f"In trial {trials}, the median cumulative reward of {ours['searches']} searches with learned rates is "
            f"{ours['median']:.1f}; it is {others}. The goal is reached by {ours['reached']} of {ours['searches']}."
        ),
        body=body,
        notes=[
            "Published: DeepPILCO (Gal, McAllister & Rasmussen 2016), a fixed rate of 0.1 and the same system; its "
            f"figure ends near {PUBLISHED} of 25.",
            criterion,
            "A transition in eight of each trial is held out from the weights and sets the noise of the model. "
            "Uncertainty, error and log likelihood are those of transitions that no search has seen: trials of the "
            "policy that was improved with the true dynamics, disturbed.",
            _without_model(references["model-free"]),
        ],
    )


REWARD = "Cumulative reward against the trial: median of the searches, and their range. High and early is good."
RATES = "Median over the searches, and their range. Good are rates that fall as data grow."
UNCERTAINTY = (
    "What a model says of transitions that it has not seen, in units of their standard deviation. Good is an epistemic "
    "SD that falls as the error does and is about as large."
)
FAN = (
    "What particles expected of a trial (coloured, each with a function of its own), and what happened (black). Good "
    "is a fan that holds the black line, and that narrows."
)


def _without_model(runs: Sequence[Mapping[str, Any]]) -> str:
    needed = [_first(run["rewards"], PUBLISHED) for run in runs]
    size = runs[0]["trials_per_generation"]
    reached = [f"{size * (generation + 1):,}" for generation in needed if generation is not None]
    best = statistics.median(max(run["rewards"]) for run in runs)
    return (
        f"Without a model: a cross-entropy search over the weights of the same policy, {size} trials a generation. "
        f"After {size * len(runs[0]['rewards']):,} trials the median of the best mean reward is {best:.1f}; "
        + (f"a mean of {PUBLISHED} is reached after {', '.join(reached)} trials." if reached else "no search succeeds.")
    )


def _first(values: Sequence[float], least: float) -> int | None:
    return next((i for i, value in enumerate(values) if value >= least), None)


def _table(summary: Mapping[str, Any], references: Mapping[str, Any]) -> Table:
    rows = []
    for arm, row in summary.items():
        cells = [f"{row[key]:.2f}" for key in ("median", "least", "most", "evaluation")]
        firsts = sorted(math.inf if first is None else first for first in row["first_reached"])
        middle = statistics.median_low(firsts)
        reached = f"{row['reached']} of {row['searches']}"
        rows.append([NAMES[arm], *cells, reached, "–" if middle == math.inf else f"{middle}"])
    for name in ("true dynamics", "random"):
        rows.append([name, "–", "–", "–", f"{references[name]['reward']:.2f}", "–", "–"])
    columns = ["", "median", "least", "most", "mean of 100 starts", "goal reached", "first reached in trial, median"]
    return Table("Cumulative reward in the last trial.", columns, rows, ours=[0])
