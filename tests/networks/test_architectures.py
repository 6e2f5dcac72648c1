"""Architectures of transformers, built small: what ``docs/models.md`` says of them, and what their files hold."""

import copy
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
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
        }, words, 5,
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
    "Mamba": ("MambaForCausalLM", {**WORDS, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4}, words, 7),
    "XLNet": (
        "XLNetForSequenceClassification", {**WORDS, "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32}, words, 6,
    ),
}  # fmt: skip
SEVERAL_TIMES = {"ALBERT"}
TIME_FIRST = {"XLNet": ["transformer.layer.*.ff.*"]}
WITHOUT_EXAMPLES = {"DeBERTa v2": "pos_", "Swin v2": "continuous_position_bias"}
"""Layers whose input belongs to no example."""
RATES = ("dropout", "dropout_rate", "dropout_prob", "pdrop", "drop_path_rate")
"""What a configuration calls a rate, at the end of its name."""


def build(name, *, rate=None):
    """Make a model with random weights, with all rates of its configuration at one value."""
    cls, sizes, inputs, sites = MODELS[name]
    model_class = getattr(T, cls)
    config = model_class.config_class(**sizes)
    for attribute in vars(config):
        if rate is not None and attribute.endswith(RATES) and getattr(config, attribute) is not None:
            setattr(config, attribute, rate)
    torch.manual_seed(0)
    return model_class(config), inputs(), sites


def convert(model, **options):
    reports = []
    gd.learn_dropout(model, report=reports.append, **options)
    return reports[0]


def logits(result):
    return result.logits


def sample(model, inputs, num_samples=2, **options):
    return gd.sample(model, inputs, num_samples=num_samples, seed=0, output=logits, **options)


@torch.no_grad()
def assert_nothing_drops_near_rate_0(model, inputs):
    """With rates near 0 a training pass is an eval pass, up to rounding."""
    for block in dropout_blocks(model):
        set_logit(block.site, -40.0)
    expected = logits(model.eval()(**inputs))
    torch.testing.assert_close(logits(model.train()(**inputs)), expected, rtol=1e-4, atol=1e-4)


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
    keys = list(model.state_dict())
    with torch.no_grad():
        expected = logits(model.eval()(**inputs))
    report = convert(model, time_first=TIME_FIRST.get(name, ()), plain_dropout="remove")
    assert name in PAGE
    assert len(report.converted) == sites
    assert [key for key in model.state_dict() if "concrete_dropout" not in key] == keys
    with torch.no_grad():
        torch.testing.assert_close(logits(model(**inputs)), expected)
        seen = inputs_of_sites(model, inputs)
    assert all(seen.values())
    assert any(len(rows) > 1 for rows in seen.values()) == (name in SEVERAL_TIMES)
    for site, rows in seen.items():
        inside_windows = "Swin" in name and ".blocks." in site
        if not (inside_windows or WITHOUT_EXAMPLES.get(name, "none of them") in site):
            assert set(rows) <= {3}, site
    check_a_step(model, inputs)
    draws = sample(model, inputs)
    assert not torch.equal(*draws)
    if set(inputs) == {"input_ids"}:
        torch.testing.assert_close(sample(model, inputs, batch_size=2), draws)


@pytest.mark.parametrize(
    ("name", "names"),
    [("Mamba", ["mixer.conv1d", "mixer.dt_proj"]), ("Mamba 2", ["mixer.conv1d"]), ("DeBERTa v2", ["rel_embeddings"])],
)
def test_weights_that_are_used_without_a_call_are_named(name, names):
    report = convert(build(name)[0], embeddings=True)
    left = {name for name, why in report.left.items() if "uses its weight without calling it" in why}
    assert {name.split("layers.1.")[-1].removeprefix("deberta.encoder.") for name in left if ".0." not in name} == {
        *names
    }


@pytest.mark.parametrize("name", ["ALBERT", "XLNet"])
def test_dropout_that_no_code_uses_is_named(name):
    model, inputs, _ = build(name, rate=0.2)
    report = convert(model, plain_dropout="learn")
    assert [why for why in report.left.values() if "does not use it" in why]
    model.train()(**inputs)
    assert all(block.site.use.called for block in dropout_blocks(model))


@pytest.mark.parametrize("name", ["BERT", "DeBERTa v2", "T5", "GPT-2", "Swin"])
def test_removed_dropout_is_off(name):
    model, inputs, _ = build(name)
    report = convert(model, plain_dropout="remove")
    assert bool(report.removed) == (name != "Swin")
    assert_nothing_drops_near_rate_0(model, inputs)


@pytest.mark.parametrize("include", [["*"], []], ids=["all", "own"])
@pytest.mark.parametrize("name", ["BERT", "GPT-2", "T5", "Whisper", "Swin"])
def test_all_dropout_is_learned_or_named(name, include):
    model, x, _ = build(name, rate=0.2)
    keys = list(model.state_dict())
    report = convert(model, plain_dropout="learn", include=include)
    assert [key for key in model.state_dict() if "concrete_dropout" not in key] == keys
    assert not [why for why in report.left.values() if "acts as before" in why]
    assert report.in_place
    draws = sample(model, x, 8)
    assert torch.equal(sample(model, x, 8), draws)
    assert draws.std(0).any()
    check_a_step(model, x)
    assert_nothing_drops_near_rate_0(model, x)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("name", ["BART", "GPT-2", "ViT"])
