"""Learned rates where a network has dropout of its own: units, masks, entropy, draws, and the code around them."""

import copy
import inspect
import math
import pickle
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import dropout
from torch.nn.utils import parametrize

import gumdrop as gd
from gumdrop.functional.masks import dropout_scale
from gumdrop.layers import DropoutKind, dropout_blocks
from gumdrop.layers.in_place import DropInPlace
from gumdrop.layers.site import bernoulli_factors
from gumdrop.networks.tracing import readers
from gumdrop.prediction import draws as ways
from gumdrop.prediction.moments.propagation import propagate_moments

from builders import reference
from builders.models import data, report_of
from builders.rates import set_logit
from builders.vision import ConvNeXt, DropPath, ViT


def learned(model, **options):
    return gd.learn_dropout(model, plain_dropout="learn", report=lambda report: None, **options)


def in_place(model):
    return {block.name: block for block in dropout_blocks(model) if isinstance(block.site, DropInPlace)}


class TokenDrop(nn.Module):
    """A kind that the library does not know: whole tokens."""

    def __init__(self, prob):
        super().__init__()
        self.prob = prob

    def forward(self, x):
        return F.dropout1d(x, self.prob, self.training)


class StochasticDepth(nn.Module):
    """That of torchvision, but for its code."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, input):
        return input if self.p == 0 else input * 0


# A module that drops, the shape of its input, and that of a mask.
UNITS = {
    "units of rows": (nn.Dropout(0.3), (4, 6), (4, 6)),
    "units of tokens": (nn.Dropout(0.3), (4, 5, 6), (4, 1, 6)),
    "heads": (nn.Dropout(0.3), (4, 2, 5, 6), (4, 2, 1, 1)),
    "one example": (nn.Dropout(0.3), (6,), (6,)),
    "channels of sequences": (nn.Dropout1d(0.3), (4, 6, 5), (4, 6, 1)),
    "channels of pictures": (nn.Dropout2d(0.3), (4, 6, 5, 5), (4, 6, 1, 1)),
    "channels of volumes": (nn.Dropout3d(0.3), (4, 6, 2, 2, 2), (4, 6, 1, 1, 1)),
    "channels of sequences, as PyTorch reads them": (nn.Dropout2d(0.3), (4, 6, 5), (4, 6, 1)),
    "one sequence": (nn.Dropout1d(0.3), (6, 5), (6, 1)),
    "paths": (DropPath(0.3), (4, 5, 6), (4, 1, 1)),
    "paths of torchvision": (StochasticDepth(0.3), (4, 6, 5, 5), (4, 1, 1, 1)),
    "tokens, a kind of the user": (TokenDrop(0.3), (4, 5, 6), (4, 5, 1)),
}


@pytest.mark.filterwarnings("ignore:dropout2d. Received a 3D input")
@pytest.mark.parametrize(("module", "shape", "mask"), UNITS.values(), ids=UNITS)
def test_units_are_dropped_whole_by_one_mask_for_each_example(module, shape, mask):
    model = learned(nn.Sequential(copy.deepcopy(module)), custom={TokenDrop: DropoutKind("prob", -2)}).train()
    (block,) = dropout_blocks(model)
    assert gd.kl_divergence(model, lengthscale="fan_in").item() == 0  # no unit was seen yet
    x = data(*shape).requires_grad_()
    torch.manual_seed(3)
    y = model(x)
    torch.manual_seed(3)
    rows = 4 if shape[0] == 4 else 1
    noise = torch.rand(rows, math.prod(mask) // rows).view(mask)
    logit = torch.tensor(0.3).logit().requires_grad_()
    expected = x * dropout_scale(logit, noise)
    torch.testing.assert_close(y, expected)
    weights = data(*shape)
    torch.testing.assert_close(
        torch.autograd.grad((y * weights).sum(), block.site.scaled_logit)[0] * 10,
        torch.autograd.grad((expected * weights).sum(), logit)[0],
        rtol=1e-4,
        atol=1e-4,  # terms of 1 / t that cancel
    )
    count = math.prod(mask) // rows
    assert block.site.num_units == count
    torch.testing.assert_close(
        gd.kl_divergence(model, lengthscale="fan_in").item(), -count * reference.entropy(math.log(0.3 / 0.7))
    )
    model.eval()
    assert torch.equal(model(x), x)


@pytest.mark.parametrize("strength", [1.0, 3.0])
def test_the_rate_of_one_unit_is_the_posterior_probability_that_it_is_not_needed(strength):
    """At p = sigmoid(-N d / s), the objective p d - s H(p) / N is flat."""
    model = gd.networks.set_strength(learned(nn.Sequential(DropPath(0.2))), strength)
    model(data(4, 3))
    site, num_data, loss_without = model[0].concrete_dropout, 50, 0.04
    set_logit(site, -num_data * loss_without / strength)
    objective = site.p_logit.sigmoid() * loss_without + gd.kl_divergence(model, lengthscale="fan_in") / num_data
    (slope,) = torch.autograd.grad(objective, site.scaled_logit)
    assert slope.abs() < 1e-6


def test_dropped_weights_have_the_weight_in_their_kl_and_one_mask_for_all_rows():
    """DropConnect: each element is a unit, and the layer has no site in front."""
    layer = nn.Linear(4, 5)
    parametrize.register_parametrization(layer, "weight", nn.Dropout(0.3))
    report = report_of(nn.Sequential(layer), plain_dropout="learn")
    assert report.left == {"0": "ParametrizedLinear has dropout of its weight, in a parametrization"}
    (block,) = dropout_blocks(layer)
    x = data(7, 4)
    layer.train()(x)
    weight = layer.parametrizations.weight.original.detach().double().numpy().reshape(1, -1)
    expected = reference.kl(0.3, weight, precision=4.0)
    assert gd.kl_divergence(layer, lengthscale=2.0).item() == pytest.approx(expected, rel=1e-6)
    assert (block.site.num_units, block.fan_in, block.weight.is_leaf) == (20, 4, True)
    first, second = gd.sample(layer, x, num_samples=2, seed=0)
    assert not torch.allclose(first, second)


class Code(nn.Module):
    """Code that drops by numbers, and by those of a child; one of them twice, in front of another."""

    def __init__(self):
        super().__init__()
        self.inner, self.layer, self.norm = nn.Linear(6, 6), nn.Linear(6, 3), nn.LayerNorm(6)
        self.drop, self.dropout, self.attention_dropout = nn.Dropout(0.25), 0.15, 0.35
        self.layerdrop, self.hidden_dropout = 0.45, 0.55

    def forward(self, x, *, scale=1.0):
        x = x + F.dropout(self.inner(x), p=self.dropout, training=self.training)
        heads = x.view(*x.shape[:2], 2, 3).transpose(1, 2)
        heads = F.scaled_dot_product_attention(heads, heads, heads, None, self.drop.p if self.training else 0.0)
        heads = F.dropout(heads, self.attention_dropout if self.training else 0)
        x = x + F.dropout(heads.transpose(1, 2).flatten(2), self.dropout, self.training)
        if self.training and torch.rand(()) < self.layerdrop:
            return scale * self.layer(x)
        x = F.dropout(self.norm(x), p=self.hidden_dropout, training=self.training)
        return scale * self.layer(x)


def test_numbers_in_code_have_sites():
    model = Code()
    keys, signature = list(model.state_dict()), inspect.signature(model.forward)
    with pytest.warns(
        UserWarning, match=r"alone \(layerdrop: layerdrop = 0\.45 in the code of Code; it acts as before"
    ):
        gd.learn_dropout(model, plain_dropout="learn")
    assert [key for key in model.state_dict() if "concrete_dropout" not in key] == keys
    assert gd.dropout_rates(model) == pytest.approx(
        {"dropout": 0.15, "attention_dropout": 0.35, "inner": 0.1, "layer": 0.55, "drop": 0.25}
    )
    assert list(inspect.signature(model.forward).parameters) == list(signature.parameters)
    x = data(4, 5, 6)
    model.train()(x)
    assert {name: block.site.num_units for name, block in in_place(model).items()} == {
        "dropout": 6 + 6, "attention_dropout": 2, "drop": 2,
    }  # fmt: skip


def test_a_number_that_is_used_twice_drops_units_of_its_own_each_time(monkeypatch):
    """The naive twin multiplies by the halves of the mask in turn; plain rates are off in a drawn function."""
    model = learned(Code(), include=[], exclude=["*drop", "attention_dropout"]).eval()
    function, x = gd.draw(model, seed=4), data(1, 5, 6)
    expected = function(x)
    twin = Code().eval()
    twin.load_state_dict(model.state_dict(), strict=False)
    halves = iter(in_place(function)["dropout"].site.factor_source.factor.view(2, 1, 1, 6))
    monkeypatch.setattr(F, "dropout", lambda x, p, training=False: x * next(halves) if p == 0.15 else x)
    twin.layer.register_forward_pre_hook(lambda layer, args: args[0] * function.layer.concrete_dropout.factor(args[0]))
    torch.testing.assert_close(twin(x), expected)


MODELS = {
    "ViT": (ViT, lambda: data(4, 3, 16, 16)),
    "ConvNeXt": (ConvNeXt, lambda: data(4, 3, 16, 16)),
    "transformer": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2), 2, enable_nested_tensor=False),
        lambda: data(5, 3, 8),
    ),
}
models = pytest.mark.parametrize(("make", "inputs"), MODELS.values(), ids=MODELS)


@models
@pytest.mark.parametrize("include", [["*"], []], ids=["all", "own"])
def test_all_dropout_of_a_network_is_learned(make, inputs, include):
    model, x = make(), inputs()
    keys, classes = list(model.state_dict()), {name: type(module) for name, module in model.named_modules()}
    with torch.no_grad():
        expected = model.eval()(x)
    report = report_of(model, plain_dropout="learn", include=include)
    assert not [name for name, why in report.left.items() if "acts as before" in why]
    assert [key for key in model.state_dict() if "concrete_dropout" not in key] == keys
    assert {n: cls for n, cls in classes.items() if type(model.get_submodule(n)) not in (cls, nn.Identity)} == {}
    torch.testing.assert_close(model(x), expected)
    model.train()(x).square().sum().backward()
    for block in dropout_blocks(model):
        assert block.site.scaled_logit.grad.any(), block.name
        set_logit(block.site, -40.0)
    torch.testing.assert_close(model(x), expected)


@models
def test_draws_go_by_their_seed_share_masks_and_are_the_same_one_by_one(make, inputs, monkeypatch):
    torch.manual_seed(0)
    model, x = learned(make(), include=[]).eval(), inputs()
    rows = 1 if isinstance(model, nn.TransformerEncoder) else 0
    function = gd.draw(model, seed=2)  # no input was seen yet
    whole = function(x)
    assert torch.equal(gd.draw(model, seed=2)(x), whole)
    torch.testing.assert_close(function(x.narrow(rows, 1, 2)), whole.narrow(rows, 1, 2))
    assert not torch.allclose(gd.draw(model, seed=3)(x), whole)
    if rows:
        return
    draws = gd.sample(model, x, num_samples=8, seed=1)
    assert torch.equal(gd.sample(pickle.loads(pickle.dumps(model)), x, num_samples=8, seed=1), draws)
    monkeypatch.setattr(ways._Call, "_at_once", lambda call, left: iter(()))
    torch.testing.assert_close(gd.sample(model, x, num_samples=8, seed=1), draws, rtol=1e-4, atol=1e-5)
    other = learned(make(), include=[])
    other.load_state_dict(model.state_dict())
    assert torch.equal(gd.sample(other, x, num_samples=8, seed=1), gd.sample(model, x, num_samples=8, seed=1))


def test_an_input_with_more_units_than_any_before_meets_masks_again():
    model = learned(nn.Sequential(nn.Dropout1d(0.5))).eval()
    site = model[0].concrete_dropout
    site.factor_source = bernoulli_factors(lambda site, rows: torch.tensor([[0.9, 0.1, 0.9]]))
    assert model(torch.ones(1, 5, 2))[0, :, 0].tolist() == [2.0, 0.0, 2.0, 2.0, 0.0]


def test_moments_know_paths_and_units():
    torch.manual_seed(0)
    for drop in (nn.Dropout2d(0.4), DropPath(0.4)):
        model = nn.Sequential(nn.Identity(), drop, nn.Flatten(), nn.Linear(12, 2))
        learned(model, include=[], exclude=["3"])
        if isinstance(drop, DropPath):
            with pytest.raises(ValueError, match="whose moments are not known"):
                propagate_moments(model, data(3, 3, 2, 2))
            continue
        x = data(3, 3, 2, 2)
        samples = gd.sample(model, x, num_samples=20_000, seed=0)
        found = propagate_moments(model, x)
        torch.testing.assert_close(found.variance, samples.var(0), rtol=0.05, atol=1e-3)


def test_what_is_excluded_or_cannot_learn_is_named():
    model = nn.ModuleDict(
        {"drop": nn.Dropout(0.3), "alpha": nn.AlphaDropout(0.2), "all": nn.Dropout(1.0), "path": DropPath(0.4)}
    )
    model.path.scale_by_keep = False
    report = report_of(
        nn.ModuleDict({"net": model, "layer": nn.Linear(3, 2)}), plain_dropout="learn", exclude=["*.drop"]
    )
    assert {name: why.partition("; it acts as before, ")[2] for name, why in report.left.items()} == {
        "net.drop": "excluded by `exclude`",
        "net.alpha": "since its output has the mean and variance of its input, which a mask of a learned rate has not",
        "net.all": "since it drops everything",
        "net.path": "since it does not divide by 1 - p, as dropout with a learned rate does",
    }
    assert report.in_place == {}
    with pytest.raises(ValueError, match=r"nothing to convert \(0: AlphaDropout\(p=0\.5\); it acts as before"):
        gd.learn_dropout(nn.Sequential(nn.AlphaDropout()), plain_dropout="learn")


class Hidden(nn.Module):
    """Rates that are no attributes, that code asks about, or that have another name."""

    def __init__(self):
        super().__init__()
        self.p, self.config = 0.9, types.SimpleNamespace(layerdrop=0.1, hidden_dropout=0.6, other=0.7)
        self.dropout, self.drop, self.drop_rate, self.block_drop = 0.2, nn.Dropout(0.3), 0.4, 0.5
        self.inner = nn.ModuleDict({"dropout": nn.Identity()})

    def forward(self, x):
        if self.dropout > 0:
            x = F.dropout(x, self.dropout, self.training)
        x = x + self.drop(x) if self.training and self.drop.p else x
        x = x + F.dropout(self.inner.dropout(x), p=self.drop_rate, training=self.training)
        x = F.dropout1d(x, float(self.block_drop), training=self.training) * self.config.layerdrop
        return nn.functional.dropout(F.dropout(x, 0.25, self.training), training=self.training)

    def built(self):
        return self.config.hidden_dropout


def test_rates_that_are_no_numbers_of_a_module_are_named():
    model = nn.Sequential(Hidden())
    report = report_of(model, plain_dropout="learn")
    assert report.in_place == {"0.drop_rate": "drop_rate = 0.4 in the code of Hidden"}
    assert {name: why.partition("; it acts as before, since ")[2] for name, why in report.left.items()} == {
        "0.dropout": "its code asks whether it is 0",
        "0.drop": "its code asks whether it is 0",
        "0.block_drop": "its code was not seen to hand it to a function that drops",
        "0.config.layerdrop": "only numbers that a module holds can learn",
        "0.dropout()": "only numbers that a module holds can learn",
    }
    assert report.left["0.dropout()"].startswith("dropout() = 0.5 in the code of Hidden")
    with pytest.warns(UserWarning, match=r"alone \(0\.config\.layerdrop: .*; 0\.drop: [^;]*; it [^;]*\); see"):
        gd.learn_dropout(nn.Sequential(Hidden()), plain_dropout="learn", exclude=["0.dropout", "0.block_drop"])
    report = report_of(nn.Sequential(Hidden(), nn.Linear(2, 2)), plain_dropout="remove")
    assert {"0.dropout", "0.drop", "0.drop_rate", "0.block_drop"} == set(report.removed)
    assert {"0.config.layerdrop", "0.dropout()"} == set(report.left)


def test_without_layers_of_its_own_choice_dropout_finds_its_layers():
    model = nn.ModuleDict({
        "net": nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.3), nn.Linear(4, 4), nn.Dropout(0.2), nn.Tanh()),
        "lstm": nn.LSTM(4, 5, num_layers=2, dropout=0.4),
        "none": nn.Sequential(nn.Dropout(0.0), nn.Linear(4, 4)),
    })  # fmt: skip
    learned(model, include=[])
    assert gd.dropout_rates(model) == pytest.approx({"net.3": 0.3, "net.4": 0.2, "lstm.ih_l1": 0.4})


def test_copies_have_sites_of_their_own():
    model, x = learned(Code()).train(), data(4, 5, 6)
    model(x)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        for block in in_place(other).values():
            set_logit(block.site, -40.0)
        other(x).sum().backward()
        assert all(block.site.scaled_logit.grad is not None for block in in_place(other).values())
    assert all(block.site.scaled_logit.grad is None for block in in_place(model).values())


class Readers(nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("a", "b", "c", "d", "e", "f", "g"):
            self.add_module(name, nn.Dropout(0.2))
        self.layer, self.rate = nn.Linear(2, 2), 0.3

    def forward(self, x, flag=False):
        h = self.layer(self.a(x))
        y = self.b(h)
        y = self.layer(y)
        z = self.c(y)
        if flag:
            z = z + 1
        z = self.layer(z)
        for _ in range(2):
            w = self.d(z)
        return self.e(w).mean() + self.f.p + self.inner(x) + (lambda v: v)(self.g(x))

    def inner(self, x):
        v = F.dropout(x, p=self.rate, training=self.training)
        return self.layer(v)


def test_the_text_of_code_says_where_an_output_goes():
    model = Readers()
    assert {name: sorted(readers(model, name), key=str) for name in (*"abcdefg", "rate")} == {
        "a": ["layer"], "b": ["layer"], "c": [None, "layer"], "d": [None], "e": [None], "f": [None], "g": [None],
        "rate": ["layer"],
    }  # fmt: skip


class AlwaysOn(nn.Module):
    """Drops in eval, too."""

    def forward(self, x):
        return self.helper(nn.Dropout(0.3)(F.dropout(x, 0.2, self.training)))

    def helper(self, x):
        return dropout(F.dropout(x), p=0.4)

    def built(self):
        return nn.Sequential(nn.Dropout(0.9))


@pytest.mark.parametrize("way", ["learn", "remove"])
def test_dropout_that_no_module_owns_is_named(way):
    report = report_of(nn.Sequential(AlwaysOn(), nn.Linear(2, 2)), plain_dropout=way)
    why = "since only numbers that a module holds can learn"
    assert report.left == {
        "0.dropout()": f"dropout() = 0.2 in the code of AlwaysOn; it acts as before, {why}",
        "0.dropout(training=True)": (
            f"dropout(training=True) = 0.5 in the code of AlwaysOn; it acts as before, in eval too, {why}"
        ),
        "0.Dropout()": f"Dropout() = 0.3 in the code of AlwaysOn; it acts as before, in eval too, {why}",
    }
