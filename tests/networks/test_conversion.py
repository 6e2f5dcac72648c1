"""Conversion of whole models: what changes, what stays, and that the result is an ordinary module."""

import contextlib
import copy
import io
import pickle
import warnings
from io import BytesIO

import pytest
import torch
from safetensors.torch import load_model, save_model
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.ao.quantization import default_dynamic_qconfig, float_qparams_weight_only_qconfig, quantize_dynamic
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.utils import parametrizations, parametrize

import gumdrop as gd
from gumdrop.layers import ConcreteDropout, dropout_blocks

from builders.models import report_of
from builders.rates import set_logit

LOGITS = "concrete_dropout"


def mlp(*dropout, width=8):
    """Two layers with a given dropout between them."""
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), *dropout, nn.Linear(width, 2))


def rates(model):
    return pytest.approx(gd.dropout_rates(model))


class Branches(nn.Module):
    """A forward that depends on its data and so cannot be traced, over parts that can."""

    def __init__(self, dropout=None):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), dropout or nn.Dropout(0.3), nn.Linear(8, 8))
        self.last = nn.Dropout(0.4)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        h = self.body(x)
        if h.sum() > 0:
            h = -h
        return self.head(self.last(h))


# What is reported


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 8)
        self.drop = nn.Dropout(0.2)
        self.body = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.residual_drop = nn.Dropout(0.3)
        self.bilinear = nn.Bilinear(8, 8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, tokens):
        x = self.norm(self.body(self.drop(self.embedding(tokens))))
        x = x + self.residual_drop(x)
        return self.head(self.bilinear(x, x))


class Gain(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.gain = nn.Linear(8, 8), nn.Parameter(torch.ones(8))


class Reversed(nn.LSTM):
    def forward(self, x):
        return super().forward(x.flip(0))


class Averaged(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x)[0]


LEFT = [
    (nn.PReLU(), "PReLU has no weight matrix of its own", False),
    (Gain(), "Gain has no weight matrix of its own", False),
    (gd.HomoscedasticNoise(2), "HomoscedasticNoise has variances and no weights", False),
    (nn.Linear(3, 2, dtype=torch.complex64), "Linear has complex weights", True),
    (nn.LazyLinear(2), "LazyLinear is not initialised yet; run the model once first", True),
    (Reversed(8, 4), "Reversed overrides forward", True),
    (Averaged(8, 2), "Averaged overrides forward", True),
]


@pytest.mark.parametrize(("module", "reason", "warns"), LEFT)
def test_what_is_left_is_named_and_weights_that_drop_nothing_are_warned_of(module, reason, warns):
    with pytest.warns(UserWarning, match=f"part: {reason}") if warns else contextlib.nullcontext():
        model = gd.learn_dropout(nn.ModuleDict({"part": module, "head": nn.Linear(8, 2)}))
    assert "head" in gd.dropout_rates(model)
    assert "part" not in gd.dropout_rates(model)
    assert isinstance(module, Gain) or not any(isinstance(each, ConcreteDropout) for each in module.modules())
    assert "forward" not in vars(module)
    assert report_of(nn.ModuleDict({"part": module, "head": nn.Linear(8, 2)})).left["part"].startswith(reason)


def test_layers_that_are_what_they_seem_are_converted():
    class Named(nn.GRU):
        tag = "runs PyTorch's forward"

    lazy = nn.Sequential(nn.LazyLinear(8), nn.LazyConv1d(2, 1))
    with pytest.raises(ValueError, match="layers without a size yet, such as LazyLinear: run it once"):
        gd.sample(gd.learn_dropout(nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 2)), include=["1"]), torch.randn(3, 7))
    lazy(torch.randn(3, 4, 5))
    assert list(gd.dropout_rates(gd.learn_dropout(lazy))) == ["0", "1"]
    assert list(gd.dropout_rates(gd.learn_dropout(Named(8, 4)))) == ["ih_l0"]


def test_report_names_what_was_done_and_why():
    seen = []
    report_of(Mixed(), predicate=lambda name, layer: seen.append(name) or True)
    assert seen == ["body", "head"]  # what could be converted
    report = report_of(Mixed(), exclude=["head"])
    assert report.converted == {"body": "Linear"}
    assert report.replaced == {"drop": "body starts from p = 0.2"}
    assert report.left == {
        "embedding": "Embedding takes indices; `embeddings=True` drops word types",
        "norm": "LayerNorm is a normalisation",
        "bilinear": "Bilinear is not a known layer type; name it in `custom` if it takes one tensor",
        "head": "excluded by `include`, `exclude`, `types` or `predicate`",
        "residual_drop": "Dropout(p=0.3); it acts as before, on top of learned rates",
    }
    lines = str(report).splitlines()
    assert lines[0].split() == ["learned", "body", "Linear"]
    assert lines[1] == "replaced    drop           body starts from p = 0.2"
    assert len(lines) == 7


