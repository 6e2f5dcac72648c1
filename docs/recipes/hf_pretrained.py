"""Learned rates that `save_pretrained` and `from_pretrained` of Hugging Face keep: a class that converts itself.

Its ``from_pretrained`` opens a plain checkpoint, where all rates start, and its own, with the rates that were learned.
A small BERT built from its configuration, on random tokens. Run with ``python docs/recipes/hf_pretrained.py``; needs
transformers.
"""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification

import gumdrop as gd


class ConcreteDropoutClassifier(BertForSequenceClassification):
    """A classifier with learned dropout and no other."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        gd.learn_dropout(self, p=0.05, plain_dropout="remove")  # last


def train(model: ConcreteDropoutClassifier, steps: int) -> None:
    """Fit labels that the first token decides."""
    optimizer = torch.optim.AdamW(gd.parameter_groups(model), lr=2e-3)
    tokens = torch.randint(8, (200, 12))
    model.train()
    for _ in range(steps):
        rows = torch.randperm(len(tokens))[:50]
        nll = gd.categorical_nll(model(tokens[rows]).logits, (tokens[rows, 0] > 3).long())
        loss = gd.negative_elbo(nll, model, num_data=len(tokens), likelihood="categorical")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(steps: int = 30) -> dict[str, object]:
    """Open a plain checkpoint, train, save, and open what was saved."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as learned:
        BertForSequenceClassification(config).save_pretrained(plain)
        model = ConcreteDropoutClassifier.from_pretrained(plain)  # its report of missing keys names the rates
        start = gd.dropout_rates(model)
        train(model, steps)
        model.save_pretrained(learned)
        again = ConcreteDropoutClassifier.from_pretrained(learned)
    tokens = torch.randint(8, (5, 12))
    draws = [gd.sample(each, tokens, num_samples=4, seed=0, output=lambda out: out.logits) for each in (model, again)]
    return {
        "start": start,
        "learned": gd.dropout_rates(model),
        "loaded": gd.dropout_rates(again),
        "difference of draws": (draws[0] - draws[1]).abs().max().item(),
    }


if __name__ == "__main__":
    print(main())
