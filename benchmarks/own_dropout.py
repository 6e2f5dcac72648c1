"""Dropout of known architectures: where it learns its rate, and what a training step takes then.

Each is built small from a configuration, without pre-trained weights, with dropout of .1 wherever the configuration has
a place for it and stochastic depth up to .2. Steps of AdamW are timed in turns: of the plain model under its
cross-entropy, of the model with learned rates where its dropout is (``include=[]``), and of one with rates in front of
all layers, too.

Run with ``make benchmark-dropout``; writes ``docs/results/own_dropout.json``. Needs timm and transformers.
"""

import argparse
import copy
import importlib
import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gumdrop as gd
from gumdrop.layers import dropout_blocks
from gumdrop.layers.in_place import DropInPlace
from gumdrop.layers.watch import has_acted
from gumdrop.machine.threads import limited_threads

from timing import interleaved, summary, write_results

SEED = 0
ROWS = 16
DROP, PATH = 0.1, 0.2
WORDS = {"vocab_size": 1000, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 768}
PAIR = {
    "d_model": 192, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 768, "decoder_ffn_dim": 768, "decoder_start_token_id": 1,
}  # fmt: skip
RATES = ("dropout", "dropout_rate", "pdrop", "dropout_prob", "layerdrop")
"""What a configuration calls a rate, at the end of its name."""

Inputs = dict[str, Tensor]


def words() -> Inputs:
    """Sentences."""
    return {"input_ids": torch.randint(3, 1000, (ROWS, 64))}


def pairs() -> Inputs:
    """Sentences, and what was written of others."""
    return {**words(), "decoder_input_ids": torch.randint(3, 1000, (ROWS, 32))}


def pictures() -> Inputs:
    """Pictures."""
    return {"x": torch.randn(ROWS, 3, 64, 64)}


def sounds() -> Inputs:
    """Spectra, and what was written of others."""
    return {"input_features": torch.randn(ROWS, 16, 128), "decoder_input_ids": torch.randint(3, 1000, (ROWS, 32))}


def hugging_face(name: str, **sizes: Any) -> nn.Module:
    """Build a model of transformers with all its rates on."""
    cls = getattr(importlib.import_module("transformers"), name)
    config = cls.config_class(**sizes)
    for attribute in vars(config):
        if attribute.endswith(RATES) and isinstance(getattr(config, attribute), int | float):
            setattr(config, attribute, DROP)
    return cls(config)


def of_timm(name: str, **sizes: Any) -> nn.Module:
    """Build a model of timm."""
    module, cls = name.split(".")
    family = importlib.import_module(f"timm.models.{module}")
    return getattr(family, cls)(num_classes=10, drop_rate=DROP, drop_path_rate=PATH, **sizes)


VIT = {"img_size": 64, "patch_size": 8, "embed_dim": 192, "depth": 4, "num_heads": 4}
ARCHITECTURES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Inputs]]] = {
    "ViT (timm)": (
        lambda: of_timm(
            "vision_transformer.VisionTransformer", **VIT, pos_drop_rate=DROP, proj_drop_rate=DROP, attn_drop_rate=DROP
        ),
        pictures,
    ),
    "ViT (timm), paths alone": (lambda: of_timm("vision_transformer.VisionTransformer", **VIT), pictures),
    "ConvNeXt (timm)": (
        lambda: of_timm("convnext.ConvNeXt", depths=(1, 1, 3, 1), dims=(48, 96, 192, 384)),
        pictures,
    ),
    "BERT": (lambda: hugging_face("BertForSequenceClassification", **WORDS, **SIZES), words),
    "GPT-2": (lambda: hugging_face("GPT2ForSequenceClassification", **WORDS, n_embd=192, n_layer=4, n_head=4), words),
    "Llama": (lambda: hugging_face("LlamaForSequenceClassification", **WORDS, **SIZES), words),
    "T5": (
        lambda: hugging_face(
            "T5ForConditionalGeneration", vocab_size=1000, d_model=192, d_kv=48, d_ff=768, num_layers=2, num_heads=4
        ),
        pairs,
    ),
    "Whisper": (
        lambda: hugging_face(
            "WhisperForConditionalGeneration", **WORDS, **PAIR, num_mel_bins=16, max_source_positions=64,
            max_target_positions=64,
        ),
        sounds,
    ),
}  # fmt: skip


def known_operators() -> torch.library.Library:
    """Name two operators of torchvision, whose wheel is built for CUDA: beside a torch for CPUs timm needs no more."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def logits_of(result: Any) -> Tensor:
    """Two logits for each example, whatever the model gives."""
    output = result if isinstance(result, Tensor) else result.logits
    return output.reshape(len(output), -1, output.shape[-1]).mean(1)[:, :2]


def step_of(model: nn.Module, inputs: Inputs, labels: Tensor) -> Callable[[], None]:
    """Give a training step."""
    learned = any("scaled_logit" in name for name, _ in model.named_parameters())
    optimizer = torch.optim.AdamW(gd.parameter_groups(model) if learned else model.parameters(), lr=1e-4)

    def step() -> None:
        logits = logits_of(model(**inputs))
        if learned:
            nll = gd.categorical_nll(logits, labels)
            loss: Tensor = gd.negative_elbo(nll, model, num_data=10_000, likelihood="categorical")
        else:
            loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def kind_of(block: Any, number_of_heads: int) -> str:
    """Name what a site drops whole."""
    if not isinstance(block.site, DropInPlace):
        return "layers"
    return {1: "paths", number_of_heads: "heads"}.get(block.site.num_units, "units")


def found(name: str, rounds: int) -> Mapping[str, Any]:
    """Convert an architecture, and time its steps."""
    torch.manual_seed(SEED)
    make, inputs = ARCHITECTURES[name]
    plain, x, labels = make().train(), inputs(), torch.randint(2, (ROWS,))
    reports: list[Any] = []
    own = gd.learn_dropout(copy.deepcopy(plain), plain_dropout="learn", include=[], report=reports.append)
    everywhere = gd.learn_dropout(copy.deepcopy(plain), plain_dropout="learn", report=lambda report: None)
    arms = {"plain": plain, "own": own, "everywhere": everywhere}
    times = interleaved({arm: step_of(model, x, labels) for arm, model in arms.items()}, rounds=rounds)
    (report,) = reports
    left = [name for name, why in report.left.items() if "acts as before" in why]
    blocks = list(dropout_blocks(own))
    idle = [block.name for block in blocks if not has_acted(block.site)]
    return {
        "learned": Counter(kind_of(block, 4) for block in blocks),
        "named": left,
        "idle": idle,
        "steps": summary(times, "plain"),
    }


def main() -> None:
    """Measure all, and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    os.environ["HF_HUB_OFFLINE"] = "1"
    held = known_operators() if torch.version.cuda is None else None
    with limited_threads(1):
        results = {}
        for name in ARCHITECTURES:
            results[name] = found(name, rounds)
            print(
                name, results[name]["steps"]["own"]["ratio"], results[name]["steps"]["everywhere"]["ratio"], flush=True
            )
    timm, transformers = (importlib.import_module(package).__version__ for package in ("timm", "transformers"))
    write_results(
        "own_dropout", command="make benchmark-dropout", seed=SEED, results=results, rows=ROWS, timm=timm,
        transformers=transformers,
    )  # fmt: skip
    del held


if __name__ == "__main__":
    main()