def test_layers_of_unknown_type_give_a_warning_and_a_report_silences_it():
    unknown = r"left weights or dropout alone \(bilinear: Bilinear is not a known"
    with pytest.warns(UserWarning, match=unknown) as caught:
        gd.learn_dropout(Mixed())
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report_of(Mixed())
        gd.learn_dropout(Mixed(), exclude=["bilinear"])
        gd.learn_dropout(Mixed(), types=nn.Linear)


def test_a_long_warning_is_cut():
    model = nn.Sequential(nn.Linear(8, 8), *(nn.Bilinear(8, 8, 8) for _ in range(8)))
    with pytest.warns(UserWarning, match=r"5: Bilinear is not[^;]*; name it[^;]*; and 3 more\)"):
        gd.learn_dropout(model)


class NormalizedLinear(nn.Linear):
    def forward(self, x):
        return super().forward(nn.functional.normalize(x))


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (nn.Linear(8, 2), "learned     (the model)  Linear"),
        (NormalizedLinear(8, 2), "learned     (the model)  NormalizedLinear"),
        (nn.Sequential(ConcreteDropout(8), nn.Linear(8, 2)), "learned     1  Linear"),
    ],
)
def test_report_of_one_layer(model, text):
    report = report_of(model)
    assert str(report) == text
    with pytest.raises(AttributeError):
        report.converted = {}


# Which layers


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["0", "2.a", "2.b"]),
        ({"include": ["2.*"]}, ["2.a", "2.b"]),
        ({"exclude": ("*.a", "0")}, ["2.b"]),
        ({"include": ["2.*"], "exclude": ["*.b"]}, ["2.a"]),
        ({"types": nn.Linear}, ["0", "2.b"]),
        ({"types": (nn.Conv1d, nn.LSTM)}, ["2.a"]),
        ({"predicate": lambda name, layer: name.endswith("b") and layer.out_features == 3}, ["2.b"]),
    ],
)
def test_choice_of_layers(options, expected):
    inner = nn.ModuleDict({"a": nn.Conv1d(8, 3, 1), "b": nn.Linear(8, 3)})
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), inner)
    if "predicate" in options:
        options = options | {"types": nn.Linear}
    report = report_of(model, **options)
    assert list(report.converted) == list(gd.dropout_rates(model)) == expected
    assert set(report.left) == {"0", "2.a", "2.b"} - set(expected)


@pytest.mark.filterwarnings("ignore:.*quantiz")
def test_a_quantised_model_runs_without_dropout():
    model = gd.learn_dropout(nn.Sequential(nn.Embedding(7, 16), nn.Flatten(), nn.Linear(48, 8)), embeddings=True, p=0.4)
    words = torch.randint(7, (5, 3))
    settings = {nn.Linear: default_dynamic_qconfig, nn.Embedding: float_qparams_weight_only_qconfig}
    quantised = quantize_dynamic(model.eval(), settings)
    expected = model(words)
    assert torch.equal(quantised(words), quantised(words))
    torch.testing.assert_close(quantised(words), expected, atol=0.1, rtol=0)
    with pytest.raises(ValueError, match="no dropout that can be drawn"):
        gd.sample(quantised, words)


def test_a_converted_model_stays_as_it_is():
    model = mlp()
    assert gd.learn_dropout(model, include=["0"], p=0.2) is model
    report = report_of(model, p=0.4)
    assert report.converted == {"2": "Linear"}
    assert report.left == {"0": "has learned dropout already"}
    assert rates(model) == {"0": 0.2, "2": 0.4}
    sites = [block.site for block in dropout_blocks(model)]
    with pytest.raises(ValueError, match="0: has learned dropout already; 2: has learned dropout already"):
        gd.learn_dropout(model, p=0.1)
    assert [block.site for block in dropout_blocks(model)] == sites
    assert all(len(model[i]._forward_pre_hooks) == 1 for i in (0, 2))


NUMBER = "`p` must be strictly between 0 and 1, got"
PATTERNS = "`include`, `exclude` and `time_first` must be sequences of patterns"
REFUSED = [
    (mlp(), {"include": "0*"}, TypeError, PATTERNS),
    (mlp(), {"exclude": "0*"}, TypeError, PATTERNS),
    (mlp(), {"include": ["0", "haed"]}, ValueError, "has a name like 'haed'"),
    (mlp(), {"exclude": ["0", "haed"]}, ValueError, "has a name like 'haed'"),
    (mlp(), {"time_first": ["0", "haed"]}, ValueError, "has a name like 'haed'"),
    (mlp(nn.Dropout(0.5)), {"p": 1.0}, ValueError, f"{NUMBER} 1\\.0"),
    (mlp(nn.Dropout(0.5)), {"temperature": 0.0}, ValueError, r"`temperature` must be a positive number, got 0\.0"),
    (mlp(), {"plain_dropout": "off"}, ValueError, '`plain_dropout` must be "keep", "remove" or "learn", got \'off\''),
    (nn.Sequential(nn.ReLU(), nn.Dropout()), {}, ValueError, r"`model` has nothing to convert \(it has no layers\)"),
    (nn.LayerNorm(8), {}, ValueError, r"nothing to convert \(the model: LayerNorm is a normalisation\); see"),
    (mlp(), {"exclude": ["0", "2"]}, ValueError, "0: excluded by `include`, `exclude`, `types` or `predicate`"),
    (nn.Linear(3, 2, dtype=torch.complex64), {}, ValueError, "Linear has complex weights, for which there is no"),
    (nn.Sequential(nn.LazyLinear(2)), {}, ValueError, "0: LazyLinear is not initialised yet"),
    (nn.Linear(1, 2), {}, ValueError, "the model: Linear reads one unit, and would lose .* name it in `include`"),
    ([nn.Linear(2, 2)], {}, TypeError, "`model` must be a torch.nn.Module, got"),
]


