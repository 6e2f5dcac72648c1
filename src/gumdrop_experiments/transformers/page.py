"""The page of `transformers`."""

import statistics

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.transformers.study import VARIANTS
from gumdrop_experiments.transformers.tasks import SCORES

COMPARED = "Mean and standard error over seeds; test data, with draws unless it says so."
RATES = "Learned rates of the epoch that is kept, a dot for each seed. Dotted: where all began."
NOTES = (
    "All variants have their sites at the same places, under the same prior, with masks that all tokens of a sentence "
    "share. The fixed dropout of attention probabilities is off: it drops no weight, so no posterior belongs to it and "
    "its rate cannot be learned by this objective.",
    "Sums are written by this program ('seventeen plus four is twenty-one.'), different ones to train, to choose the "
    "epoch and to test.",
)


def page(results: Plain) -> Page:
    """Say how good learned rates are, and the best fixed ones."""
    return Page(
        title="Learned dropout in transformers",
        lead=_lead(results),
        body=[
            Figure("transformers-scores", COMPARED),
            *(_table(task, variants) for task, variants in results.items()),
            Figure("transformers-rates", RATES),
        ],
        notes=NOTES,
    )


def _lead(results: Plain) -> str:
    def mean(task: str, variant: str, score: str) -> float:
        return statistics.fmean(part["scores"][score] for part in results[task][variant])

    others = [variant for variant in VARIANTS if variant != "learned"]
    fixed = min(others, key=lambda variant: mean("reviews", variant, "nll"))
    return (
        f"A small BERT on film reviews: {mean('reviews', 'learned', 'accuracy'):.1f} % right and "
        f"{mean('reviews', 'learned', 'nll'):.3f} nats with learned rates; "
        f"{mean('reviews', fixed, 'accuracy'):.1f} % and {mean('reviews', fixed, 'nll'):.3f} nats with the best "
        f"fixed setting by test likelihood ({fixed}). A small GPT on sums in words: "
        f"{mean('sums', 'learned', 'nll'):.4f} nats per character with learned rates, "
        f"{min(mean('sums', variant, 'nll') for variant in others):.4f} with the best fixed."
    )


def _table(task: str, variants: Plain) -> Table:
    rows = []
    for variant, parts in variants.items():
        found = [mean_and_error(part["scores"][score] for part in parts) for score in SCORES[task]]
        rows.append([variant, *(f"{mean:.4g} ({error:.2g})" for mean, error in found)])
    caption = f"{task}: mean and standard error over seeds."
    return Table(caption, ["rates", *SCORES[task].values()], rows, ours=[len(rows) - 1])
