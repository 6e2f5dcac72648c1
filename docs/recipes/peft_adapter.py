"""Learned rates that come back with a LoRA adapter: `save_pretrained` and `PeftModel.from_pretrained` of peft.

Sites on adapters and on the trained head are saved with them. To load, peft needs a model that has the sites: so it is
converted like the first one, and the adapter is read once more. A small BERT built from its configuration, on random
tokens. Run with ``python docs/recipes/peft_adapter.py``; needs transformers and peft.
"""

import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

import gumdrop as gd


def base() -> BertForSequenceClassification:
    """Build what is not saved with the adapter."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
    )  # fmt: skip
    return BertForSequenceClassification(config)


def convert(model: PeftModel) -> PeftModel:
    """Give a rate to each adapter, and one to the head; after peft, which freezes all that is there before it."""
    include = ["*.lora_A.*", "*.classifier.modules_to_save.*"]
    return gd.learn_dropout(model, include=include, plain_dropout="remove", report=lambda report: None)


def load(folder: str) -> PeftModel:
    """Open a saved adapter with its rates."""
    model = convert(PeftModel.from_pretrained(base(), folder))
    model.load_adapter(folder, "default")  # now that the sites are there
    return model


def train(model: nn.Module, steps: int) -> None:
    """Fit labels that the first token decides."""
    optimizer = torch.optim.AdamW(gd.parameter_groups(model), lr=2e-3)
    tokens = torch.randint(8, (200, 12))
    model.train()
    for _ in range(steps):
        rows = torch.randperm(len(tokens))[:50]
        nll = gd.categorical_nll(model(input_ids=tokens[rows]).logits, (tokens[rows, 0] > 3).long())
        loss = gd.negative_elbo(nll, model, num_data=len(tokens), likelihood="categorical")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(steps: int = 30) -> dict[str, object]:
    """Train adapters, save them, and open them again."""
    lora = LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["query", "value", "dense"])
    model = convert(get_peft_model(base(), lora))
    start = gd.dropout_rates(model)
    train(model, steps)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(
            folder, state_dict=model.state_dict()
        )  # given, peft does not warn of tensors of one number
        again = load(folder)
    tokens = {"input_ids": torch.randint(8, (5, 12))}
    draws = [gd.sample(each, tokens, num_samples=4, seed=0, output=lambda out: out.logits) for each in (model, again)]
    return {
        "start": start,
        "learned": gd.dropout_rates(model),
        "loaded": gd.dropout_rates(again),
        "difference of draws": (draws[0] - draws[1]).abs().max().item(),
    }


if __name__ == "__main__":
    print(main())