def test_gradients_with_checkpointing(name, reentrant):
    model, inputs, _ = build(name, rate=0.2)
    convert(model.double().train(), plain_dropout="learn")
    inputs = {each: x.double() if x.is_floating_point() else x for each, x in inputs.items()}
    gradients = []
    for is_on in (False, True):
        if is_on:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
        torch.manual_seed(0)
        model.zero_grad()
        logits(model(**inputs)).square().sum().backward()
        gradients.append({key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None})
    torch.testing.assert_close(*gradients)


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


# Files


def move_rates(model):
    for block in dropout_blocks(model):
        set_logit(block.site, block.site.p_logit.detach() + torch.rand(()))
    return model


def assert_same_draws(inputs, model, other):
    assert gd.dropout_rates(other) == gd.dropout_rates(model)
    assert torch.equal(*(sample(each, inputs) for each in (model, other)))


@pytest.mark.parametrize("name", ["BERT", "T5", "ResNet"])
def test_files_of_a_converted_model_open_as_those_of_the_model_it_was(name, tmp_path):
    model, inputs, _ = build(name, rate=0.0)
    convert(model)
    move_rates(model).save_pretrained(tmp_path)
    plain = type(model).from_pretrained(tmp_path, local_files_only=True)
    torch.testing.assert_close(logits(plain.eval()(**inputs)), logits(model.eval()(**inputs)))
    convert(plain)
    missing, unexpected = plain.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=False)
    assert set(missing) <= set(getattr(model, "_tied_weights_keys", None) or ())
    assert unexpected == []
    assert_same_draws(inputs, model, plain)


# Models that are built without memory, as `from_pretrained` does


class Classifier(T.BertForSequenceClassification):
    """A class that converts itself; one rate starts where a dropout of the model was."""

    def __init__(self, config):
        super().__init__(config)
        self.extra = nn.Sequential(nn.Dropout(0.3), nn.Linear(2, 2))
        gd.learn_dropout(self, p=0.05, report=lambda report: None)


class Part(T.BertForSequenceClassification):
    """A class that converts the model inside it."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = gd.learn_dropout(self.bert, p=0.05, report=lambda report: None)


class Head(T.BertForSequenceClassification):
    """A class that converts no more than a layer of PyTorch."""

    def __init__(self, config):
        super().__init__(config)
        gd.learn_dropout(self.classifier, p=0.05)


def dirty_memory(monkeypatch, value):
    """Let tensors that nobody fills hold a value, as memory may that was used before."""
    empty_like = torch.empty_like

    def dirty(*args, **kwargs):
        made = empty_like(*args, **kwargs)
        return made.fill_(value) if made.is_floating_point() and made.device.type == "cpu" else made

    monkeypatch.setattr(torch, "empty_like", dirty)


@pytest.fixture
def bert():
    return build("BERT", rate=0.0)[0]


@pytest.fixture
def plain_checkpoint(bert, tmp_path):
    bert.save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("cls", [Classifier, Part, Head])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rates_start_where_they_should_from_a_plain_checkpoint(cls, dtype, plain_checkpoint, monkeypatch):
    dirty_memory(monkeypatch, 5.8e28)
    model = cls.from_pretrained(plain_checkpoint, local_files_only=True, dtype=dtype)
    expected = gd.dropout_rates(cls(model.config))
    assert gd.dropout_rates(model) == expected
    assert expected.get("extra.1", 0.3) == pytest.approx(0.3)
    assert {block.site.p_logit.dtype for block in dropout_blocks(model)} == {torch.float32}


@pytest.mark.parametrize("cls", [Classifier, Part, Head])
def test_rates_come_back_from_a_checkpoint_of_its_own(cls, bert, tmp_path, monkeypatch):
    model = move_rates(cls(bert.config))
    model.save_pretrained(tmp_path)
    dirty_memory(monkeypatch, 5.8e28)
    assert_same_draws(words(), model, cls.from_pretrained(tmp_path, local_files_only=True))


def test_a_rate_that_was_learned_is_not_initialised_again(bert, plain_checkpoint):
    for model in (
        Classifier(bert.config),
        Classifier.from_pretrained(plain_checkpoint, local_files_only=True),
    ):
        before = gd.dropout_rates(move_rates(model))
        for each in (model, copy.deepcopy(model)):
            each.init_weights()
            assert gd.dropout_rates(each) == before


def test_one_key_that_is_missing(bert, tmp_path, monkeypatch):
    model = Classifier(bert.config)
    with torch.no_grad():
        for block in dropout_blocks(model):
            set_logit(block.site, -1.0)
    state = model.state_dict()
    lost = [key for key in state if key.startswith(("classifier.concrete", "extra.1.concrete"))]
    model.save_pretrained(tmp_path, state_dict={key: value for key, value in state.items() if key not in lost})
    dirty_memory(monkeypatch, 5.8e28)
    rates = gd.dropout_rates(Classifier.from_pretrained(tmp_path, local_files_only=True))
    assert len(lost) == 2
    assert (rates.pop("classifier"), rates.pop("extra.1")) == (pytest.approx(0.05), pytest.approx(0.3))
    assert set(rates.values()) == {torch.tensor(-1.0).sigmoid().item()}
