"""Gradient checkpointing of known architectures: gradients of parts that are run again against those of one run.

Each is built small from a configuration of transformers, without pre-trained weights, with dropout of .1 wherever the
configuration has a place for it. Rates in front of all layers learn, and its own dropout learns, or is kept. Loss and
gradients of all parameters, rates included, are compared in double precision under one seed, with and without
checkpointing of either kind.

Run with ``make benchmark-checkpointing``; writes ``docs/results/checkpointing.json``. Needs transformers.
"""

import functools
import importlib
import math
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import gumdrop as gd
from gumdrop.machine.threads import limited_threads

from own_dropout import WORDS, Inputs, hugging_face, logits_of
from timing import write_results

SEED = 0
ROWS = 4
SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
PAIR = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "decoder_start_token_id": 1,
}  # fmt: skip
PICTURE = {"image_size": 32, "patch_size": 8}
WINDOWS = {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 2], "window_size": 4}
WAVE = {
    **SIZES, "conv_dim": (8, 8), "conv_stride": (4, 2), "conv_kernel": (8, 3), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0,
}  # fmt: skip


def words() -> Inputs:
    """Sentences."""
    return {"input_ids": torch.randint(3, 1000, (ROWS, 12))}


def pairs() -> Inputs:
    """Sentences, and what was written of others."""
    return {**words(), "decoder_input_ids": torch.randint(3, 1000, (ROWS, 6))}


def ended() -> Inputs:
    """Sentences with an end, where a class is read."""
    return {"input_ids": torch.cat([torch.randint(3, 1000, (ROWS, 11)), torch.full((ROWS, 1), 2)], 1)}


def pictures() -> Inputs:
    """Pictures."""
    return {"pixel_values": torch.randn(ROWS, 3, 32, 32)}


def sounds() -> Inputs:
    """Spectra, and what was written of others."""
    return {"input_features": torch.randn(ROWS, 16, 32), "decoder_input_ids": torch.randint(3, 1000, (ROWS, 6))}


def waves() -> Inputs:
    """Sounds."""
    return {"input_values": torch.randn(ROWS, 200)}