@pytest.mark.parametrize(("model", "options", "error", "message"), REFUSED)
def test_what_cannot_be_done_is_said_and_leaves_the_model_untouched(model, options, error, message):
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    with pytest.raises(error, match=message):
        gd.learn_dropout(model, **options)
    assert not modules or list(model.modules()) == modules


@pytest.mark.parametrize("function", [gd.fix_dropout, gd.dropout_rates])
def test_fixing_and_reading_need_a_converted_model(function):
    with pytest.raises(ValueError, match=r"`model` has no learned dropout; convert it with"):
        function(mlp())


def test_options_reach_every_site():
    model = gd.learn_dropout(nn.ModuleList([nn.Linear(8, 2), nn.LSTM(8, 4)]), p=0.2, temperature=0.5, per_unit=True)
    for block in dropout_blocks(model):
        assert block.site.temperature == 0.5
        torch.testing.assert_close(block.site.p, torch.full((8,), 0.2))
    assert {name: rate.shape for name, rate in gd.dropout_rates(model).items()} == {"0": (8,), "1.ih_l0": (8,)}


def test_old_checkpoints_load_but_for_the_logits_and_new_ones_load_strictly():
    plain = mlp(nn.Dropout(0.3))
    old = copy.deepcopy(plain.state_dict())
    model = gd.learn_dropout(mlp(nn.Dropout(0.3)))
    missing, unexpected = model.load_state_dict(old, strict=False)
    assert missing == ["0.concrete_dropout.scaled_logit", "3.concrete_dropout.scaled_logit"]
    assert unexpected == []
    other = gd.learn_dropout(mlp(nn.Dropout(0.3)), p=0.45)
    other.load_state_dict(model.state_dict(), strict=True)
    assert gd.dropout_rates(other) == gd.dropout_rates(model)


@pytest.mark.parametrize("training", [True, False])
def test_modes_stay(training):
    model = mlp(nn.Dropout(0.3)).train(training)
    x = torch.randn(4, 8)
    expected = model(x)
    gd.learn_dropout(model)
    assert {module.training for module in model.modules()} == {training}
    assert torch.equal(model(x), expected) is not training


# What stays


def test_frozen_weights_stay_frozen_and_their_rates_learn():
    model, state = mlp().requires_grad_(False), torch.get_rng_state()
    gd.learn_dropout(model)
    assert torch.equal(torch.get_rng_state(), state)
    model(torch.randn(4, 8)).sum().backward()
    assert all((p.grad is not None) is (LOGITS in name) for name, p in model.named_parameters())


# Dropout that is there already


class Forward(nn.Module):
    """Dropout of which a function makes use."""

    def __init__(self, use):
        super().__init__()
        self.drop, self.layer, self.gru, self.use = nn.Dropout(0.5), nn.Linear(8, 8), nn.GRU(8, 8), use
        self.other = nn.Linear(8, 8)

    def forward(self, x, labels=None):
        return self.use(self, x, self.drop(torch.relu(x)), labels)


def optional(net, x, h, labels):
    """The default of an argument does not tell where dropout leads."""
    return net.layer(h) if labels is not None else h + net.other(h)


def joined(net, x, h, labels):
    rows, _ = x.shape
    assert h.dim() is not None
    h = torch.cat([net.layer(h), net.other(input=h)], dim=-1)
    return h.view(rows, h.shape[0] // rows, 16)


class Stubborn(nn.Sequential):
    def __deepcopy__(self, memo):
        raise RuntimeError("no copies")


def one_dropout_twice(*ending):
    drop = nn.Dropout(0.3)
    return nn.Sequential(nn.Linear(8, 8), drop, nn.Linear(8, 8), drop, *ending)


def one_layer_twice():
    shared = nn.Linear(8, 8)
    return nn.ModuleDict({"a": nn.Sequential(shared), "b": nn.Sequential(nn.Dropout(0.3), shared)})


def never_called():
    model = nn.ModuleDict({"body": nn.Linear(8, 2)})
    model.body.spare = nn.Dropout(0.3)
    return model


def one_weight_twice(p):
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(p), nn.Linear(8, 8))
    model[3].weight = model[0].weight
    return model


