"""Is a film review good or bad (SST-2): learned dropout in an LSTM against fixed rates.

The one published attempt at learned dropout here drew a new mask for every time step and left the regulariser out of
its loss; its own run was on three classes by mistake. Here one mask serves a whole sentence, in front of ``W_ih``, and
word types are dropped by a rate of their own.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure as Drawing
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from gumdrop import metrics
from gumdrop.machine.threads import limited_threads
from gumdrop.networks import fix_dropout, learn_dropout
from gumdrop.prediction import ClassificationPrediction, predict_classification
from gumdrop.training import fit
from gumdrop.views import plots
from gumdrop_experiments.data.texts import SST, SST_TREES, Sentences, Vocabulary, read_sst, read_sst_phrases
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.variants import NO_DROPOUT, START, part_name
from gumdrop_experiments.pages.axes import dress
from gumdrop_experiments.pages.numbers import mean_and_error
from gumdrop_experiments.pages.page import Figure, Page, Table

__all__ = ["SentenceReader", "sentiment"]

BATCH_SIZE, LR, MAX_NORM, LENGTHSCALE = 64, 1e-3, 5.0, 1.0
NUM_SAMPLES = 50
"""A rate so small that no unit is ever dropped."""

Result = dict[str, Any]


class SentenceReader(nn.Module):
    """An LSTM over words, and a class from its last state.

    Args:
        num_words: Size of the vocabulary.
        size: Width of the embedding.
        hidden: Width of the LSTM.
    """

    def __init__(self, num_words: int, *, size: int = 100, hidden: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_words, size, padding_idx=Vocabulary.PADDING)
        # Small, so that an untrained network says nothing; N(0, 1) would let it know sentences by their words at once.
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.lstm = nn.LSTM(size, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 2)

    def forward(self, words: Tensor) -> Tensor:
        """Give logits, shape (N, 2), for sentences as numbers, shape (N, T), 0 behind their ends."""
        lengths = (words != Vocabulary.PADDING).sum(1)
        embedded = self.embedding(words[:, : int(lengths.max())])
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (state, _) = self.lstm(packed)
        return self.head(state[-1])


@dataclass(frozen=True)
class _Arm:
    """One way to set the rates."""

    p: float
    learned: bool = False
    words: bool = False
    """Drop word types as well."""
    phrases: bool = False
    """Train on the phrases of the trees, too."""

    @property
    def label(self) -> str:
        """What the page calls it."""
        rate = "learned" if self.learned else "none" if self.p == NO_DROPOUT else f"fixed {self.p:g}"
        return rate + ", words too" * self.words + ", with phrases" * self.phrases


GRID = (0.1, 0.3, 0.5)
ARMS = (
    _Arm(NO_DROPOUT),
    *(_Arm(p) for p in GRID),
    _Arm(START, learned=True),
    *(_Arm(p, words=True) for p in GRID),
    _Arm(START, learned=True, words=True),
)
PHRASE_SEEDS = 3
WITH_PHRASES = (_Arm(0.3, words=True, phrases=True), _Arm(START, learned=True, words=True, phrases=True))


def sentiment(
    options: RunOptions = RunOptions(), *, seeds: int = 5, epochs: int = 10, phrase_epochs: int = 2, hidden: int = 256
) -> None:
    """Classify the sentences of SST-2 with an LSTM: learned rates against a grid of fixed ones.

    Args:
        options: The flags that all experiments share.
        seeds: Networks trained in each way; with phrases 3 at most.
        epochs: Passes over the sentences.
        phrase_epochs: Passes over sentences and phrases together, eleven times as many; 0 leaves that part out.
        hidden: Units of the LSTM.

    Raises:
        ValueError: If a number is below 1 (0 for ``phrase_epochs``).
    """
    if min(seeds, epochs, hidden) < 1 or phrase_epochs < 0:
        raise ValueError(
            f"`seeds`, `epochs` and `hidden` must be at least 1 and `phrase_epochs` at least 0, got {seeds}, {epochs}, "
            f"{hidden} and {phrase_epochs}"
        )
    if options.quick:
        seeds, epochs, phrase_epochs, hidden = min(seeds, 2), min(epochs, 2), 0, min(hidden, 64)
    files = [*(file.name for file in SST), *([SST_TREES] if phrase_epochs else [])]
    folder = data_folder(options, "sst", sources=SST, files=files)
    own = {"seeds": seeds, "epochs": epochs, "phrase_epochs": phrase_epochs, "hidden": hidden}
    with Run("sentiment", options, own) as run, limited_threads(1):
        data = _Data(folder, quick=options.quick)
        arms = (*ARMS, *(WITH_PHRASES if phrase_epochs else ()))
        seeds_of = {
            arm: range(options.seed, options.seed + (min(seeds, PHRASE_SEEDS) if arm.phrases else seeds))
            for arm in arms
        }
        done = run.parts(
            {
                part_name(arm.label, seed): functools.partial(
                    _train, run, data, arm, phrase_epochs if arm.phrases else epochs, hidden, seed
                )
                for arm in arms
                for seed in seeds_of[arm]
            }
        )
        results = {}
        for arm in arms:
            parts = [done[part_name(arm.label, seed)] for seed in seeds_of[arm]]
            results[arm.label] = {"summary": _summary(parts), "parts": parts}
        run.figure("sentiment-scores", _draw_scores(results))
        run.figure("sentiment-rates", _draw_rates(results))
        run.figure("sentiment-reliability", _draw_reliability(results))
        run.finish(results, _page(results))


class _Data:
    """Sentences as numbers; the vocabulary is that of the training sentences."""

    def __init__(self, folder: Path, *, quick: bool) -> None:
        parts = {name: read_sst(folder, name) for name in ("train", "dev", "test")}
        if quick:
            parts = {name: Sentences(part.words[:600], part.labels[:600]) for name, part in parts.items()}
        self._folder = folder
        self._vocabulary = Vocabulary(parts["train"].words)
        self.num_words = len(self._vocabulary)
        self.train, self.dev, self.test = (self._encoded(part) for part in parts.values())
        self._held_out = {" ".join(words) for words in parts["dev"].words + parts["test"].words}

    def _encoded(self, part: Sentences) -> tuple[Tensor, Tensor]:
        return self._vocabulary.encode(part.words), part.labels

    @functools.cached_property
    def phrases(self) -> tuple[Tensor, Tensor]:
        """Sentences and phrases of the training trees, less those that stand in the held-out parts."""
        words, labels = read_sst_phrases(self._folder)
        kept = [i for i, phrase in enumerate(words) if " ".join(phrase) not in self._held_out]
        return self._encoded(Sentences([words[i] for i in kept], labels[kept]))


def _train(run: Run, data: _Data, arm: _Arm, epochs: int, hidden: int, seed: int) -> Result:
    """Train one network, keep its best epoch by the held-out sentences, and score the test sentences."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = SentenceReader(data.num_words, hidden=hidden).to(run.options.device)
        learn_dropout(model, p=arm.p, embeddings=arm.words, report=lambda report: None)
        if not arm.learned:
            fix_dropout(model)
        result = fit(
            model,
            data.phrases if arm.phrases else data.train,
            likelihood="categorical",
            epochs=epochs,
            validation=data.dev,
            validation_samples=5,
            batch_size=BATCH_SIZE,
            lr=LR,
            max_norm=MAX_NORM,
            lengthscale=LENGTHSCALE,
            seed=seed,
            checkpoint=run.checkpoint(part_name(arm.label, seed)),
            progress=f"{arm.label}, seed {seed}",
        )
    words, labels = (part.to(run.options.device) for part in data.test)
    drawn = predict_classification(model, words, num_samples=NUM_SAMPLES, seed=seed, batch_size=512)
    with torch.inference_mode():
        log_p = torch.cat([torch.log_softmax(model(part), dim=1) for part in words.split(512)])
    plain = ClassificationPrediction(log_p, torch.special.entr(log_p.exp()).sum(1))
    bins = metrics.reliability(drawn, labels, num_bins=10)
    return {
        "draws": _scores(drawn, labels),
        "no_draws": _scores(plain, labels),
        "best_epoch": result.best_epoch,
        "validation_nll": [record.validation_nll for record in result.history],
        "rates": {name: [record.rates[name] for record in result.history] for name in result.history[0].rates},
        "reliability": {name: value.tolist() for name, value in bins._asdict().items()},
    }


