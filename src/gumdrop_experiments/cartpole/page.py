"""The page of `cartpole`."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from gumdrop_experiments.cartpole import PUBLISHED
from gumdrop_experiments.cartpole.evaluation import CRITERION
from gumdrop_experiments.cartpole.figures import NAMES
from gumdrop_experiments.pages.page import Figure, Page, Table

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
FILM = "The last trial of the first search with learned rates, in moments."
NOTES = (
    "Published: DeepPILCO (Gal, McAllister & Rasmussen 2016), a fixed rate of 0.1 and the same system; its figure ends "
    f"near {PUBLISHED} of 25.",
    CRITERION,
    "A transition in eight of each trial is held out from the weights and sets the noise of the model. Uncertainty, "
    "error and log likelihood are those of transitions that no search has seen: trials of the policy that was improved "
    "with the true dynamics, disturbed.",
)


def page(results: Mapping[str, Any]) -> Page:
    """Hold learned rates against a fixed one and none, by the reward of the last trial."""
    is_cart = results["environment"] == "swing-up"
    return Page(
        title="Swinging up a pole" if is_cart else "Control from few trials",
        lead=_lead(results),
        body=[
            Figure("cartpole-reward", REWARD),
            _table(results["summary"], results["references"]),
            Figure("cartpole-rates", RATES),
            Figure("cartpole-uncertainty", UNCERTAINTY),
            Figure("cartpole-fan", FAN),
            *([Figure("cartpole-film", FILM)] if is_cart else []),
        ],
        notes=[*NOTES, _without_model(results["references"]["model-free"])],
    )


def _lead(results: Mapping[str, Any]) -> str:
    summary, trials = results["summary"], len(results["arms"]["learned"][0])
    ours = summary["learned"]
    others = " and ".join(
        f"{summary[variant]['median']:.1f} with {NAMES[variant]}" for variant in summary if variant != "learned"
    )
    return (
        f"In trial {trials}, the median cumulative reward of {ours['searches']} searches with learned rates is "
        f"{ours['median']:.1f}; it is {others}. The goal is reached by {ours['reached']} of {ours['searches']}."
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
