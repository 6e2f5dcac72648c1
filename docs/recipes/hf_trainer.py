"""Learned dropout with the Trainer of Hugging Face: the KL goes into ``compute_loss``.

A small BERT built from its configuration, on made-up sentences: does a 1 occur before the first 2?
Run with ``python docs/recipes/hf_trainer.py``; needs transformers and accelerate.
"""

import tempfile
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import gumdrop as gd


class ConcreteDropoutTrainer(Trainer):
    """A Trainer that minimises the negative ELBO, and keeps weight decay away from the rates.

    Args:
        arguments: Those of the Trainer.
        options: The same.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # The loss here is a mean over its own rows, and not one over all rows of a step, whose number a model that
        # takes loss arguments would be given: so the Trainer is to divide it by the number of accumulated batches.
        self.model_accepts_loss_kwargs = False

    def compute_loss(self, model, inputs, return_outputs: bool = False, num_items_in_batch=None):
        """Negative ELBO in training, negative log likelihood in evaluation; in nats per example."""
        labels = inputs["labels"]
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels"})
        nll = gd.categorical_nll(outputs.logits, labels)
        loss = nll.mean()
        if model.training:
            loss = gd.negative_elbo(nll, model, num_data=len(self.train_dataset), likelihood="categorical").total
        return (loss, outputs) if return_outputs else loss

    def create_optimizer(self, model=None):
        """Put the rates into a group of their own, with a learning rate of their own."""
        if self.optimizer is None:
            groups = gd.parameter_groups(model or self.model, weight_decay=self.args.weight_decay)
            self.optimizer = torch.optim.AdamW(groups, lr=self.args.learning_rate)
        return self.optimizer


class Sentences(Dataset):
    """Random tokens, and whether a 1 occurs before the first 2."""

    def __init__(self, count: int, seed: int) -> None:
        self.tokens = torch.randint(1, 6, (count, 12), generator=torch.Generator().manual_seed(seed))
        first = [(self.tokens == token).float().cumsum(1).eq(0).sum(1) for token in (1, 2)]
        self.labels = (first[0] < first[1]).long()

    def __len__(self) -> int:
        """Count the sentences."""
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        """Give one sentence in the form of the Trainer."""
        return {"input_ids": self.tokens[index], "labels": self.labels[index]}


def model() -> BertForSequenceClassification:
    """Build a BERT of two small layers with learned dropout in front of its linear layers."""
    config = BertConfig(
        vocab_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return gd.learn_dropout(BertForSequenceClassification(config), p=0.05, plain_dropout="remove")


def main(max_steps: int = 300) -> dict[str, object]:
    """Train, predict with drawn functions, and read the rates."""
    torch.manual_seed(0)
    train, test = Sentences(2000, seed=0), Sentences(300, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=max_steps, per_device_train_batch_size=64, learning_rate=2e-3, weight_decay=0.01,
            logging_steps=50, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, seed=0,
        )  # fmt: skip
        trainer = ConcreteDropoutTrainer(model(), arguments, train_dataset=train, eval_dataset=test)
        trainer.train()
        evaluation = trainer.evaluate()
    prediction = gd.predict_classification(
        trainer.model, {"input_ids": test.tokens}, num_samples=30, seed=0, output=lambda result: result.logits
    )
    rates = gd.dropout_rates(trainer.model)
    return {
        "eval_loss": evaluation["eval_loss"],
        "accuracy": (prediction.label == test.labels).float().mean().item(),
        "nll": -prediction.log_prob(test.labels).mean().item(),
        "rates": {name: round(float(p), 4) for name, p in rates.items()},
    }


if __name__ == "__main__":
    print(main())
