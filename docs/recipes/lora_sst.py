"""Learned dropout on LoRA adapters: a rate for each adapter of a small language model, on sentiment (SST-2).

A BERT of two small layers is built from its configuration, learns the sentiment of phrases of at most five words, and
is frozen. Adapters on its linear layers, and a new head, learn that of whole sentences: of 500, and of all. They do so
without dropout, with the fixed rate that is customary, with one half, with one half and the prior on the weights that
learned rates have, and with learned rates. The prior is chosen on the sentences for development. Run with
``python docs/recipes/lora_sst.py DATA``, DATA being the folder that holds ``sst/``; needs transformers and peft. Writes
``docs/results/lora_sst.json`` and ``docs/results/lora_sst.png``.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import peft
import torch
import transformers
from matplotlib.figure import Figure
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification

import gumdrop as gd
from gumdrop import metrics
from gumdrop.likelihoods import ClassificationPrediction
from gumdrop.machine.environment import environment
from gumdrop.machine.files import replacing
from gumdrop_experiments.data.texts import Vocabulary, read_sst, read_sst_phrases
from gumdrop_experiments.pages.axes import dress

RESULTS = Path(__file__).parents[1] / "results" / "lora_sst.json"
START, LENGTH, SHORT = "[start]", 24, 5
FIXED = {"fixed 0.1": 0.1, "fixed 0.5": 0.5}
WITH_PRIOR = {"fixed 0.5, prior": 0.5, "learned": 0.1}
METHODS = ("no dropout", *FIXED, *WITH_PRIOR)
PRIORS: tuple[Any, ...] = ("weak", 1.0, "fan_in")
ADAPTERS = {
    "attention.self.query": "query", "attention.self.value": "value", "attention.output.dense": "attention output",
    "intermediate.dense": "feed-forward, in", "output.dense": "feed-forward, out", "pooler.dense": "pooler",
}  # fmt: skip
Rows = tuple[Tensor, Tensor]


def read(data: Path) -> tuple[dict[str, Rows], int]:
    """Numbers of words, behind a start whose state the head reads, and labels; and how many words there are."""
    phrases = read_sst_phrases(data / "sst")
    short = [i for i, phrase in enumerate(phrases.words) if len(phrase) <= SHORT]
    parts = {part: read_sst(data / "sst", part) for part in ("train", "dev", "test")}
    vocabulary = Vocabulary(([START, *sentence] for sentence in parts["train"].words), least=2)

    def encode(sentences: Sequence[Sequence[str]]) -> Tensor:
        return vocabulary.encode([[START, *sentence[: LENGTH - 1]] for sentence in sentences])

    rows = {part: (encode(each.words), each.labels) for part, each in parts.items()}
    rows["phrases"] = encode([phrases.words[i] for i in short]), phrases.labels[short]
    return rows, len(vocabulary)


def inputs(tokens: Tensor) -> dict[str, Tensor]:
    """Arguments of the model."""
    return {"input_ids": tokens, "attention_mask": (tokens != Vocabulary.PADDING).long()}


def bert(num_words: int) -> BertForSequenceClassification:
    """A small BERT without dropout of its own."""
    config = BertConfig(
        vocab_size=num_words, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
        max_position_embeddings=LENGTH, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2,
    )  # fmt: skip
    return BertForSequenceClassification(config)


def batches(rows: Rows, steps: int, size: int, seed: int) -> Iterator[Rows]:
    """Rows of each step."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        drawn = torch.randint(len(rows[0]), (size,), generator=generator)
        yield rows[0][drawn], rows[1][drawn]


def train(
    model: nn.Module,
    rows: Rows,
    steps: int,
    *,
    lr: float,
    size: int,
    seed: int,
    prior: Any = None,
    rate_lr: float = 0.0,
) -> None:
    """Minimise the negative ELBO, or the negative log likelihood where there is no prior."""
    groups: Any = model.parameters() if prior is None else gd.parameter_groups(model, rate_lr=rate_lr)
    optimizer = torch.optim.AdamW(groups, lr=lr, weight_decay=0.0)
    peaks = [group["lr"] for group in optimizer.param_groups]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peaks, total_steps=steps, pct_start=0.1)
    model.train()
    for tokens, labels in batches(rows, steps, size, seed):
        nll = gd.categorical_nll(model(**inputs(tokens)).logits, labels)
        total = nll.mean()
        if prior is not None:
            total = gd.negative_elbo(nll, model, num_data=len(rows[0]), lengthscale=prior).total
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        schedule.step()


def pretrained(rows: Rows, num_words: int, steps: int) -> nn.Module:
    """The base: it knows phrases."""
    torch.manual_seed(0)
    model = bert(num_words)
    train(model, rows, steps, lr=1e-3, size=64, seed=0)
    return model.bert


def adapted(base: nn.Module, rows: Rows, method: str, steps: int, seed: int, prior: Any = None) -> nn.Module:
    """The frozen base with trained adapters, whose inputs are dropped as the method says."""
    torch.manual_seed(seed)
    model = bert(base.config.vocab_size)
    model.bert.load_state_dict(base.state_dict())
    lora = LoraConfig(
        task_type="SEQ_CLS", r=8, lora_alpha=16, target_modules=["query", "value", "dense"],
        lora_dropout=FIXED.get(method, 0.0),
    )  # fmt: skip
    model = get_peft_model(model, lora)
    if method in WITH_PRIOR:
        gd.learn_dropout(model, include=["*.lora_A.*"], p=WITH_PRIOR[method])
    rate_lr = 2e-3 if method == "learned" else 0.0
    train(model, rows, steps, lr=2e-3, size=32, seed=seed, prior=prior, rate_lr=rate_lr)
    return model


