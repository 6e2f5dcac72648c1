"""The page of `sentiment`."""

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views import plots
from gumdrop_experiments.harness import START, Plain
from gumdrop_experiments.pages import Page, Picture, Table, dress, legend_below, subplots
from gumdrop_experiments.sentiment.study import NUM_SAMPLES, SCORES, best_of

SCORES_SHOWN = "Mean and standard error over seeds on the test sentences."
EPOCHS = """After each epoch, thin each seed, thick their mean. The loss of the development sentences is that of five
draws, averaged; accuracies are those of single draws. A dot marks the epoch that is kept."""
RATES = """Learned rates of each seed over training, from their start. A dot marks the epoch that is kept, which is
the one that is scored."""
RELIABILITY = "First seed, test sentences: how sure it was, and how often it was right."
NOTES = (
    """Embedding 100, one LSTM of 256 units, a dense layer; Adam with one cycle, batches of 64, the best epoch by the
    likelihood of the 872 development sentences. Fixed rates stand at the same places, under the same prior and with
    the same masks: one for a sentence.""",
    """Published: .849 for an LSTM with pre-trained vectors and phrase labels; 79 to 82 % is usual from sentences
    alone. The report on learned dropout in LSTMs had .536 on three classes by mistake.""",
    "'Given factors' are those of --regularisers in the place of the prior N(0, 1) and the entropy's own weight.",
    "'Words too' drops word types in front of the embedding, as Gal & Ghahramani 2016 (arXiv:1512.05287) do.",
)

SITES = {
    "embedding": ("words", plots.PALETTE[0]),
    "lstm.ih_l0": ("into the LSTM", plots.PALETTE[1]),
    "head": ("into the classes", plots.PALETTE[2]),
}


def page(results: Plain) -> Page:
    """Hold the better of the learned rates against the best of the fixed ones."""
    body: list[Picture | Table] = [
        Picture("sentiment-scores", SCORES_SHOWN, _scores(results)),
        _table(results),
        Picture("sentiment-epochs", EPOCHS, _epochs(results)),
        Picture("sentiment-rates", RATES, draw_rates(results)),
        Picture("sentiment-reliability", RELIABILITY, _reliability(results)),
    ]
    return Page("Sentiment of sentences (SST-2)", _lead(results), body, NOTES)


def _lead(results: Plain) -> str:
    learned, best = best_of(results, learned=True), best_of(results, learned=False)
    ours, theirs = (results[label]["summary"]["draws"] for label in (learned, best))
    return f"""Learned rates ({learned}): accuracy {100 * ours["accuracy"][0]:.1f} %, {ours["nll"][0]:.3f} nats,
    calibration error {100 * ours["ece"][0]:.1f} %. The best of the fixed ones by its test likelihood ({best}):
    {100 * theirs["accuracy"][0]:.1f} %, {theirs["nll"][0]:.3f} nats, {100 * theirs["ece"][0]:.1f} %."""


def _table(results: Plain) -> Table:
    rows = []
    for label, variant in results.items():
        cells = [label]
        for how in ("draws", "no_draws"):
            for score in SCORES:
                mean, error = variant["summary"][how][score]
                scale, digits = (1, 3) if score == "nll" else (100, 1)
                cells.append(f"{scale * mean:.{digits}f} ({scale * error:.{digits}f})")
        rows.append(cells)
    columns = ["rates", *(f"{title}, {how}" for how in ("draws", "no draws") for title in SCORES.values())]
    ours = [i for i, label in enumerate(results) if label.startswith("learned")]
    return Table("Test sentences: mean and standard error over seeds.", columns, rows, ours=ours)


