"""The page of `sentiment`."""

from collections.abc import Mapping
from typing import Any

from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.sentiment.results import SCORES, best_fixed, best_learned

SCORES_SHOWN = "Mean and standard error over seeds on the test sentences."
EPOCHS = (
    "First seed, after each epoch. The loss of the development sentences is that of five draws, averaged; accuracies "
    "are those of single draws. A dot marks the epoch that is kept."
)
RATES = (
    "Learned rates of each seed over training, from their start. A dot marks the epoch that is kept, which is the one "
    "that is scored."
)
RELIABILITY = "First seed, test sentences: how sure it was, and how often it was right."
NOTES = (
    "Embedding 100, one LSTM of 256 units, a dense layer; Adam with one cycle, batches of 64, the best epoch by the "
    "likelihood of the 872 development sentences. Fixed rates stand at the same places, under the same prior and with "
    "the same masks: one for a sentence.",
    "Published: .849 for an LSTM with pre-trained vectors and phrase labels; 79 to 82 % is usual from sentences alone. "
    "The report on learned dropout in LSTMs had .536 on three classes by mistake.",
    "'Given factors' are those of --regularisers in the place of the prior N(0, 1) and the entropy's own weight.",
    "'Words too' drops word types in front of the embedding, as Gal & Ghahramani 2016 (arXiv:1512.05287) do.",
)


def page(results: Mapping[str, Any]) -> Page:
    """Hold the better of the learned rates against the best of the fixed ones."""
    body: list[Figure | Table] = [
        Figure("sentiment-scores", SCORES_SHOWN),
        _table(results),
        Figure("sentiment-epochs", EPOCHS),
        Figure("sentiment-rates", RATES),
        Figure("sentiment-reliability", RELIABILITY),
    ]
    return Page("Sentiment of sentences (SST-2)", _lead(results), body, NOTES)


def _lead(results: Mapping[str, Any]) -> str:
    learned, best = best_learned(results), best_fixed(results)
    ours, theirs = (results[label]["summary"]["draws"] for label in (learned, best))
    return (
        f"Learned rates ({learned}): accuracy {100 * ours['accuracy'][0]:.1f} %, {ours['nll'][0]:.3f} nats, "
        f"calibration error {100 * ours['ece'][0]:.1f} %. The best of the fixed ones by its test likelihood ({best}): "
        f"{100 * theirs['accuracy'][0]:.1f} %, {theirs['nll'][0]:.3f} nats, {100 * theirs['ece'][0]:.1f} %."
    )


def _table(results: Mapping[str, Any]) -> Table:
    rows = []
    for label, each in results.items():
        cells = [label]
        for how in ("draws", "no_draws"):
            for score in SCORES:
                mean, error = each["summary"][how][score]
                scale, digits = (1, 3) if score == "nll" else (100, 1)
                cells.append(f"{scale * mean:.{digits}f} ({scale * error:.{digits}f})")
        rows.append(cells)
    columns = ["rates", *(f"{title}, {how}" for how in ("draws", "no draws") for title in SCORES.values())]
    ours = [i for i, label in enumerate(results) if label.startswith("learned")]
    return Table("Test sentences: mean and standard error over seeds.", columns, rows, ours=ours)
