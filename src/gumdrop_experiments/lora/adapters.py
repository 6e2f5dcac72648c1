"""Adapters on a small frozen BERT, with each way to drop what they read, and Laplace's approximation on them."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from torch.nn import functional as F

import gumdrop as gd
from gumdrop.likelihoods import ClassificationPrediction
from gumdrop_experiments.data.texts import Vocabulary, read_sst, read_sst_phrases
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.networks.transformers import small_bert
from gumdrop_experiments.shared import class_scores, seeded, take_step

PRECISIONS = tuple(10.0**k for k in range(-3, 4))
"""Precisions `d` of the prior to choose from."""
START, LENGTH, SHORT = "[start]", 24, 5
RANK, BATCH, NUM_SAMPLES = 8, 32, 10
RATES, PRIORS, WHERE = (0.1, 0.5), ("weak", "fan_in"), ("inputs", "ranks", "own")
Rows = tuple[Tensor, Tensor]
build = partial(small_bert, size=64, heads=2, longest=LENGTH)


def log_odds(model: nn.Module, logits: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """Give log-odds (N,) and their slopes (N, P) in all linear maps that are trained; a row must not see others."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear) and layer.weight.requires_grad]
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def watch(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        seen[layer] = inputs[0].detach(), output

    handles = [layer.register_forward_hook(watch) for layer in layers]
    f = logits().diff(dim=1).squeeze(1)
    for handle in handles:
        handle.remove()
    behind = torch.autograd.grad(f.sum(), [seen[layer][1] for layer in layers])
    slopes = [_slope(layer, seen[layer][0], g) for layer, g in zip(layers, behind, strict=True)]
    return f.detach(), torch.cat(slopes, 1)


def _slope(layer: nn.Linear, x: Tensor, behind: Tensor) -> Tensor:
    """Sum the outer products of what goes in and what comes back, over all positions of a row."""
    x = x if layer.bias is None else F.pad(x, (0, 1), value=1.0)
    rows = len(x)
    return (behind.reshape(rows, -1, behind.shape[-1]).mT @ x.reshape(rows, -1, x.shape[-1])).reshape(rows, -1)


def variances(train: tuple[Tensor, Tensor], slopes: Tensor, precision: float) -> Tensor:
    """Variance of the log-odds of some slopes, by Laplace's approximation, as in Laplace-LoRA (arXiv:2308.13111).

    Of two classes the log-odds `f` say all, so that the Gauss-Newton matrix is that of one output. With the slope
    `g_n = df_n / dw` of row n, all weights that are trained have the posterior precision

        d I + G' G,    row n of G = sqrt(q_n (1 - q_n)) g_n,    q_n = sigmoid(f_n)

    and linearised log-odds the variance `g' (d I + G' G)^-1 g`. There are fewer rows than weights, so it is computed
    from `d I + G G'`, without factors or a diagonal in its place.
    """
    f, g = train
    q = f.sigmoid()
    rows = (q * (1 - q)).sqrt().unsqueeze(1) * g
    factor = torch.linalg.cholesky(rows @ rows.T + precision * torch.eye(len(rows), dtype=rows.dtype))
    seen = torch.linalg.solve_triangular(factor, rows @ slopes.T, upper=False)
    return (slopes.square().sum(1) - seen.square().sum(0)).clamp_min(0) / precision


def log_probabilities(f: Tensor, variance: Tensor) -> Tensor:
    """Average of both classes over normal log-odds, by the probit approximation, shape (N, 2)."""
    scaled = f / (1 + math.pi * variance / 8).sqrt()
    return torch.stack([F.logsigmoid(-scaled), F.logsigmoid(scaled)], 1)


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
    **{f"learned {at} {prior}": Way(at, is_learned=True, prior=prior) for at in WHERE for prior in PRIORS},
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
        model = build(num_words)
        _train(model, rows, steps, 1e-3, 2 * BATCH, seed, None)
    base: nn.Module = model.bert
    return base


def adapted(base: Plain, num_words: int, rows: Rows, way: Way, steps: int, seed: int) -> nn.Module:
    """Train adapters on a frozen base, which has these weights."""
    with seeded(seed):
        model: Any = build(num_words, rate=0.1 if way.place in ("own", "usual") else 0.0)
        model.bert.load_state_dict(base)
        plain = way.p if way.place in ("peft", "own", "usual") else 0.0
        targets = ["query", "value", "dense"]
        lora = LoraConfig(task_type="SEQ_CLS", r=RANK, lora_alpha=2 * RANK, target_modules=targets, lora_dropout=plain)
        model = get_peft_model(model, lora)
        if way.place in ("inputs", "ranks"):
            gd.learn_dropout(model, include=[f"*.lora_{'A' if way.place == 'inputs' else 'B'}.*"], p=way.p)
            if not way.is_learned:
                gd.fix_dropout(model)
        elif way.place == "own":
            gd.learn_dropout(model, include=[], plain_dropout="learn", report=lambda report: None)
        _train(model, rows, steps, 2e-3, BATCH, seed, way.prior)
    return model.eval()


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
        elbo = None if prior is None else gd.negative_elbo(nll, model, num_data=len(rows[0]), lengthscale=prior)
        take_step(optimizer, nll.mean() if elbo is None else elbo.total, schedule)


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
        model, _inputs(tokens), num_samples=NUM_SAMPLES, seed=0, batch_size=256, output=lambda result: result.logits
    )
    return class_scores(prediction, labels)


def laplace_scored(model: nn.Module, train: Rows, parts: dict[str, Rows]) -> dict[str, Plain]:
    """Score Laplace's approximation at the precision that sentences for development choose, by part."""

    def odds(tokens: Tensor) -> tuple[Tensor, Tensor]:
        return log_odds(model, lambda: model(**_inputs(tokens)).logits)

    fitted, measured = odds(train[0]), {part: odds(tokens) for part, (tokens, _) in parts.items()}
    tried = []
    for precision in PRECISIONS:
        scores: dict[str, Plain] = {}
        for part, (f, slopes) in measured.items():
            log_p = log_probabilities(f, variances(fitted, slopes, precision))
            prediction = ClassificationPrediction.from_log_probabilities(log_p)
            scores[part] = {**class_scores(prediction, parts[part][1]), "precision": precision}
        tried.append(scores)
    return min(tried, key=lambda scores: scores["dev"]["nll"])