def _scores(results: Plain) -> Figure:
    drawing, panels = subplots(1, 3, sharey=True, size=(9.5, 0.32 * len(results) + 1.2))
    labels = list(results)[::-1]
    looks = {"no_draws": ("no draws", plots.INK, -0.15), "draws": (f"{NUM_SAMPLES} draws", plots.ORANGE, 0.15)}
    for ax, (score, title) in zip(panels, SCORES.items(), strict=True):
        scale = 1 if score == "nll" else 100
        for how, (name, colour, shift) in looks.items():
            for i, label in enumerate(labels):
                mean, error = (scale * value for value in results[label]["summary"][how][score])
                shown = name if i == 0 else None
                ax.errorbar(mean, i + shift, xerr=error, fmt="o", color=colour, label=shown, markersize=4)
        dress(ax, title=title)
    panels[0].set_yticks(range(len(labels)), labels, fontsize=9)
    legend_below(drawing, panels[0], 2)
    return drawing


def _epochs(results: Plain) -> Figure:
    keys = [key for key in results if key == "none" or key.startswith(("fixed", "learned"))]
    shown = [key for key in keys if "words" not in key]
    drawing, panels = subplots(2, 2, sharex=True, sharey="row", size=(8.6, 6.0))
    parts = {"train": "training sentences, masks on", "validation": "development sentences"}
    scores = {"nll": ("negative log likelihood, nats", 1), "accuracy": ("accuracy, %", 100)}
    for row, (score, (label, scale)) in zip(panels, scores.items(), strict=True):
        for ax, (name, title) in zip(row, parts.items(), strict=True):
            for key, colour in zip(shown, plots.PALETTE, strict=False):
                parts_of_key = results[key]["parts"]
                seeds = scale * np.array([part[f"{name}_{score}"] for part in parts_of_key], dtype=float)
                epochs, label_of_key = range(1, seeds.shape[1] + 1), f"{key}, seeds: {len(seeds)}"
                for values, part in zip(seeds, parts_of_key, strict=True):
                    ax.plot(epochs, values, color=colour, linewidth=0.6, alpha=0.4)
                    ax.plot(part["best_epoch"], values[part["best_epoch"] - 1], "o", color=colour, markersize=4)
                ax.plot(epochs, seeds.mean(0), color=colour, linewidth=1.6, label=label_of_key)
            dress(ax, title=title if score == "nll" else "", x="epoch" if score == "accuracy" else "", whole=True)
        row[0].set_ylabel(label)
    panels[0, 0].plot([], [], "o", color=plots.INK, markersize=4, label="epoch kept")
    panels[0, 0].legend(fontsize=8, frameon=False)
    return drawing


def draw_rates(results: Plain) -> Figure:
    """Draw the learned rates of every seed over training, with a dot at the epoch that is kept."""
    learned = {label: each["parts"] for label, each in results.items() if label.startswith("learned")}
    drawing, panels = subplots(1, len(learned), sharey=True, squeeze=False, size=(3.4 * len(learned), 3.2))
    for ax, (label, parts) in zip(panels[0], learned.items(), strict=True):
        for i, part in enumerate(parts):
            for site, values in part["rates"].items():
                (name, colour), kept = SITES[site], part["best_epoch"]
                over = [START, *values]
                ax.plot(over, color=colour, alpha=0.7, linewidth=1.3, label=None if i else name)
                ax.plot(kept, over[kept], "o", color=colour, markersize=4)
        ax.plot([], [], "o", color=plots.INK, markersize=4, label="epoch kept")
        dress(ax, title=label, x="epoch", ylim=(0, None), whole=True, legend=8)
    panels[0, 0].set_ylabel("drop probability p")
    return drawing


def _reliability(results: Plain) -> Figure:
    shown = [label for label in results if label.startswith("learned") or label == best_of(results, learned=False)]
    drawing, panels = subplots(1, len(shown), squeeze=False, size=(3.2 * len(shown), 3.3))
    for ax, label in zip(panels[0], shown, strict=True):
        bins = results[label]["parts"][0]["reliability"]
        plots.reliability(bins["confidence"], bins["accuracy"], bins["num_rows"], ax=ax)
        dress(ax, title=label, xlim=(0.45, 1.03))
    return drawing