@torch.no_grad()
def scores(model: nn.Module, rows: Rows, method: str) -> dict[str, float]:
    """Score the average over drawn functions, or one pass where there is nothing to draw."""
    tokens, labels = rows
    if method == "no dropout":
        log_p = model.eval()(**inputs(tokens)).logits.log_softmax(1)
        prediction = ClassificationPrediction.from_log_probabilities(log_p)
    else:
        options: dict[str, Any] = {"num_samples": 10, "seed": 0, "output": lambda result: result.logits}
        prediction = gd.predict_classification(model, inputs(tokens), batch_size=128, **options)
    return {
        "accuracy": metrics.accuracy(prediction.label, labels).item(),
        "nll": -prediction.log_prob(labels).mean().item(),
        "calibration error": metrics.calibration_error(prediction, labels).item(),
    }


def rates(model: nn.Module) -> dict[str, float]:
    """The rate of each adapter, by layer and place."""
    found = {}
    for name, p in gd.dropout_rates(model).items():
        place = next(words for part, words in ADAPTERS.items() if part in name)
        found[place if place == "pooler" else f"layer {int(name.split('layer.')[1][0]) + 1}, {place}"] = float(p)
    return found


def compare(base: nn.Module, data: dict[str, Rows], count: int, steps: int, seeds: int) -> dict[str, Any]:
    """Adapt to this many sentences in all ways; the prior of the learned rates is chosen with a seed of its own."""

    def some(seed: int) -> Rows:
        drawn = torch.randperm(len(data["train"][0]), generator=torch.Generator().manual_seed(seed))[:count]
        return data["train"][0][drawn], data["train"][1][drawn]

    tried = {}
    for prior in PRIORS:
        model = adapted(base, some(seeds), "learned", steps, seeds, prior)
        tried[str(prior)] = scores(model, data["dev"], "learned")
        print(count, "prior", prior, tried[str(prior)], flush=True)
    chosen = min(PRIORS, key=lambda prior: tried[str(prior)]["nll"])
    result: dict[str, Any] = {"sentences": count, "priors": tried, "prior": chosen, "rates": [], "scores": {}}
    for method in METHODS:
        result["scores"][method] = []
        for seed in range(seeds):
            model = adapted(base, some(seed), method, steps, seed, chosen if method in WITH_PRIOR else None)
            result["scores"][method].append(scores(model, data["test"], method))
            print(count, method, seed, result["scores"][method][-1], flush=True)
            if method == "learned":
                result["rates"].append(rates(model))
    return result


def run(
    data: Path, *, base_steps: int = 1000, steps: int = 400, seeds: int = 3, few: int = 500
) -> Iterator[dict[str, Any]]:
    """Compare all methods on few sentences, and on all of them."""
    rows, num_words = read(data)
    base = pretrained(rows["phrases"], num_words, base_steps)
    for count in (few, len(rows["train"][0])):
        yield compare(base, rows, count, steps, seeds)


def draw(results: list[dict[str, Any]]) -> Figure:
    """Rates of the adapters, and the scores of each seed."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, *others = figure.subplots(1, 4, width_ratios=[1.7, 1, 1, 1])
    names = list(results[0]["rates"][0])[::-1]
    for result, colour, shift in zip(results, ("#e0763a", "#3b8fd0"), (0.16, -0.16), strict=False):
        label = f"{result['sentences']:,} sentences"
        for found in result["rates"]:
            places = np.arange(len(names)) + shift
            left.plot([found[name] for name in names], places, "o", ms=4.5, alpha=0.7, color=colour, label=label)
            label = ""
        for ax, score in zip(others, ("accuracy", "nll", "calibration error"), strict=True):
            for place, method in enumerate(METHODS):
                values = [each[score] for each in result["scores"][method]]
                ax.plot(np.full(len(values), place + shift), values, "o", ms=4.5, alpha=0.7, color=colour)
    left.set_yticks(range(len(names)), names)
    left.set_xlim(0, 0.55)
    left.legend(frameon=False, fontsize=8.5)
    dress(left, title="Learned rate of each adapter", x="probability of dropping an input")
    for ax, title in zip(others, ("Accuracy", "NLL (nats)", "Calibration error"), strict=True):
        ax.set_xticks(range(len(METHODS)), METHODS, rotation=35, ha="right")
        ax.set_xlim(-0.5, len(METHODS) - 0.5)
        dress(ax, title=title)
    return figure


def main() -> None:
    """Run, and write results and figure."""
    torch.set_num_threads(1)
    versions = {"peft": peft.__version__, "transformers": transformers.__version__}
    facts = {"command": "python docs/recipes/lora_sst.py DATA", **environment(), **versions}
    results: list[dict[str, Any]] = []
    for result in run(Path(sys.argv[1])):  # a run that is stopped leaves what it has
        results.append(result)
        with replacing(RESULTS) as file:
            file.write(json.dumps({**facts, "results": results}, indent=1) + "\n")
        with replacing(RESULTS.with_suffix(".png"), "wb") as file:
            draw(results).savefig(file, format="png", dpi=130)


if __name__ == "__main__":
    main()