# A model, and of each dropout that is replaced the layers which start from its rate, with the rate.
TAKEN_OVER = {
    "Dropout": (lambda: mlp(nn.Dropout(0.3)), {"2": (["3"], 0.3)}),
    "Dropout1d": (lambda: mlp(nn.Dropout1d(0.3)), {"2": (["3"], 0.3)}),
    "Dropout2d": (lambda: mlp(nn.Dropout2d(0.3)), {"2": (["3"], 0.3)}),
    "Dropout3d": (lambda: mlp(nn.Dropout3d(0.3)), {"2": (["3"], 0.3)}),
    "flatten between": (
        lambda: nn.Sequential(nn.Conv1d(3, 4, 1), nn.Dropout(0.3), nn.Flatten(), nn.Identity(), nn.Linear(8, 2)),
        {"1": (["4"], 0.3)},
    ),
    "activation between": (lambda: mlp(nn.Dropout(0.3), nn.ReLU()), {}),
    "normalisation between": (lambda: mlp(nn.Dropout(0.3), nn.LayerNorm(8)), {}),
    "new dimensions between": (lambda: mlp(nn.Dropout(0.3), nn.Unflatten(1, (8,))), {}),
    "dropout between": (lambda: mlp(nn.Dropout(0.3), nn.Dropout(0.2)), {"3": (["4"], 0.2)}),
    "all dropped": (lambda: mlp(nn.Dropout(1.0)), {}),
    "two layers": (lambda: Forward(joined), {"drop": (["layer", "other"], 0.5)}),
    "not used": (lambda: Forward(lambda net, x, h, _: net.layer(x)), {}),
    "never called": (never_called, {}),
    "in two places": (lambda: one_dropout_twice(nn.Linear(8, 2)), dict.fromkeys(["1", "3"], (["2", "4"], 0.3))),
    "needed in one place": (lambda: one_dropout_twice(nn.ReLU()), {}),
    "one layer twice": (one_layer_twice, {"b.0": (["a.0"], 0.3)}),
    "a layer that extends PyTorch's": (
        lambda: nn.Sequential(nn.Dropout(0.3), NormalizedLinear(8, 2)),
        {"0": (["1"], 0.3)},
    ),
    "in front of one unit": (lambda: nn.Sequential(nn.Dropout(0.3), nn.LSTM(1, 4, num_layers=2)), {}),
    "cannot be traced": (Branches, {"body.2": (["body.3"], 0.3), "last": (["head"], 0.4)}),
    "cannot be copied": (
        lambda: Stubborn(nn.Dropout(0.3), nn.Linear(8, 2), nn.Sequential(nn.Dropout(0.4), nn.Linear(2, 2))),
        {"2.0": (["2.1"], 0.4)},
    ),
}


@pytest.mark.parametrize(("make", "taken"), TAKEN_OVER.values(), ids=TAKEN_OVER)
def test_dropout_that_feeds_layers_alone_is_taken_over(make, taken):
    model = make()
    plain = {name for name, module in model.named_modules(remove_duplicate=False) if "Dropout" in type(module).__name__}
    report = report_of(model)
    assert report.replaced == {name: f"{', '.join(layers)} starts from p = {p}" for name, (layers, p) in taken.items()}
    started = {layer: p for layers, p in taken.values() for layer in layers}
    assert rates(model) == dict.fromkeys(gd.dropout_rates(model), 0.1) | started
    for name in plain:
        assert isinstance(model.get_submodule(name), nn.Identity) is (name in taken)
    assert all("it acts as before" in report.left[name] for name in plain & report.left.keys())
    assert taken or plain & report.left.keys()


@pytest.mark.parametrize(
    "use",
    [
        lambda net, x, h, _: net.layer(h) + h,
        lambda net, x, h, _: (net.layer(h), h),
        lambda net, x, h, _: net.layer(torch.relu(h)),
        lambda net, x, h, _: net.layer(h[:, :8]),
        lambda net, x, h, _: net.layer(x) * h.mean(),
        lambda net, x, h, _: net.gru(x, h)[0],
        lambda net, x, h, _: net.gru(hx=h, input=x)[0],
        lambda net, x, h, _: net.gru(h, h)[0],
        optional,
    ],
)
def test_dropout_that_is_used_elsewhere_too_stays_and_acts(use):
    model = Forward(use)
    report = report_of(model, p=1e-12)
    assert isinstance(model.drop, nn.Dropout)
    assert "acts as before" in report.left["drop"]
    x = torch.rand(1, 8)
    draws = [model(x) for _ in range(2)]
    assert not torch.equal(*(draw[0] if isinstance(draw, tuple) else draw for draw in draws))


