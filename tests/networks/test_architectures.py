"""Architectures of transformers, built small: what ``docs/models.md`` says of them."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.layers import ConcreteDropout, dropout_blocks

from builders.rates import set_logit

os.environ["HF_HUB_OFFLINE"] = "1"
T = pytest.importorskip("transformers", minversion="5.0", reason="needs the package transformers, 5.0 or newer")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
WORDS = {"vocab_size": 20, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
PAIR = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "decoder_start_token_id": 1,
}  # fmt: skip
WINDOWS = {
    "image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [2], "num_heads": [2], "window_size": 4,
    "drop_path_rate": 0.0,
}  # fmt: skip


def words():
    return {"input_ids": torch.randint(3, 20, (3, 8))}


def both():
    return {**words(), "decoder_input_ids": torch.randint(3, 20, (3, 4))}


def ended():
    return {"input_ids": torch.tensor([[5, 6, 7, 2]] * 3)}


def images():
    return {"pixel_values": torch.randn(3, 3, 32, 32)}


def sounds():
    return {"input_features": torch.randn(3, 8, 32)}


def wave():
    return {"input_values": torch.randn(3, 200)}


# Class, configuration, inputs, and the number of sites.
MODELS = {
    "BERT": ("BertForSequenceClassification", {**WORDS, **SIZES}, words, 14),
    "RoBERTa": ("RobertaForSequenceClassification", {**WORDS, **SIZES}, words, 14),
    "ELECTRA": ("ElectraForSequenceClassification", {**WORDS, **SIZES, "embedding_size": 8}, words, 15),
    "DistilBERT": (
        "DistilBertForSequenceClassification",
        {**WORDS, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}, words, 14,
    ),
    "ModernBERT": (
        "ModernBertForSequenceClassification", {**WORDS, **SIZES, "cls_token_id": 1, "sep_token_id": 2}, words, 10,
    ),
    "ALBERT": ("AlbertForSequenceClassification", {**WORDS, **SIZES, "embedding_size": 8}, words, 9),
    "DeBERTa v2": (
        "DebertaV2ForSequenceClassification",
        {**WORDS, **SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, words, 18,
    ),
    "T5": (
        "T5ForConditionalGeneration",
        {"vocab_size": 20, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}, both, 33,
    ),
    "BART": ("BartForSequenceClassification", {**WORDS, **PAIR}, ended, 34),
    "GPT-2": ("GPT2ForSequenceClassification", {**WORDS, "n_embd": 16, "n_layer": 2, "n_head": 2}, words, 9),
    "Llama": ("LlamaForSequenceClassification", {**WORDS, **SIZES, "num_key_value_heads": 2}, words, 15),
    "Mixtral": (
        "MixtralForSequenceClassification",
        {**WORDS, **SIZES, "num_key_value_heads": 2, "num_local_experts": 2, "num_experts_per_tok": 1}, words, 9,
    ),
    "Bloom": ("BloomForSequenceClassification", {**WORDS, "hidden_size": 16, "n_layer": 2, "n_head": 2}, words, 9),
    "FNet": ("FNetForSequenceClassification", {**WORDS, **SIZES, "max_position_embeddings": 32}, words, 7),
    "DeiT": ("DeiTForImageClassification", {**SIZES, "image_size": 32, "patch_size": 8}, images, 14),
    "CLIP": (
        "CLIPForImageClassification",
        {"vision_config": {**SIZES, "image_size": 32, "patch_size": 8}, "text_config": {**WORDS, **SIZES}}, images, 14,
    ),
    "SegFormer": (
        "SegformerForSemanticSegmentation",
        {
            "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [8, 16],
            "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2],
            "decoder_hidden_size": 8,
        }, images, 21,
    ),
    "ResNet": (
        "ResNetForImageClassification", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}, images, 9,
    ),
    "RWKV": (
        "RwkvForCausalLM", {**WORDS, "hidden_size": 16, "num_hidden_layers": 2, "attention_hidden_size": 16}, words, 15,
    ),
    "Mamba 2": (
        "Mamba2ForCausalLM",
        {
            **WORDS, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "head_dim": 8, "num_heads": 4,
            "n_groups": 1, "chunk_size": 4,
        }, words, 7,
    ),
    "ViT": ("ViTForImageClassification", {**SIZES, "image_size": 32, "patch_size": 8}, images, 14),
    "Swin": ("SwinForImageClassification", WINDOWS, images, 14),
    "Swin v2": ("Swinv2ForImageClassification", WINDOWS, images, 18),
    "ConvNeXt": (
        "ConvNextForImageClassification", {"num_stages": 2, "hidden_sizes": [8, 16], "depths": [1, 1]}, images, 9,
    ),
    "Whisper": (
        "WhisperForAudioClassification", {**WORDS, **PAIR, "num_mel_bins": 8, "max_source_positions": 16}, sounds, 16,
    ),
    "Wav2Vec2": (
        "Wav2Vec2ForSequenceClassification",
        {
            **SIZES, "conv_dim": (8, 8), "conv_stride": (4, 2), "conv_kernel": (8, 3), "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0, "layerdrop": 0.0,
        }, wave, 17,
    ),
    "Mamba": ("MambaForCausalLM", {**WORDS, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4}, words, 9),
    "XLNet": (
        "XLNetForSequenceClassification", {**WORDS, "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32}, words, 6,
    ),
}  # fmt: skip
CONVOLUTIONS = {"backbone.layers.0.mixer.conv1d", "backbone.layers.1.mixer.conv1d"}
NEVER_CALLED = {"Mamba": CONVOLUTIONS, "Mamba 2": CONVOLUTIONS}
SEVERAL_TIMES = {"ALBERT"}
TIME_FIRST = {"XLNet": ["transformer.layer.*.ff.*"]}
WITHOUT_EXAMPLES = {"DeBERTa v2": "pos_", "Swin v2": "continuous_position_bias"}
"""Layers whose input belongs to no example."""


def build(name):
    cls, sizes, inputs, sites = MODELS[name]
    model_class = getattr(T, cls)
    torch.manual_seed(0)
    return model_class(model_class.config_class(**sizes)), inputs(), sites


def convert(model, **options):
    reports = []
    gd.learn_dropout(model, report=reports.append, **options)
    return reports[0]


def logits(result):
    return result.logits


def inputs_of_sites(model, inputs):
    """Run a model and list the shapes that each site saw, and in which dimension it counts examples."""
    sites = {
        name.replace(".concrete_dropout", ""): m for name, m in model.named_modules() if type(m) is ConcreteDropout
    }
    seen = {name: [] for name in sites}
    hooks = [
        site.register_forward_pre_hook(lambda site, args, name=name: seen[name].append(args[0].shape[site.batch_dim]))
        for name, site in sites.items()
    ]
    model(**inputs)
    for hook in hooks:
        hook.remove()
    return seen


def check_a_step(model, inputs):
    """Train for a step, after which every rate is another."""
    model.train()
    optimizer = torch.optim.AdamW(gd.parameter_groups(model), lr=1e-2)
    before = gd.dropout_rates(model)
    output = logits(model(**inputs)).reshape(3, -1)
    nll = gd.categorical_nll(torch.stack([output.mean(1), output.square().mean(1)], 1), torch.tensor([0, 1, 0]))
    loss = gd.negative_elbo(nll, model, num_data=1000, likelihood="categorical")
    loss.backward()
    optimizer.step()
    assert loss.total.isfinite()
    after = gd.dropout_rates(model)
    assert all(after[site] != before[site] for site in before)


@pytest.mark.parametrize("name", MODELS)
def test_what_the_page_says(name):
    model, inputs, sites = build(name)
    report = convert(model, time_first=TIME_FIRST.get(name, ()), plain_dropout="remove")
    assert name in PAGE
    assert len(report.converted) == sites
    with torch.no_grad():
        seen = inputs_of_sites(model.eval(), inputs)
    assert {site for site, rows in seen.items() if not rows} == NEVER_CALLED.get(name, set())
    assert any(len(rows) > 1 for rows in seen.values()) == (name in SEVERAL_TIMES)
    for site, rows in seen.items():
        inside_windows = "Swin" in name and ".blocks." in site
        if not (inside_windows or WITHOUT_EXAMPLES.get(name, "none of them") in site):
            assert set(rows) <= {3}, site
    check_a_step(model, inputs)
    first, second = gd.sample(model, inputs, num_samples=2, seed=0, output=logits)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("name", ["BERT", "DeBERTa v2", "T5", "BART", "GPT-2", "Swin", "Wav2Vec2"])
def test_removed_dropout_is_off(name):
    """With rates near 0 a training pass is then an eval pass, up to rounding."""
    model, inputs, _ = build(name)
    report = convert(model, plain_dropout="remove")
    assert bool(report.removed) == (name != "Swin")
    with torch.no_grad():
        for block in dropout_blocks(model):
            set_logit(block.site, -40.0)
        expected = logits(model.eval()(**inputs))
        torch.testing.assert_close(logits(model.train()(**inputs)), expected, rtol=1e-4, atol=1e-4)


RATES = ("dropout", "dropout_rate", "pdrop", "drop_path_rate")
"""What a configuration calls a rate, at the end of its name."""


@pytest.mark.parametrize("include", [["*"], []], ids=["all", "own"])
@pytest.mark.parametrize("name", ["BERT", "GPT-2", "Llama", "T5", "Whisper", "ViT", "ConvNeXt", "Swin"])
def test_all_dropout_is_learned_or_named(name, include):
    """With all rates of the configuration on; with rates near 0 a training pass is then an eval pass."""
    cls, sizes, inputs, _ = MODELS[name]
    config = getattr(T, cls).config_class(**sizes)
    for attribute in vars(config):
        if attribute.endswith((*RATES, "dropout_prob")) and getattr(config, attribute) is not None:
            setattr(config, attribute, 0.2)
    torch.manual_seed(0)
    model, x = getattr(T, cls)(config), inputs()
    keys = list(model.state_dict())
    report = convert(model, plain_dropout="learn", include=include)
    assert [key for key in model.state_dict() if "concrete_dropout" not in key] == keys
    assert not [why for why in report.left.values() if "acts as before" in why]
    assert report.in_place
    draws = gd.sample(model, x, num_samples=8, seed=0, output=logits)
    assert torch.equal(gd.sample(model, x, num_samples=8, seed=0, output=logits), draws)
    assert draws.std(0).any()
    check_a_step(model, x)
    with torch.no_grad():
        for block in dropout_blocks(model):
            set_logit(block.site, -40.0)
        expected = logits(model.eval()(**x))
        torch.testing.assert_close(logits(model.train()(**x)), expected, rtol=1e-4, atol=1e-4)


def test_peft_keeps_a_copy_and_adapters_start_from_the_dropout_in_front_of_them():
    peft = pytest.importorskip("peft", reason="needs the package peft")
    model, inputs, _ = build("BERT")
    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, lora_dropout=0.3, target_modules=["query"])
    model = peft.get_peft_model(model, config)
    report = convert(model)
    started = {name: p for name, p in gd.dropout_rates(model).items() if "lora_A" in name}
    assert len(started) == 2
    assert started == pytest.approx(dict.fromkeys(started, 0.3))
    head = "base_model.model.classifier"
    assert report.left[f"{head}.original_module"] == "peft keeps it beside the copy that it trains"
    assert f"{head}.modules_to_save.default" in report.converted
    with torch.no_grad():
        assert all(inputs_of_sites(model, inputs).values())
    assert not any(
        isinstance(m, nn.Linear) and name in report.left for name, m in model.named_modules() if "lora" in name
    )
