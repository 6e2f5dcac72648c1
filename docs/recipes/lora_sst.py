"""Learned dropout on LoRA adapters: a rate for each adapter of a small language model, on sentiment (SST-2).

A BERT of two small layers is built from its configuration and trained to fill in masked words of the training
sentences, then frozen. Adapters on its linear layers and a new head learn the sentiment, three times: without dropout,
with the customary fixed rate, and with learned rates. Run with
``python docs/recipes/lora_sst.py DATA``, DATA being the folder that holds ``sst/stsa.binary.train``; needs transformers
and peft. Writes ``docs/results/lora.json``.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import peft
import torch
import transformers
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

import gumdrop as gd
from gumdrop import metrics
from gumdrop.atomic import replacing
from gumdrop.environment import environment

RESULTS = Path(__file__).parents[1] / "results" / "lora.json"
PAD, MASK, UNKNOWN, START = 0, 1, 2, 3
WORDS, LENGTH, BATCH = 5000, 32, 32
FIXED = 0.1
METHODS = ("no dropout", "fixed", "learned")


def read(folder: Path, part: str) -> tuple[list[list[str]], Tensor]:
    """Words and labels of a part."""
    lines = (folder / f"stsa.binary.{part}").read_text(encoding="utf-8").splitlines()
    return [line[2:].split() for line in lines], torch.tensor([int(line[0]) for line in lines])


def encode(sentences: list[list[str]], words: dict[str, int]) -> Tensor:
    """Numbers of words, cut or filled to one length, behind a start whose state the head reads."""
    rows = [[START, *(words.get(word, UNKNOWN) for word in sentence[: LENGTH - 1])] for sentence in sentences]
    return torch.tensor([row + [PAD] * (LENGTH - len(row)) for row in rows])


def inputs(tokens: Tensor) -> dict[str, Tensor]:
    """Arguments of the model."""
    return {"input_ids": tokens, "attention_mask": (tokens != PAD).long()}


def batches(count: int, steps: int, seed: int) -> Iterator[Tensor]:
    """Rows of each step."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield torch.randint(count, (BATCH,), generator=generator)


def config() -> BertConfig:
    """A small BERT without dropout of its own."""
    return BertConfig(
        vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
        max_position_embeddings=LENGTH, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2,
    )  # fmt: skip


def pretrained(tokens: Tensor, steps: int) -> dict[str, Tensor]:
    """Weights of a model that fills in 15 % of the words."""
    torch.manual_seed(0)
    model = BertForMaskedLM(config())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.01)
    for rows in batches(len(tokens), steps, seed=0):
        words = tokens[rows]
        hidden = (torch.rand(words.shape) < 0.15) & (words > MASK) & (words != START)
        states = model.bert(**inputs(words.masked_fill(hidden, MASK))).last_hidden_state
        loss = F.cross_entropy(model.cls(states[hidden]), words[hidden])  # the head on hidden words alone
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {name: value for name, value in model.state_dict().items() if name.startswith("bert.")}


def adapted(base: dict[str, Tensor], method: str, seed: int) -> nn.Module:
    """The frozen model with adapters, whose inputs are dropped as the method says."""
    torch.manual_seed(seed)
    model = BertForSequenceClassification(config())
    model.load_state_dict(base, strict=False)
    lora = LoraConfig(
        task_type="SEQ_CLS", r=8, lora_alpha=16, target_modules=["query", "value", "dense"],
        lora_dropout=FIXED if method == "fixed" else 0.0,
    )  # fmt: skip
    model = get_peft_model(model, lora)
    if method == "learned":
        gd.learn_dropout(model, include=["*.lora_A.*"], p=FIXED)
    return model


def train(model: nn.Module, tokens: Tensor, labels: Tensor, steps: int, seed: int) -> None:
    """Minimise the negative ELBO, or the negative log likelihood where nothing is learned about dropout."""
    learned = any(name.endswith("p_logit") for name, _ in model.named_parameters())
    groups: Any = [p for p in model.parameters() if p.requires_grad]
    if learned:
        groups = gd.parameter_groups(model, rate_lr=2e-2)
        groups[0]["params"] = [p for p in groups[0]["params"] if p.requires_grad]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    model.train()
    for rows in batches(len(tokens), steps, seed):
        nll = gd.categorical_nll(model(**inputs(tokens[rows])).logits, labels[rows])
        loss = gd.negative_elbo(nll, model, num_data=len(tokens), lengthscale="weak").total if learned else nll.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


@torch.no_grad()
def predict(model: nn.Module, tokens: Tensor, method: str) -> gd.prediction.ClassificationPrediction:
    """Average over drawn functions, or run once where there is nothing to draw."""
    if method != "no dropout":
        options: dict[str, Any] = {"num_samples": 20, "seed": 0, "output": lambda result: result.logits}
        return gd.predict_classification(model, inputs(tokens), **options)
    log_p = model.eval()(**inputs(tokens)).logits.log_softmax(1)
    return gd.prediction.ClassificationPrediction(log_p, torch.special.entr(log_p.exp()).sum(1))


def run(data: Path, *, pretrain_steps: int = 600, steps: int = 800, seeds: int = 1, rows: int | None = None) -> Any:
    """Train all methods on all seeds, and score them on the test sentences."""
    sentences, labels = read(data / "sst", "train")
    test_sentences, test_labels = read(data / "sst", "test")
    common = Counter(word for sentence in sentences for word in sentence).most_common(WORDS - 4)
    words = {word: number for number, (word, _) in enumerate(common, start=4)}
    tokens, test = encode(sentences, words)[:rows], encode(test_sentences, words)[:rows]
    labels, test_labels = labels[:rows], test_labels[:rows]
    base = pretrained(tokens, pretrain_steps)
    scores: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
    rates: list[dict[str, float]] = []
    for seed in range(seeds):
        for method in METHODS:
            model = adapted(base, method, seed)
            train(model, tokens, labels, steps, seed)
            prediction = predict(model, test, method)
            scores[method].append(
                {
                    "accuracy": metrics.accuracy(prediction.label, test_labels).item(),
                    "nll": -prediction.log_prob(test_labels).mean().item(),
                    "calibration error": metrics.calibration_error(prediction, test_labels).item(),
                }
            )
            print(seed, method, scores[method][-1], flush=True)
            if method == "learned":
                named = gd.dropout_rates(model).items()
                rates.append({name.removeprefix("base_model.model.bert.encoder."): float(p) for name, p in named})
    return {"scores": scores, "rates": {name: float(np.mean([r[name] for r in rates])) for name in rates[0]}}


def main() -> None:
    """Run on the whole of SST-2 and write the results."""
    torch.set_num_threads(1)
    results = run(Path(sys.argv[1]))
    versions = {"peft": peft.__version__, "transformers": transformers.__version__}
    facts = {"command": "python docs/recipes/lora_sst.py DATA", **environment(), **versions, "fixed rate": FIXED}
    with replacing(RESULTS) as file:
        file.write(json.dumps({**facts, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