def test_which_rates_start_from_dropout_in_front():
    model = mlp(nn.Dropout(0.0))
    assert report_of(model, p=0.2).replaced == {"2": "3 (its p was 0)"}
    assert rates(model) == {"0": 0.2, "3": 0.2}
    model = nn.Sequential(nn.Dropout(0.3), nn.Linear(8, 8), nn.Dropout(0.3), nn.Linear(8, 2))
    assert list(report_of(model, exclude=["3"]).replaced) == ["0"]
    assert isinstance(model[2], nn.Dropout)
    assert rates(gd.learn_dropout(one_weight_twice(0.4))) == {"0": 0.4, "3": 0.4}
    model = one_weight_twice(0.0)
    gd.learn_dropout(model, include=["0"], p=0.3)
    gd.learn_dropout(model, include=["3"])  # it joins later, and takes the rate of its weight
    assert model[0].concrete_dropout is model[3].concrete_dropout
    assert rates(model) == {"0": 0.3, "3": 0.3}


def test_taken_over_rate_is_that_of_the_input_alone():
    model = nn.Sequential(nn.Dropout(0.5), nn.LSTM(8, 8, num_layers=2))
    gd.learn_dropout(model, p=0.2, recurrent=True)
    assert rates(model) == {"1.ih_l0": 0.5, "1.hh_l0": 0.2, "1.ih_l1": 0.2, "1.hh_l1": 0.2}

    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.attention = nn.Dropout(0.5), nn.MultiheadAttention(8, 2)

        def forward(self, x):
            x = self.drop(x)
            return self.attention(x, x, value=x)[0]

    model = gd.learn_dropout(Attend(), p=0.2)
    assert rates(model) == {"attention.in_proj": 0.5, "attention.out_proj": 0.2}


def test_a_dropout_that_code_out_of_sight_uses_acts_there_still():
    """It stands in a part that can be traced and under a name of its own, for which nothing is known."""
    drop = nn.Dropout(0.5)
    model = Branches(drop)
    model.last = drop
    gd.learn_dropout(model, p=1e-12)
    assert isinstance(model.body[2], nn.Identity)
    assert model.last is drop


def test_tracing_leaves_nothing_on_the_model():
    class Remembers(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.layer, self.calls, self.seen = nn.Dropout(0.3), nn.Linear(8, 8), 0, []
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            self.steps += 1
            self.last = self.drop(x)
            self.seen.append(self.last)
            return self.layer(self.last)

    model = gd.learn_dropout(Remembers())
    assert isinstance(model.drop, nn.Identity)
    assert (model.calls, model.seen, model.steps.item()) == (0, [], 0)
    assert not hasattr(model, "last")
    copy.deepcopy(model)


def test_tracing_copies_no_weights(monkeypatch):
    model = mlp(nn.Dropout(0.3))
    monkeypatch.setattr(nn.Parameter, "__deepcopy__", lambda self, memo: pytest.fail("copied"))
    gd.learn_dropout(model)
    assert isinstance(model[2], nn.Identity)


# Shared weights


def test_two_layers_with_one_weight_have_one_rate_and_count_once():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    single = gd.learn_dropout(copy.deepcopy(model[0]))
    model[2].weight = model[0].weight
    gd.learn_dropout(model)
    assert model[0].concrete_dropout is model[2].concrete_dropout
    assert len([name for name, _ in model.named_parameters() if LOGITS in name]) == 1
    second_bias = 0.5 * 8 * model[2].bias.square().sum()
    torch.testing.assert_close(
        gd.kl_divergence(model, lengthscale="fan_in"), gd.kl_divergence(single, lengthscale="fan_in") + second_bias
    )
    assert gd.dropout_rates(model).keys() == {"0", "2"}
    assert len(gd.parameter_groups(model)[1]["params"]) == 1
    gd.fix_dropout(model)
    assert model[0].concrete_dropout.is_fixed


def test_embedding_tied_to_the_output_layer():
    model = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 8), nn.Linear(8, 10, bias=False))
    model[2].weight = model[0].weight
    report = report_of(model, embeddings=True)
    assert list(report.converted) == ["1", "2"]
    assert report.left == {"0": "shares its weight with another module"}
    assert model[2].weight is model[0].weight
    assert [block.name for block in dropout_blocks(model)] == ["1", "2"]
    single = gd.kl_divergence(model[1], lengthscale="fan_in") + gd.kl_divergence(model[2], lengthscale="fan_in")
    torch.testing.assert_close(gd.kl_divergence(model, lengthscale="fan_in"), single)


