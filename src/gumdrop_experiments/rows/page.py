"""The page of `rows`."""

from collections.abc import Mapping
from typing import Any

from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.rows.results import GRID, LABELS, PRIORS, verdict

__all__ = ["page"]

NATS = (
    "Test NLL in nats a row against the number of rows, held-out ones included; lower is better. A line is the mean "
    "over seeds, its band goes from the best seed to the worst. 'Grid' is the best of none, .1, .3 and .5 by held-out "
    "rows."
)
CHANGED = "The same networks with the prior, on digits with noise and on moved ones; and their calibration error."
RATES = "Learned drop probability of each layer at the epoch that is kept; dotted without a prior on the weights."
NOTES = (
    "All ways of a size share the rows, the initial weights, the number of steps and the optimiser (AdamW in one cycle "
    "of the learning rate). A fifth of the rows, at most 1,000, is held out of training: it chooses the epoch that is "
    "kept and the grid's rate. Test rows choose nothing.",
    "A fixed rate is the same in front of all layers. The prior is the default of the objective; with fixed rates it "
    "is a penalty on squared weights. What it costs a row falls with the number of rows on the tables. On digits it "
    "does not, as the prior is capped where there are more weights than rows. The entropy of the masks counts 1/N "
    "everywhere.",
    "Digits: noise with an SD of .45 of the brightest pixel; moved by two pixels to the right and two down. Tables: "
    "inputs and targets in units of the whole training part, a test part of its own for each seed; networks say mean "
    "and variance.",
)


def page(results: Mapping[str, Any]) -> Page:
    """Say where learned rates are ahead."""
    body: list[Figure | Table] = [Figure("rows", NATS)]
    if "mnist" in results:
        body.append(Figure("rows-changed", CHANGED))
    body.append(Figure("rows-rates", RATES))
    for found in results.values():
        body += [_scores(found, prior) for prior in PRIORS]
    body.append(_plans(results))
    return Page("Nats against the number of rows", _lead(results), body, NOTES)


def _lead(results: Mapping[str, Any]) -> str:
    counts = []
    for found in results.values():
        verdicts = [verdict(size["gains"]["prior"]["test"][GRID]) for size in found["sizes"]]
        words = ", ".join(f"{verdicts.count(word)} {word}" for word in ("ahead", "level", "behind"))
        counts.append(f"{found['label']} {words}")
    return f"Learned rates beside the best fixed rate by held-out rows, with the prior, sizes: {'; '.join(counts)}."


def _scores(found: Mapping[str, Any], prior: str) -> Table:
    """NLL of each way by size, and the gain of learned rates on the grid."""
    rows = []
    for size in found["sizes"]:
        ways = size["ways"][prior]
        nll = [mean_and_error(ways[way]["test"]["nll"]) for way in LABELS]
        mean, half = size["gains"][prior]["test"][GRID]
        gain = f"{mean:+.3f}" if half is None else f"{mean:+.3f} (± {half:.3f})"
        rows.append([f"{size['rows']:,}", *(f"{mean:.3f} ({error:.3f})" for mean, error in nll), gain])
    caption = (
        f"{found['label']}, {PRIORS[prior]}: test NLL, mean over seeds (standard error), and what learned rates gain "
        "on the grid, with its 95 % interval over seeds."
    )
    return Table(caption, ["rows", *LABELS.values(), "gain"], rows)


def _plans(results: Mapping[str, Any]) -> Table:
    """How each size was trained."""
    heads = {"held_out": "held out", "batch_size": "batch", "epochs": "epochs", "steps": "steps"}
    rows = [
        [found["label"], f"{size['rows']:,}", *(f"{size[name]:,}" for name in heads), str(len(size["seeds"]))]
        for found in results.values()
        for size in found["sizes"]
    ]
    return Table("Steps and seeds of each size, the same for all ways.", ["", "rows", *heads.values(), "seeds"], rows)
