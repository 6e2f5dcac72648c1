"""An LSTM with no dropout, with a grid of fixed rates and with learned ones, for several seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from gumdrop import categorical_nll, fix_dropout, learn_dropout, metrics, predict_classification
from gumdrop.likelihoods import ClassificationPrediction
from gumdrop.networks import set_strength
from gumdrop.training import FitResult, fit
from gumdrop_experiments.data.texts import SST, SST_TREES, Sentences, Vocabulary, read_sst, read_sst_phrases
from gumdrop_experiments.harness import NO_DROPOUT, START, Plain, Run, data_folder, known, part_name, prior_of
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.sentiment import Settings
from gumdrop_experiments.shared import class_scores, plain_prediction, rates_over, seeded

SCORES = {"accuracy": "accuracy, %", "nll": "negative log likelihood, nats", "ece": "calibration error, %"}
BATCH_SIZE, LR, MAX_NORM, LENGTHSCALE = 64, 1e-3, 5.0, 1.0
NUM_SAMPLES, VALIDATION_SAMPLES = 50, 5
ROWS_AT_ONCE = 512
ACCURACIES = ("train_accuracy", "validation_accuracy")
"""Shares of right training sentences, under masks, and of right development sentences, over draws. The likelihood
counts them: only training asks for gradients."""
QUICK_SENTENCES = 2000
"""Sentences of each part that a quick run reads."""
GRID = (0.1, 0.3, 0.5)


class SentenceReader(nn.Module):
    """An LSTM over words, and a class from its last state."""

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
class _Variant:
    """One way to set the rates."""

    p: float
    learned: bool = False
    words: bool = False
    """Drop word types as well."""
    phrases: bool = False
    """Train on the phrases of the trees, too."""
    regularisers: tuple[float, float] | None = None
    """Factors of published code; those of the ELBO if None."""

    @property
    def label(self) -> str:
        """What the page calls it."""
        rate = "learned" if self.learned else "none" if self.p == NO_DROPOUT else f"fixed {self.p:g}"
        given = ", given factors" * (self.regularisers is not None)
        return rate + ", words too" * self.words + ", with phrases" * self.phrases + given


class _Data:
    """Sentences as numbers; the vocabulary is that of the training sentences."""

    def __init__(self, folder: Path, *, most: int | None) -> None:
        whole = {name: read_sst(folder, name) for name in ("train", "dev", "test")}
        parts = {name: Sentences(part.words[:most], part.labels[:most]) for name, part in whole.items()}
        self._folder = folder
        self._vocabulary = Vocabulary(parts["train"].words)
        self.num_words = len(self._vocabulary)
        self.train, self.dev, self.test = (self._encoded(part) for part in parts.values())
        self._held_out = {" ".join(words) for words in parts["dev"].words + parts["test"].words}

    def _encoded(self, part: Sentences) -> tuple[Tensor, Tensor]:
        return self._vocabulary.encode(part.words), part.labels

    @cached_property
    def phrases(self) -> tuple[Tensor, Tensor]:
        """Sentences and phrases of the training trees, less those that stand in the held-out parts."""
        words, labels = read_sst_phrases(self._folder)
        kept = [i for i, phrase in enumerate(words) if " ".join(phrase) not in self._held_out]
        return self._encoded(Sentences([words[i] for i in kept], labels[kept]))


LEARNED = _Variant(START, learned=True)
VARIANTS = (
    _Variant(NO_DROPOUT),
    *(_Variant(p) for p in GRID),
    LEARNED,
    *(_Variant(p, words=True) for p in GRID),
    _Variant(START, learned=True, words=True),
)
WITH_PHRASES = (_Variant(0.3, words=True, phrases=True), _Variant(START, learned=True, words=True, phrases=True))


def study(settings: Settings, run: Run) -> Plain:
    """Train and score every variant with every seed, and sum up each variant."""
    files = [*(file.name for file in SST), *([SST_TREES] if settings.phrase_epochs else [])]
    folder = data_folder(run.options, "sst", sources=SST, files=files)
    data = _Data(folder, most=QUICK_SENTENCES if run.options.quick else None)
    given = () if settings.regularisers is None else (replace(LEARNED, regularisers=settings.regularisers),)
    variants = (*VARIANTS, *given, *(WITH_PHRASES if settings.phrase_epochs else ()))
    if settings.ways:
        variants = _named(settings.ways, variants)
    fewer = min(settings.seeds, 3)
    seeds = {v: run.options.seeds(fewer if v.phrases else settings.seeds) for v in variants}
    train = partial(_train_and_score, run, data, settings)
    done = run.parts({(v.label, seed): partial(train, v, seed) for v in variants for seed in seeds[v]})
    parts = {v.label: [done[v.label, seed] for seed in seeds[v]] for v in variants}
    return {label: {"summary": summary(each), "parts": each} for label, each in parts.items()}


def _named(ways: Sequence[str], variants: Sequence[_Variant]) -> tuple[_Variant, ...]:
    """Take the variants that were asked for; the page compares learned rates with others."""
    names = known("way", ways, [variant.label for variant in variants])
    chosen = tuple(variant for variant in variants if variant.label in names)
    if len({variant.learned for variant in chosen}) < 2:
        raise ValueError(f"`ways` must have learned rates and others, got {', '.join(names)}")
    return chosen


def _train_and_score(run: Run, data: _Data, settings: Settings, variant: _Variant, seed: int) -> Plain:
    with seeded(seed):
        model = SentenceReader(data.num_words, hidden=settings.hidden).to(run.options.device)
        learn_dropout(model, p=variant.p, embeddings=variant.words, report=lambda report: None)
        if not variant.learned:
            fix_dropout(model)
        result = _train(run, data, settings, variant, seed, model)
    words, labels = (part.to(run.options.device) for part in data.test)
    drawn = predict_classification(model, words, num_samples=NUM_SAMPLES, seed=seed, batch_size=ROWS_AT_ONCE)
    plain = plain_prediction(model, words, batch_size=ROWS_AT_ONCE)
    bins = metrics.reliability(drawn, labels, num_bins=10)
    return {
        "draws": _scores(drawn, labels),
        "no_draws": _scores(plain, labels),
        "best_epoch": result.best_epoch,
        "train_nll": [record.nll for record in result.history],
        "validation_nll": [record.validation_nll for record in result.history],
        **{name: [(record.measured or {})[name] for record in result.history] for name in ACCURACIES},
        "rates": rates_over(result),
        "reliability": {name: value.tolist() for name, value in bins._asdict().items()},
    }


def _train(run: Run, data: _Data, settings: Settings, variant: _Variant, seed: int, model: SentenceReader) -> FitResult:
    """Train a network, and measure how often drawn functions were right in each epoch."""
    train = data.phrases if variant.phrases else data.train
    epochs = settings.phrase_epochs if variant.phrases else settings.epochs
    lengthscale = LENGTHSCALE
    if variant.regularisers is not None:
        lengthscale, strength = prior_of(variant.regularisers, num_data=len(train[1]))
        set_strength(model, strength)
    right: dict[str, list[Tensor]] = {name: [] for name in ACCURACIES}

    def nll_of(logits: Tensor, target: Tensor) -> Tensor:
        right[ACCURACIES[0 if logits.requires_grad else 1]].append(logits.argmax(1) == target)
        return categorical_nll(logits, target)

    def measure(model: nn.Module, epoch: int) -> dict[str, float]:
        shares = {name: torch.cat(batches).double().mean().item() for name, batches in right.items()}
        for batches in right.values():
            batches.clear()
        return shares

    return fit(
        model,
        train,
        likelihood=nll_of,
        epochs=epochs,
        validation=data.dev,
        validation_samples=VALIDATION_SAMPLES,
        batch_size=BATCH_SIZE,
        lr=settings.lr or LR,
        max_norm=MAX_NORM,
        lengthscale=lengthscale,
        seed=seed,
        checkpoint=run.checkpoint(part_name(variant.label, seed)),
        progress=f"{variant.label}, seed {seed}",
        measure=measure,
    )


def _scores(prediction: ClassificationPrediction, labels: Tensor) -> dict[str, float]:
    scores = class_scores(prediction, labels)
    return {name: scores[name] for name in SCORES}


def summary(parts: Sequence[Plain]) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and standard error of each score over seeds, with draws and without."""
    return {
        how: {name: mean_and_error([part[how][name] for part in parts]) for name in SCORES}
        for how in ("draws", "no_draws")
    }


def best_of(results: Plain, *, learned: bool) -> str:
    """The best of the learned rates, or of the fixed ones, of those without phrases."""
    labels = [label for label in results if label.startswith("learned") == learned and "phrases" not in label]
    return min(labels, key=lambda label: results[label]["summary"]["draws"]["nll"][0])