def test_a_convolution_and_its_transpose_with_one_weight_do_not_share_a_rate():
    """The two drop different dimensions of the weight, so they cannot be one posterior."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ConvTranspose2d(8, 3, 3))
    model[1].weight = model[0].weight
    with pytest.warns(UserWarning, match="1: shares its weight with a converted layer that takes its transpose"):
        gd.learn_dropout(model)
    assert list(gd.dropout_rates(model)) == ["0"]
    gd.learn_dropout(model, include=["1"])  # unless it is converted by itself
    assert [block.site.num_units for block in dropout_blocks(model)] == [3, 8]
    model(torch.randn(2, 3, 6, 6)).sum().backward()


def test_recurrent_modules_with_one_weight_share_its_rate_alone():
    model = nn.ModuleList([nn.GRU(8, 8), nn.GRU(8, 8)])
    model[1].weight_ih_l0 = model[0].weight_ih_l0
    gd.learn_dropout(model, recurrent=True)
    first, second = (module.concrete_dropout for module in model)
    assert first["ih_l0"] is second["ih_l0"]
    assert first["hh_l0"] is not second["hh_l0"]


def test_a_module_that_stands_twice_is_converted_once():
    shared = nn.Linear(8, 8)
    model = nn.Sequential(shared, nn.ReLU(), shared)
    single = gd.learn_dropout(copy.deepcopy(shared))
    report = report_of(model)
    assert list(report.converted) == ["0"]
    assert len(shared._forward_pre_hooks) == 1
    torch.testing.assert_close(
        gd.kl_divergence(model, lengthscale="fan_in"), gd.kl_divergence(single, lengthscale="fan_in")
    )


# Parametrised layers


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("parametrization", [parametrizations.weight_norm, parametrizations.spectral_norm])
@pytest.mark.parametrize("make", [lambda **kw: nn.Linear(8, 8, **kw), lambda **kw: nn.Conv1d(8, 8, 1, **kw)])
def test_parametrized_layers(make, parametrization, bias):
    model = nn.Sequential(*(parametrization(make(bias=bias).double()) for _ in range(4)))
    x = torch.randn(3, 8, 8, dtype=torch.float64)
    expected = model.eval()(x)
    gd.learn_dropout(model)  # without a warning
    assert list(gd.dropout_rates(model)) == ["0", "1", "2", "3"]
    assert {block.site.p_logit.dtype for block in dropout_blocks(model)} == {torch.float64}
    assert len({id(block.site) for block in dropout_blocks(model)}) == 4
    torch.testing.assert_close(model(x), expected)
    single = sum(gd.kl_divergence(module, lengthscale="fan_in") for module in model)
    torch.testing.assert_close(gd.kl_divergence(model, lengthscale="fan_in"), single)
    with torch.no_grad():  # weights that are computed are freed at once: their ids come again
        torch.testing.assert_close(gd.kl_divergence(model, lengthscale="fan_in"), single)
    model.train()(x).sum().backward()
    gd.kl_divergence(model, lengthscale="fan_in").backward()
    assert all(block.site.scaled_logit.grad.isfinite() for block in dropout_blocks(model))


def test_parametrization_after_conversion():
    model = gd.learn_dropout(mlp())
    parametrizations.weight_norm(model[0])
    assert parametrize.is_parametrized(model[0])
    model(torch.randn(4, 8)).sum().backward()
    assert model[0].concrete_dropout.scaled_logit.grad.abs() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_logits_are_never_in_half_precision(dtype):
    model = gd.learn_dropout(nn.ModuleList([nn.Linear(8, 2), nn.LSTM(8, 2), nn.MultiheadAttention(8, 2)]).to(dtype))
    expected = torch.float64 if dtype == torch.float64 else torch.float32
    assert {block.site.p_logit.dtype for block in dropout_blocks(model)} == {expected}
    assert gd.kl_divergence(model, lengthscale="fan_in").dtype == expected


# An ordinary module


class Everything(nn.Module):
    """One model with every kind of site, and with two layers that share a weight."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict(
            {
                "mlp": mlp(nn.Dropout(0.3)),
                "conv": nn.Conv1d(8, 8, 1),
                "rnn": nn.LSTM(8, 4, num_layers=2, bidirectional=True),
                "attention": nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0),
            }
        )
        self.tied = nn.Linear(8, 8)
        self.tied.weight = self.parts.mlp[0].weight

    def forward(self, x):
        x = self.parts.conv(self.tied(x).mT).mT
        x = self.parts.attention(self.parts.rnn(x)[0])
        return self.parts.mlp(x)


def converted(seed=0, **options):
    torch.manual_seed(seed)
    return gd.learn_dropout(Everything(), p=0.3, recurrent=True, **options)


def through_torch_save(saved, weights_only):
    file = BytesIO()
    torch.save(saved, file)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


def through_state_dict(model, per_unit, _):
    other = converted(seed=1, per_unit=per_unit)
    other.load_state_dict(through_torch_save(model.state_dict(), weights_only=True), strict=True)
    return other


def through_safetensors(model, per_unit, folder):
    other = converted(seed=1, per_unit=per_unit)
    save_model(model, str(folder / "model.safetensors"))
    load_model(other, str(folder / "model.safetensors"))
    return other