def _scores(prediction: ClassificationPrediction, labels: Tensor) -> dict[str, float]:
    return {
        "accuracy": metrics.accuracy(prediction.label, labels).item(),
        "nll": -prediction.log_prob(labels).mean().item(),
        "ece": metrics.calibration_error(prediction, labels).item(),
    }


def _summary(parts: Sequence[Result]) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and standard error of each score over seeds."""
    return {
        how: {name: mean_and_error([part[how][name] for part in parts]) for name in SCORES}
        for how in ("draws", "no_draws")
    }


# Figures and page

SCORES = {"accuracy": "accuracy, %", "nll": "negative log likelihood, nats", "ece": "calibration error, %"}


def _draw_scores(results: Mapping[str, Any]) -> Drawing:
    """Each score of each way to set the rates, with draws and without."""
    drawing = Drawing(figsize=(9.5, 0.32 * len(results) + 1.2), layout="constrained")
    panels = drawing.subplots(1, 3, sharey=True)
    labels = list(results)[::-1]
    for ax, (score, title) in zip(panels, SCORES.items(), strict=True):
        scale = 1 if score == "nll" else 100
        for how, colour, shift in (("no_draws", plots.INK, -0.15), ("draws", plots.ORANGE, 0.15)):
            for i, label in enumerate(labels):
                mean, error = results[label]["summary"][how][score]
                name = {"draws": f"{NUM_SAMPLES} draws", "no_draws": "no draws"}[how] if i == 0 else None
                ax.errorbar(
                    scale * mean, i + shift, xerr=scale * error, fmt="o", color=colour, label=name, markersize=4
                )
        dress(ax, title=title)
    panels[0].set_yticks(range(len(labels)), labels, fontsize=9)
    drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return drawing


def _draw_rates(results: Mapping[str, Any]) -> Drawing:
    """The learned rates of every seed over training."""
    learned = {label: each for label, each in results.items() if label.startswith("learned")}
    drawing = Drawing(figsize=(3.4 * len(learned), 3.2), layout="constrained")
    panels = drawing.subplots(1, len(learned), sharey=True, squeeze=False)[0]
    names = {"embedding": "words", "lstm.ih_l0": "into the LSTM", "head": "into the classes"}
    for ax, (label, each) in zip(panels, learned.items(), strict=True):
        for part in each["parts"]:
            for (name, rates), colour in zip(part["rates"].items(), plots.PALETTE, strict=False):
                first = names[name] if part is each["parts"][0] else None
                colour = dict(zip(names, plots.PALETTE, strict=False))[name]
                ax.plot(range(len(rates) + 1), [START, *rates], color=colour, alpha=0.7, linewidth=1.3, label=first)
        dress(ax, title=label, x="epoch").set_ylim(0, None)
        ax.legend(fontsize=8, frameon=False)
    panels[0].set_ylabel("drop probability p")
    return drawing


def _draw_reliability(results: Mapping[str, Any]) -> Drawing:
    """Confidence against accuracy for the best fixed rate and the learned ones."""
    shown = [label for label in results if label.startswith("learned") or label == _best_fixed(results)]
    drawing = Drawing(figsize=(3.2 * len(shown), 3.3), layout="constrained")
    for ax, label in zip(drawing.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        bins = results[label]["parts"][0]["reliability"]
        plots.reliability(bins["confidence"], bins["accuracy"], bins["num_rows"], ax=ax)
        ax.set_title(label, fontsize=10, loc="left")
        ax.set_xlim(0.45, 1.03)
    return drawing


def _best_fixed(results: Mapping[str, Any]) -> str:
    """The fixed rate, of those without phrases, with the best likelihood."""
    fixed = [label for label in results if not label.startswith("learned") and "phrases" not in label]
    return min(fixed, key=lambda label: results[label]["summary"]["draws"]["nll"][0])


def _page(results: Mapping[str, Any]) -> Page:
    best = _best_fixed(results)
    learned = min(
        (label for label in results if label.startswith("learned") and "phrases" not in label),
        key=lambda label: results[label]["summary"]["draws"]["nll"][0],
    )
    ours, theirs = (results[label]["summary"]["draws"] for label in (learned, best))
    return Page(
        title="Sentiment of sentences (SST-2)",
        lead=(
            f"Learned rates ({learned}): accuracy {100 * ours['accuracy'][0]:.1f} %, {ours['nll'][0]:.3f} nats, "
            f"calibration error {100 * ours['ece'][0]:.1f} %. The best of the fixed ones by its test likelihood "
            f"({best}): {100 * theirs['accuracy'][0]:.1f} %, {theirs['nll'][0]:.3f} nats, "
            f"{100 * theirs['ece'][0]:.1f} %."
        ),
        body=[
            Figure("sentiment-scores", "Mean and standard error over seeds on the test sentences."),
            _table(results),
            Figure("sentiment-rates", "Learned rates of each seed over training, from their start."),
            Figure("sentiment-reliability", "First seed, test sentences: how sure it was, and how often it was right."),
        ],
        notes=[
            "Embedding 100, one LSTM of 256 units, a dense layer; Adam with one cycle, batches of 64, the best epoch "
            "by the likelihood of the 872 development sentences. Fixed rates stand at the same places, under the same "
            "prior and with the same masks: one for a sentence.",
            "Published: .849 for an LSTM with pre-trained vectors and phrase labels; 79 to 82 % is usual from "
            "sentences alone. The report on learned dropout in LSTMs had .536 on three classes by mistake.",
            "'Words too' drops word types in front of the embedding, as Gal & Ghahramani 2016 (arXiv:1512.05287) do.",
        ],
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