ARCHITECTURES: dict[str, tuple[str, dict[str, Any], Callable[[], Inputs]]] = {
    "ALBERT": ("AlbertForSequenceClassification", {**WORDS, **SIZES, "embedding_size": 16}, words),
    "BART": ("BartForSequenceClassification", {**WORDS, **PAIR}, ended),
    "BEiT": ("BeitForImageClassification", {**SIZES, **PICTURE}, pictures),
    "BERT": ("BertForSequenceClassification", {**WORDS, **SIZES}, words),
    "Bloom": ("BloomForSequenceClassification", {**WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4}, words),
    "CLIP": (
        "CLIPForImageClassification", {"vision_config": {**SIZES, **PICTURE}, "text_config": {**WORDS, **SIZES}},
        pictures,
    ),
    "DeBERTa v2": (
        "DebertaV2ForSequenceClassification",
        {**WORDS, **SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, words,
    ),
    "DeiT": ("DeiTForImageClassification", {**SIZES, **PICTURE}, pictures),
    "DINOv2": ("Dinov2ForImageClassification", {**SIZES, **PICTURE}, pictures),
    "DistilBERT": (
        "DistilBertForSequenceClassification", {**WORDS, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64},
        words,
    ),
    "ELECTRA": ("ElectraForSequenceClassification", {**WORDS, **SIZES, "embedding_size": 16}, words),
    "Gemma": ("GemmaForSequenceClassification", {**WORDS, **SIZES, "num_key_value_heads": 2, "head_dim": 8}, words),
    "GPT-2": ("GPT2ForSequenceClassification", {**WORDS, "n_embd": 32, "n_layer": 3, "n_head": 4}, words),
    "GPT-NeoX": ("GPTNeoXForSequenceClassification", {**WORDS, **SIZES}, words),
    "Llama": ("LlamaForSequenceClassification", {**WORDS, **SIZES}, words),
    "Mamba": ("MambaForCausalLM", {**WORDS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}, words),
    "Mixtral": (
        "MixtralForSequenceClassification",
        {
            **WORDS, **SIZES, "num_key_value_heads": 2, "num_local_experts": 2, "num_experts_per_tok": 1,
            "experts_implementation": "eager",
        }, words,
    ),
    "ModernBERT": (
        "ModernBertForSequenceClassification", {**WORDS, **SIZES, "cls_token_id": 1, "sep_token_id": 2}, words,
    ),
    "OPT": (
        "OPTForSequenceClassification",
        {
            **WORDS, "hidden_size": 32, "word_embed_proj_dim": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
            "ffn_dim": 64,
        }, words,
    ),
    "Phi": ("PhiForSequenceClassification", {**WORDS, **SIZES}, words),
    "Qwen2": ("Qwen2ForSequenceClassification", {**WORDS, **SIZES, "num_key_value_heads": 2}, words),
    "RoBERTa": ("RobertaForSequenceClassification", {**WORDS, **SIZES}, words),
    "SegFormer": (
        "SegformerForSemanticSegmentation",
        {
            "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [8, 16],
            "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2],
            "decoder_hidden_size": 8,
        }, pictures,
    ),
    "Swin": ("SwinForImageClassification", WINDOWS, pictures),
    "T5": (
        "T5ForConditionalGeneration",
        {"vocab_size": 1000, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}, pairs,
    ),
    "ViT": ("ViTForImageClassification", {**SIZES, **PICTURE}, pictures),
    "Wav2Vec2": ("Wav2Vec2ForSequenceClassification", WAVE, waves),
    "Whisper": (
        "WhisperForConditionalGeneration",
        {**WORDS, **PAIR, "num_mel_bins": 16, "max_source_positions": 16, "max_target_positions": 16}, sounds,
    ),
}  # fmt: skip


def checkpoint_parts(model: Any, *, reentrant: bool) -> None:
    """Run the layers of a model again in backward; each by hand where transformers does not offer it."""
    if model.supports_gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
        return
    for module in model.modules():
        if type(module).__name__.endswith("Layer"):
            forward = functools.partial(type(module).forward, module)
            module.forward = functools.partial(_again, forward, reentrant)


def _again(forward: Callable[..., Any], reentrant: bool, *args: Any, **kwargs: Any) -> Any:
    return checkpoint(functools.partial(forward, **kwargs), *args, use_reentrant=reentrant)


def gradients_of(model: nn.Module, inputs: Inputs) -> tuple[dict[str, Tensor], int]:
    """Loss of a step, gradients of all parameters that have one, and how many modules ran."""
    runs: list[nn.Module] = []
    hooks = [each.register_forward_pre_hook(lambda module, _: runs.append(module)) for each in model.modules()]
    torch.manual_seed(SEED)
    model.zero_grad()
    nll = gd.categorical_nll(logits_of(model(**inputs)), torch.arange(ROWS) % 2)
    loss = gd.negative_elbo(nll, model, num_data=10_000, likelihood="categorical")
    loss.backward()
    for hook in hooks:
        hook.remove()
    found = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
    return {"the loss": loss.detach(), **found}, len(runs)


def difference(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> float:
    """Give the largest difference of a tensor relative to its norm; infinite where another one has a gradient."""
    if found.keys() != expected.keys():
        return math.inf
    least = 1e-6 * max(float(each.norm()) for each in expected.values())  # some gradients are 0 to rounding
    return max(float((found[name] - each).norm()) / max(float(each.norm()), least) for name, each in expected.items())


def compared(name: str, way: Literal["learn", "keep"]) -> Mapping[str, Any]:
    """Convert an architecture, and compare its gradients."""
    cls, sizes, make_inputs = ARCHITECTURES[name]
    torch.manual_seed(SEED)
    model = hugging_face(cls, **sizes).double().train()  # so that rounding is small beside what is wrong
    inputs = {name: each.double() if each.is_floating_point() else each for name, each in make_inputs().items()}
    gd.learn_dropout(model, plain_dropout=way, report=lambda report: None)
    expected, runs = gradients_of(model, inputs)
    result: dict[str, Any] = {"rates": sum("scaled_logit" in each for each in expected)}
    for kind, reentrant in {"reentrant": True, "not_reentrant": False}.items():
        checkpoint_parts(model, reentrant=reentrant)
        try:
            found, more = gradients_of(model, inputs)
        except Exception as error:  # that of whatever code of the architecture
            result[kind] = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        else:
            result[kind] = {"difference": difference(found, expected), "modules_run_again": more - runs}
    return result


def main() -> None:
    """Compare all, and write the results file."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.filterwarnings("ignore")
    with limited_threads(1):
        results = {}
        for name in ARCHITECTURES:
            results[name] = {"learn": compared(name, "learn"), "keep": compared(name, "keep")}
            print(name, results[name], flush=True)
    write_results(
        "checkpointing", command="make benchmark-checkpointing", seed=SEED, results=results, rows=ROWS,
        transformers=importlib.import_module("transformers").__version__,
    )  # fmt: skip


if __name__ == "__main__":
    main()