@pytest.mark.parametrize("fixed", [False, True], ids=["learned", "fixed"])
@pytest.mark.parametrize("per_unit", [False, True], ids=["one rate", "per unit"])
@pytest.mark.parametrize(
    "again",
    [
        lambda model, *_: copy.deepcopy(model),
        lambda model, *_: pickle.loads(pickle.dumps(model)),
        lambda model, *_: through_torch_save(model, weights_only=False),
        through_state_dict,
        through_safetensors,
    ],
    ids=["deepcopy", "pickle", "torch.save", "state dict", "safetensors"],
)
def test_copies_predict_the_same_under_the_same_seed(again, per_unit, fixed, tmp_path):
    model = converted(per_unit=per_unit)
    x = torch.randn(2, 5, 8)
    if fixed:
        gd.fix_dropout(model)
    else:
        model(x).sum().backward()  # leaves nothing that cannot be copied
    other = again(model, per_unit, tmp_path)
    draws = gd.sample(model, x, num_samples=3, seed=0)
    assert torch.equal(gd.sample(other, x, num_samples=3, seed=0), draws)
    assert torch.equal(other.eval()(x), model.eval()(x))
    assert torch.equal(gd.kl_divergence(other, lengthscale="fan_in"), gd.kl_divergence(model, lengthscale="fan_in"))
    assert other.tied.concrete_dropout is other.parts.mlp[0].concrete_dropout
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert torch.equal(gd.sample(model, x, num_samples=3, seed=0), draws)


def test_compiles_without_a_break_and_once():
    torch.compiler.reset()
    model = gd.learn_dropout(mlp(nn.Dropout(0.3)), p=0.3)
    counter = CompileCounter()
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    x = torch.randn(4, 8)
    for _ in range(3):
        compiled(x).sum().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.01
    assert counter.frame_count == 1
    assert model[0].concrete_dropout.scaled_logit.grad.abs() > 0
    assert not torch.equal(compiled(x), compiled(x))
    torch.testing.assert_close(torch.compile(model.eval(), fullgraph=True, backend="eager")(x), model(x))
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("make", "shape", "backend"),
    [
        (lambda: nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0, batch_first=True), (2, 5, 8), "eager"),
        (lambda: nn.Sequential(nn.Conv1d(8, 8, 1), nn.Flatten(), nn.Linear(24, 2)), (4, 8, 3), "aot_eager"),
    ],
)
def test_compiled_gradients(make, shape, backend):
    torch.compiler.reset()
    model, x, results = gd.learn_dropout(make(), p=0.3), torch.randn(shape), []
    for call in (model, torch.compile(model, fullgraph=True, backend=backend)):
        model.zero_grad()
        torch.manual_seed(0)
        output = call(x)
        (output.square().sum() + gd.kl_divergence(model, lengthscale="fan_in")).backward()
        results.append([output, *(parameter.grad.clone() for parameter in model.parameters())])
    torch.testing.assert_close(*results)
    torch.compiler.reset()


@pytest.mark.parametrize("rows", [4, 7])
@pytest.mark.parametrize("training", [True, False])
def test_export(training, rows):
    model = gd.learn_dropout(mlp(nn.Dropout(0.3)), p=0.3).train(training)
    shapes = None if rows == 4 else ({0: torch.export.Dim("rows", min=2)},)
    program = torch.export.export(model, (torch.randn(4, 8),), dynamic_shapes=shapes)
    x = torch.randn(rows, 8)
    torch.manual_seed(0)
    expected = model(x)
    torch.manual_seed(0)
    torch.testing.assert_close(program.module()(x), expected)
    assert torch.equal(program.module()(x), expected) is not training
    assert "0.concrete_dropout.scaled_logit" in program.state_dict


def test_ensembles_by_vmap():
    models = [gd.learn_dropout(mlp(), p=p) for p in (0.1, 0.3, 0.6)]
    parameters, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    x = torch.randn(5, 8)

    def call(values, buffers):
        return functional_call(base, (values, buffers), (x,))

    output = vmap(call, randomness="different")(parameters, buffers)
    assert output.shape == (3, 5, 2)
    assert not torch.equal(vmap(call, randomness="different")(parameters, buffers), output)

    gradients = vmap(grad(lambda values, buffers: call(values, buffers).square().sum()), randomness="different")(
        parameters, buffers
    )
    for name, gradient in gradients.items():
        assert gradient.isfinite().all(), name
        assert (gradient.reshape(3, -1) != 0).any(1).all(), name

    base.eval()
    expected = torch.stack([model.eval()(x) for model in models])
    torch.testing.assert_close(vmap(call, randomness="different")(parameters, buffers), expected)


# Fixed rates


def test_fixed_rates_are_buffers_under_the_same_keys():
    model = converted()
    learned, keys = gd.dropout_rates(model), list(model.state_dict())
    gd.fix_dropout(model)
    assert gd.dropout_rates(model) == learned
    assert set(model.state_dict()) == set(keys)
    assert not any(LOGITS in name for name, _ in model.named_parameters())
    assert {name for name, _ in model.named_buffers(remove_duplicate=False)} == {k for k in keys if LOGITS in k}
    assert gd.parameter_groups(model)[1]["params"] == []
    torch.optim.AdamW(gd.parameter_groups(model))
    gd.fix_dropout(model)  # again, and nothing happens
    assert gd.dropout_rates(model) == learned


def test_learned_checkpoints_load_into_fixed_models_and_back():
    learned, fixed = converted(), gd.fix_dropout(converted(seed=1))
    fixed.load_state_dict(learned.state_dict(), strict=True)
    assert gd.dropout_rates(fixed) == gd.dropout_rates(learned)
    assert all(block.site.is_fixed for block in dropout_blocks(fixed))
    x = torch.randn(2, 5, 8)
    assert torch.equal(gd.sample(fixed, x, num_samples=2, seed=0), gd.sample(learned, x, num_samples=2, seed=0))
    converted(seed=2).load_state_dict(fixed.state_dict(), strict=True)


