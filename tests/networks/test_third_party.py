"""Models that others wrote: converted, sampled, trained and stored as they are."""

import copy
import os
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.layers import dropout_blocks

from builders.rates import set_logit

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers", reason="needs the package transformers")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@dataclass
class Case:
    """A model with random weights, inputs for it, and how to read its output."""

    make: Any
    inputs: Any
    sites: int
    output: Any = None


def of(name, **sizes):
    """Build a model of transformers by the name of its class."""
    cls = getattr(transformers, name)
    return cls(cls.config_class(**sizes))


SMALL = {"hidden_sizes": [4, 8], "depths": [1, 1], "num_labels": 3}


def bert():
    return of(
        "BertForSequenceClassification", vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=16, num_labels=3, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip


def gpt2():
    return of(
        "GPT2LMHeadModel", vocab_size=20, n_positions=16, n_embd=8, n_layer=2, n_head=2, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip


def resnet():
    return of("ResNetForImageClassification", embedding_size=4, layer_type="basic", **SMALL)


def convnext():
    return of("ConvNextForImageClassification", num_stages=2, patch_size=2, **SMALL)


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False), nn.Linear(8, 3))


def tokens():
    mask = torch.ones(4, 6, dtype=torch.long)
    mask[0, 4:] = 0
    return {"input_ids": torch.randint(20, (4, 6)), "attention_mask": mask}


def images():
    return {"pixel_values": torch.randn(4, 3, 16, 16)}


def logits(result):
    return result.logits


CASES = {
    "bert": Case(bert, tokens, 14, logits),
    "gpt2": Case(gpt2, tokens, 9, logits),
    "resnet": Case(resnet, images, 7, logits),
    "convnext": Case(convnext, images, 9, logits),
    "torch encoder": Case(encoder, lambda: {"input": torch.randn(4, 6, 8)}, 9),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def convert(case, model=None, **options):
    model = case.make() if model is None else model
    return gd.learn_dropout(model, p=0.2, report=lambda report: None, **options)


def run(case, model, inputs):
    result = model(**inputs)
    return result if case.output is None else case.output(result)


def assert_same_draws(case, inputs, model, other):
    assert gd.dropout_rates(other) == gd.dropout_rates(model)
    draws = [gd.sample(each, inputs, num_samples=2, seed=0, output=case.output) for each in (model, other)]
    assert torch.equal(*draws)


def move_rates(model):
    for block in dropout_blocks(model):
        set_logit(block.site, block.site.p_logit.detach() + torch.rand(()))
    return model


@cases
def test_keys_classes_and_eval_output_stay(case):
    model = case.make().eval()
    inputs = case.inputs()
    keys, classes = list(model.state_dict()), {name: type(module) for name, module in model.named_modules()}
    with torch.no_grad():
        expected = run(case, model, inputs)
        convert(case, model)
        torch.testing.assert_close(run(case, model, inputs), expected)
    assert len(list(dropout_blocks(model))) == case.sites
    assert [key for key in model.state_dict() if "concrete_dropout" not in key] == keys
    assert len(model.state_dict()) == len(keys) + case.sites
    for name, cls in classes.items():
        assert type(model.get_submodule(name)) is cls or issubclass(cls, nn.Dropout), name


@cases
def test_predictions(case):
    model, inputs = convert(case), case.inputs()
    draws = gd.sample(model, inputs, num_samples=3, seed=0, output=case.output)
    again = gd.sample(model, inputs, num_samples=3, seed=0, output=case.output, batch_size=3)
    torch.testing.assert_close(again, draws)
    assert not torch.allclose(draws[0], draws[1])


@pytest.mark.parametrize("per_unit", [False, True], ids=["one rate", "per unit"])
@cases
def test_the_likelihood_gives_every_rate_a_gradient(case, per_unit):
    model = convert(case, per_unit=per_unit).train()
    gd.categorical_nll(run(case, model, case.inputs()).flatten(1)[:, :3], torch.tensor([0, 1, 2, 0])).mean().backward()
    for block in dropout_blocks(model):
        assert block.site.scaled_logit.grad is not None, block.name
        assert block.site.scaled_logit.grad.isfinite().all(), block.name
        assert block.site.scaled_logit.grad.any(), block.name


@pytest.mark.parametrize("name", ["bert", "gpt2", "resnet", "convnext"])
def test_save_pretrained_round_trip(name, tmp_path):
    """The files of a converted model open as those of the model it was; the rates are in them too."""
    from safetensors.torch import load_file

    case = CASES[name]
    model, inputs = move_rates(convert(case)), case.inputs()
    model.save_pretrained(tmp_path)
    plain = type(model).from_pretrained(tmp_path, local_files_only=True)
    torch.testing.assert_close(run(case, plain.eval(), inputs), run(case, model.eval(), inputs))
    again = convert(case, plain)
    missing, unexpected = again.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=False)
    assert set(missing) <= set(getattr(model, "_tied_weights_keys", None) or ())
    assert unexpected == []
    assert_same_draws(case, inputs, model, again)


def test_gpt2_keeps_its_tied_embedding():
    case = CASES["gpt2"]
    model = convert(case)
    assert model.lm_head.weight is model.transformer.wte.weight
    entropy = sum(block.site.num_units for block in dropout_blocks(model))
    assert entropy == 2 * (8 + 8 + 8 + 32) + 8
    matrix = next(block for block in dropout_blocks(model) if block.name.endswith("0.attn.c_attn"))
    assert matrix.columns(matrix.weight).shape == (24, 8)


# Models that are built without memory, as `from_pretrained` does


class Classifier(transformers.BertForSequenceClassification):
    """A class that converts itself; one rate starts where a dropout of the model was."""

    def __init__(self, config):
        super().__init__(config)
        self.extra = nn.Sequential(nn.Dropout(0.3), nn.Linear(3, 3))
        gd.learn_dropout(self, p=0.05, report=lambda report: None)


class Part(transformers.BertForSequenceClassification):
    """A class that converts the model inside it."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = gd.learn_dropout(self.bert, p=0.05, report=lambda report: None)


class Head(transformers.BertForSequenceClassification):
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
def plain_checkpoint(tmp_path):
    bert().save_pretrained(tmp_path)
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
def test_rates_come_back_from_a_checkpoint_of_its_own(cls, tmp_path, monkeypatch):
    model = move_rates(cls(bert().config))
    model.save_pretrained(tmp_path)
    dirty_memory(monkeypatch, 5.8e28)
    assert_same_draws(CASES["bert"], tokens(), model, cls.from_pretrained(tmp_path, local_files_only=True))


def test_a_rate_that_was_learned_is_not_initialised_again(plain_checkpoint):
    for model in (Classifier(bert().config), Classifier.from_pretrained(plain_checkpoint, local_files_only=True)):
        before = gd.dropout_rates(move_rates(model))
        for each in (model, copy.deepcopy(model)):
            each.init_weights()
            assert gd.dropout_rates(each) == before


def test_one_key_that_is_missing(tmp_path, monkeypatch):
    """Rates that a checkpoint has are loaded, and those that it lacks start."""
    model = Classifier(bert().config)
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
