"""Adapters on a small frozen BERT, with each way to drop what they read."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification

import gumdrop as gd
from gumdrop.likelihoods import ClassificationPrediction
from gumdrop_experiments.data.texts import Vocabulary, read_sst, read_sst_phrases
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.lora import laplace
from gumdrop_experiments.scoring import class_scores
from gumdrop_experiments.training import seeded, take_step

START, LENGTH, SHORT = "[start]", 24, 5
RANK, BATCH, NUM_SAMPLES = 8, 32, 10
RATES, PRIORS = (0.1, 0.5), ("weak", "fan_in")
Rows = tuple[Tensor, Tensor]


class Way(NamedTuple):
    """A way to drop in front of adapters."""

    place: str
    """``"peft"``: as peft does; ``"inputs"`` or ``"ranks"`` of the adapters; ``"own"``: wherever there is dropout."""
    p: float = 0.1
    """The rate, or where it starts."""
    is_learned: bool = False
    prior: Any = None
    """Of the weights; None is plain maximum likelihood."""


WAYS = {
    "none": Way("peft", 0.0),
    "usual": Way("usual"),
    **{f"peft {p:g}": Way("peft", p) for p in RATES},
    **{f"ranks {p:g}": Way("ranks", p) for p in RATES},
    **{f"half {prior}": Way("inputs", 0.5, prior=prior) for prior in PRIORS},
    **{
        f"learned {place} {prior}": Way(place, is_learned=True, prior=prior)
        for place in ("inputs", "ranks", "own")
        for prior in PRIORS
    },
}


def read(folder: Path) -> tuple[dict[str, Rows], int]:
    """Numbers of words, behind a start whose state the head reads, and labels; and how many words there are."""
    phrases = read_sst_phrases(folder)
    short = [i for i, phrase in enumerate(phrases.words) if len(phrase) <= SHORT]
    parts = {part: read_sst(folder, part) for part in ("train", "dev", "test")}
    vocabulary = Vocabulary(([START, *sentence] for sentence in parts["train"].words), least=2)

    def encode(sentences: Sequence[Sequence[str]]) -> Tensor:
        return vocabulary.encode([[START, *sentence[: LENGTH - 1]] for sentence in sentences])

    rows = {part: (encode(each.words), each.labels) for part, each in parts.items()}
    rows["phrases"] = encode([phrases.words[i] for i in short]), phrases.labels[short]
    return rows, len(vocabulary)


def pretrained(rows: Rows, num_words: int, steps: int, seed: int) -> nn.Module:
    """Build the base, which knows phrases."""
    with seeded(seed):
        model = _bert(num_words, 0.0)
        _train(model, rows, steps, 1e-3, 2 * BATCH, seed, None)
    base: nn.Module = model.bert
    return base


def adapted(base: Plain, num_words: int, rows: Rows, way: Way, steps: int, seed: int) -> nn.Module:
    """Train adapters on a frozen base, which has these weights."""
    with seeded(seed):
        model: Any = _bert(num_words, 0.1 if way.place in ("own", "usual") else 0.0)
        model.bert.load_state_dict(base)
        plain = way.p if way.place in ("peft", "own", "usual") else 0.0
        model = get_peft_model(
            model,
            LoraConfig(
                task_type="SEQ_CLS",
                r=RANK,
                lora_alpha=2 * RANK,
                target_modules=["query", "value", "dense"],
                lora_dropout=plain,
            ),
        )
        if way.place in ("inputs", "ranks"):
            gd.learn_dropout(model, include=[f"*.lora_{'A' if way.place == 'inputs' else 'B'}.*"], p=way.p)
            if not way.is_learned:
                gd.fix_dropout(model)
        elif way.place == "own":
            gd.learn_dropout(model, include=[], plain_dropout="learn", report=lambda report: None)
        _train(model, rows, steps, 2e-3, BATCH, seed, way.prior)
    return model.eval()


def _bert(num_words: int, p: float) -> BertForSequenceClassification:
    config = BertConfig(
        vocab_size=num_words,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=p,
        attention_probs_dropout_prob=p,
    )  # of two classes, as it comes
    return BertForSequenceClassification(config)


def _inputs(tokens: Tensor) -> dict[str, Tensor]:
    return {"input_ids": tokens, "attention_mask": (tokens != Vocabulary.PADDING).long()}


def _batches(rows: Rows, steps: int, size: int, seed: int) -> Iterator[Rows]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        drawn = torch.randint(len(rows[0]), (size,), generator=generator)
        yield rows[0][drawn], rows[1][drawn]


def _train(model: nn.Module, rows: Rows, steps: int, lr: float, size: int, seed: int, prior: Any) -> None:
    """Minimise the negative ELBO, or the negative log likelihood where there is no prior."""
    groups: Any = model.parameters() if prior is None else gd.parameter_groups(model, rate_lr=lr)
    optimizer = torch.optim.AdamW(groups, lr=lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps, pct_start=0.1)
    model.train()
    for tokens, labels in _batches(rows, steps, size, seed):
        nll = gd.categorical_nll(model(**_inputs(tokens)).logits, labels)
        if prior is None:
            take_step(optimizer, nll.mean())
        else:
            take_step(optimizer, gd.negative_elbo(nll, model, num_data=len(rows[0]), lengthscale=prior).total)
        schedule.step()


def rates_of(model: nn.Module) -> Plain:
    """Read the rates of the sites, by their names without what all have in common."""
    rates = gd.dropout_rates(model).items()
    return {name.removeprefix("base_model.model.").replace(".default", ""): float(p) for name, p in rates}


@torch.no_grad()
def scored(model: nn.Module, rows: Rows, *, drawn: bool) -> Plain:
    """Score the average over drawn functions, or one pass without dropout."""
    tokens, labels = rows
    if not drawn:
        log_p = model(**_inputs(tokens)).logits.log_softmax(1)
        return class_scores(ClassificationPrediction.from_log_probabilities(log_p), labels)
    prediction = gd.predict_classification(
        model,
        _inputs(tokens),
        num_samples=NUM_SAMPLES,
        seed=0,
        batch_size=256,
        output=lambda result: result.logits,
    )
    return class_scores(prediction, labels)


def laplace_scored(model: nn.Module, train: Rows, parts: dict[str, Rows]) -> dict[str, Plain]:
    """Score Laplace's approximation at the precision that sentences for development choose, by part."""

    def odds(tokens: Tensor) -> tuple[Tensor, Tensor]:
        return laplace.log_odds(model, lambda: model(**_inputs(tokens)).logits)

    fitted, found = odds(train[0]), {part: odds(tokens) for part, (tokens, _) in parts.items()}
    tried = []
    for precision in laplace.PRECISIONS:
        scores: dict[str, Plain] = {}
        for part, (f, slopes) in found.items():
            log_p = laplace.log_probabilities(f, laplace.variances(fitted, slopes, precision))
            prediction = ClassificationPrediction.from_log_probabilities(log_p)
            scores[part] = {**class_scores(prediction, parts[part][1]), "precision": precision}
        tried.append(scores)
    return min(tried, key=lambda scores: scores["dev"]["nll"])