@pytest.mark.parametrize("per_unit", [False, True])
def test_fixed_masks_in_training_are_draws_at_the_learned_rate(per_unit):
    model = gd.learn_dropout(nn.Linear(6, 6, bias=False), p=0.3, per_unit=per_unit)
    nn.init.eye_(model.weight)
    if per_unit:
        set_logit(model.concrete_dropout, torch.linspace(0.1, 0.6, 6).logit())
    gd.fix_dropout(model)
    rate = model.concrete_dropout.p.expand(6)
    output = model(torch.ones(5000, 6))
    assert (output.eq(0) | output.isclose(1 / (1 - rate))).all()
    torch.testing.assert_close(output.eq(0).float().mean(0), rate, atol=0.03, rtol=0)
    assert model.eval()(torch.ones(2, 6)).eq(1).all()


def test_fixed_models_have_a_kl_whose_gradient_reaches_the_weights():
    model, x = converted(per_unit=True), torch.ones(2, 5, 8)
    expected = gd.kl_divergence(model, lengthscale="fan_in")
    kl = gd.kl_divergence(gd.fix_dropout(model), lengthscale="fan_in")
    torch.testing.assert_close(kl, expected)
    kl.backward()
    assert all(block.weight.grad.any() for block in dropout_blocks(model))
    output = model(x)
    output.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert not torch.equal(model(x), output)


def test_rates_are_copies():
    model = gd.learn_dropout(nn.Linear(8, 2), per_unit=True)
    (rate,) = gd.dropout_rates(model).values()
    rate.zero_()
    assert not rate.requires_grad
    torch.testing.assert_close(gd.dropout_rates(model)[""], torch.full((8,), 0.1))
    (rate,) = gd.dropout_rates(gd.learn_dropout(nn.Linear(8, 2), p=0.25)).values()
    assert rate == pytest.approx(0.25)
    assert isinstance(rate, float)


# Optimisers


def test_parameter_groups_split_all_parameters():
    model = nn.Sequential(mlp(), gd.HomoscedasticNoise(2))
    gd.learn_dropout(model)
    weights, logits, noise = gd.parameter_groups(model, weight_decay=0.02, rate_lr=0.5)
    assert (weights["weight_decay"], logits["weight_decay"], noise["weight_decay"]) == (0.02, 0.0, 0.0)
    assert [group.get("lr") for group in (weights, logits, noise)] == [None, 0.5, None]
    assert [id(p) for p in logits["params"]] == [id(model[0][i].concrete_dropout.scaled_logit) for i in (0, 2)]
    assert [id(p) for p in noise["params"]] == [id(model[1].log_variance)]
    every = [id(p) for group in (weights, logits, noise) for p in group["params"]]
    assert sorted(every) == sorted(id(p) for p in model.parameters())
    assert len(gd.parameter_groups(gd.learn_dropout(mlp()))) == 2
    assert gd.parameter_groups(gd.learn_dropout(mlp()))[1]["lr"] == 0.005
    assert "lr" not in gd.parameter_groups(gd.learn_dropout(mlp()), rate_lr=None)[1]
    for weight_decay in (-0.1, float("nan")):
        with pytest.raises(ValueError, match="`weight_decay` must be at least 0, got"):
            gd.parameter_groups(model, weight_decay=weight_decay)


def test_time_first_layers_share_a_mask_over_time_and_not_over_examples():
    model = gd.learn_dropout(nn.Sequential(nn.Linear(6, 6, bias=False)), p=0.5, time_first=["0"])
    nn.init.eye_(model[0].weight)
    kept = model(torch.ones(5, 40, 6)).detach()  # (time, examples, units)
    assert torch.equal(kept, kept[:1].expand_as(kept))
    assert (kept[0].round() != kept[0, :1].round()).any()


@pytest.mark.parametrize("origin", ["torch.optim", "transformers.optimization"])
def test_adafactor_has_an_eps_of_its_own(origin: str) -> None:
    """Two numbers, beside which the one of Adam's is an error."""
    optimizer = pytest.importorskip(origin).Adafactor(gd.parameter_groups(model := gd.learn_dropout(mlp())))
    before = list(gd.dropout_rates(model).values())
    gd.kl_divergence(model, lengthscale=1.0).backward()
    optimizer.step()
    assert all(rate != old for rate, old in zip(gd.dropout_rates(model).values(), before, strict=True))
    buffer = io.BytesIO()
    torch.save(optimizer.state_dict(), buffer)
    buffer.seek(0)
    optimizer.load_state_dict(torch.load(buffer, weights_only=True))
    optimizer.step()
    assert torch.optim.Adam(gd.parameter_groups(model)).param_groups[1]["eps"] == 1e-20
