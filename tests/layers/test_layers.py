"""Sites in front of dense, convolutional and custom layers: a mask is a draw of the weight's columns."""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import gumdrop as gd
from gumdrop.layers import UNIT, ConcreteDropout, dropout_blocks

from builders.masks import columns_of, force
from builders.rates import set_logit

P = 0.3


def some_mask(rows, units, seed=0):
    """Masks that differ from row to row, each with something kept and something dropped."""
    kept = torch.rand(rows, units, generator=torch.Generator().manual_seed(seed)) > 0.5
    kept[torch.arange(rows), torch.arange(rows) % units] = False
    kept[torch.arange(rows), (torch.arange(rows) + 1) % units] = True
    return kept


def with_scaled_columns(layer, factors):
    """Copy a layer with the weights of input unit k multiplied by ``factors[k]``."""
    twin = copy.deepcopy(layer)
    with torch.no_grad():
        for unit, factor in enumerate(factors.tolist()):
            twin.weight[columns_of(layer, unit)] *= factor
    return twin


class Plain(nn.Module):
    """A layer of a type that the library does not know: its weight is stored with the units first."""

    def __init__(self, units=6, outputs=4):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(units, outputs))
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x, gain=1.0):
        return gain * (x @ self.weight) + self.bias


def plain_matrix(layer):
    return layer.weight.T


LAYERS = {
    "Linear": (lambda: nn.Linear(6, 4), (5, 6)),
    "Linear, tokens": (lambda: nn.Linear(6, 4), (5, 3, 6)),
    "Linear, grid": (lambda: nn.Linear(6, 4, bias=False), (5, 2, 3, 6)),
    "Conv1d": (lambda: nn.Conv1d(6, 4, 3, padding=1), (5, 6, 7)),
    "Conv1d, groups": (lambda: nn.Conv1d(6, 4, 3, groups=2), (5, 6, 7)),
    "Conv2d": (lambda: nn.Conv2d(6, 4, (3, 2), stride=2, bias=False), (5, 6, 7, 6)),
    "Conv2d, groups": (lambda: nn.Conv2d(6, 9, 3, groups=3), (5, 6, 4, 5)),
    "Conv2d, depthwise": (lambda: nn.Conv2d(6, 12, 3, groups=6), (5, 6, 4, 5)),
    "Conv2d, circular": (lambda: nn.Conv2d(6, 4, 3, padding=1, padding_mode="circular"), (5, 6, 4, 5)),
    "Conv3d": (lambda: nn.Conv3d(6, 4, 2, dilation=2), (5, 6, 4, 3, 4)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(6, 4, 3), (5, 6, 4)),
    "ConvTranspose1d, groups": (lambda: nn.ConvTranspose1d(6, 4, 3, groups=2), (5, 6, 4)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(6, 4, 3, stride=2), (5, 6, 4, 3)),
    "ConvTranspose2d, groups": (lambda: nn.ConvTranspose2d(6, 9, 2, groups=3), (5, 6, 4, 3)),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(6, 4, 2, bias=False), (5, 6, 2, 3, 2)),
}
layers = pytest.mark.parametrize(("make", "shape"), LAYERS.values(), ids=LAYERS.keys())


@layers
@pytest.mark.parametrize("per_unit", [False, True])
def test_a_mask_of_one_example_zeroes_and_rescales_columns_of_its_weight(make, shape, per_unit):
    layer = make()
    converted = gd.learn_dropout(copy.deepcopy(layer), p=P, per_unit=per_unit)
    rates = torch.linspace(0.05, 0.8, 6) if per_unit else torch.tensor(P)
    set_logit(converted.concrete_dropout, rates.logit())
    kept = some_mask(len(x := torch.randn(shape)), 6)
    force(converted.concrete_dropout, kept)
    expected = [with_scaled_columns(layer, kept[b] / (1 - rates))(x[b : b + 1]) for b in range(len(x))]
    torch.testing.assert_close(converted(x), torch.cat(expected))


@layers
def test_an_unbatched_example_has_one_mask(make, shape):
    layer = make()
    if isinstance(layer, nn.Linear) and len(shape) > 2:
        pytest.skip("a 2-D input of a dense layer is a batch")
    converted = gd.learn_dropout(copy.deepcopy(layer), p=P)
    kept = some_mask(1, 6)
    force(converted.concrete_dropout, kept)
    x = torch.randn(shape[1:])
    torch.testing.assert_close(converted(x), with_scaled_columns(layer, kept[0] / (1 - P))(x))
    converted.concrete_dropout.factor_source = None
    assert converted(x).shape == layer(x).shape


@given(
    groups=st.integers(1, 4), inputs=st.integers(1, 3), outputs=st.integers(1, 3), kernel=st.integers(1, 3),
    transposed=st.booleans(),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_columns_of_any_grouped_convolution(groups, inputs, outputs, kernel, transposed):
    cls = nn.ConvTranspose1d if transposed else nn.Conv1d
    layer = gd.learn_dropout(cls(groups * inputs, groups * outputs, kernel, groups=groups), include=[""])
    (block,) = dropout_blocks(layer)
    matrix = block.columns(block.weight)
    assert matrix.shape == (outputs * kernel, groups * inputs)
    for unit in range(groups * inputs):
        expected = layer.weight[columns_of(layer, unit)].sort().values
        torch.testing.assert_close(matrix[:, unit].sort().values, expected, rtol=0, atol=0)


def test_input_by_keyword():
    layer = gd.learn_dropout(nn.ConvTranspose1d(6, 4, 3, stride=2), p=P)
    force(layer.concrete_dropout, some_mask(5, 6))
    x = torch.randn(5, 6, 4)
    output = layer(output_size=[10], input=x)
    assert output.shape == (5, 4, 10)
    assert torch.equal(output, layer(x, output_size=[10]))


@pytest.mark.parametrize(
    ("make", "shape"),
    [(lambda: nn.Linear(6, 4), (5, 1)), (lambda: nn.Conv2d(6, 4, 1), (5, 1, 2, 2)), (lambda: nn.Conv1d(6, 4, 1), (5,))],
)
def test_an_input_of_another_size_is_refused_and_not_broadcast(make, shape):
    layer = gd.learn_dropout(make())
    with pytest.raises(ValueError, match="the input must have 6 units at dimension"):
        layer(torch.randn(shape))


# Custom layers


def test_custom_layer_drops_rows_of_its_matrix():
    layer = Plain()
    converted = gd.learn_dropout(copy.deepcopy(layer), p=P, custom={Plain: plain_matrix})
    kept = some_mask(5, 6)
    force(converted.concrete_dropout, kept)
    x = torch.randn(5, 3, 6)
    expected = torch.einsum("btk,bk,ko->bto", x, kept / (1 - P), layer.weight) * 2.0 + layer.bias
    torch.testing.assert_close(converted(x, gain=2.0), expected)
    torch.testing.assert_close(converted(gain=2.0, x=x), expected)


@pytest.mark.parametrize("per_unit", [False, True])
def test_kl_of_a_custom_layer_is_that_of_the_dense_layer_it_is(per_unit):
    layer, dense, tied = Plain(), nn.Linear(6, 4), Plain()
    dense.load_state_dict({"weight": layer.weight.T, "bias": layer.bias})
    tied.weight, tied.bias = layer.weight, layer.bias
    gd.learn_dropout(layer, p=P, per_unit=per_unit, custom={Plain: plain_matrix})
    both = gd.learn_dropout(nn.Sequential(layer, tied), custom={Plain: plain_matrix})  # what is shared counts once
    gd.learn_dropout(dense, p=P, per_unit=per_unit)
    for each in (layer, pickle.loads(pickle.dumps(layer)), both):
        torch.testing.assert_close(
            gd.kl_divergence(each, lengthscale="fan_in"), gd.kl_divergence(dense, lengthscale="fan_in")
        )
        with torch.no_grad():
            torch.testing.assert_close(
                gd.kl_divergence(each, lengthscale="fan_in"), gd.kl_divergence(dense, lengthscale="fan_in")
            )


def test_custom_must_give_a_matrix():
    with pytest.raises(ValueError, match=r"`custom` must give the weight of Plain as a matrix \(rows, K\), got shape"):
        gd.learn_dropout(Plain(), custom={Plain: lambda layer: layer.bias})


# Attaching


@pytest.mark.parametrize("per_unit", [False, True])
def test_a_site_can_start_again(per_unit):
    site = ConcreteDropout(3, p=0.1, per_unit=per_unit)
    assert site.initial_p == 0.1
    site.start_at(P)
    start = site.scaled_logit.detach().clone()
    torch.testing.assert_close(site.p, torch.full_like(start, P))
    set_logit(site, float("nan"))
    parameter = site.scaled_logit
    site.reset_parameters()
    assert site.scaled_logit is parameter
    assert torch.equal(site.scaled_logit, start)
    assert site.scaled_logit.grad_fn is None
    site.fix()
    set_logit(site, 5.0)
    site.reset_parameters()
    assert torch.equal(site.scaled_logit, start)


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_model_built_without_memory_starts_where_its_dropout_was(recurrent):
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.LSTM(8, 4, num_layers=2, dropout=0.2))
    gd.learn_dropout(model, recurrent=recurrent)
    model.to_empty(device="cpu")
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    expected = {"0": 0.1, "2.ih_l0": 0.3, "2.ih_l1": 0.2, "2.hh_l0": 0.1, "2.hh_l1": 0.1}
    rates = gd.dropout_rates(model)
    assert rates == {name: pytest.approx(expected[name]) for name in rates}
    assert len(rates) == (5 if recurrent else 3)


def test_a_rate_starts_also_where_initialisation_is_switched_off(monkeypatch):
    for name in ("constant_", "zeros_", "normal_"):
        monkeypatch.setattr(nn.init, name, lambda tensor, *args, **kwargs: tensor)
    model = gd.learn_dropout(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.3), nn.Linear(3, 3)))
    assert gd.dropout_rates(model) == {"0": pytest.approx(0.1), "2": pytest.approx(0.3)}


SENSELESS = [float("nan"), float("inf"), 5.8e28, -1.1e4]


@pytest.mark.parametrize("per_unit", [False, True])
@pytest.mark.parametrize("logit", SENSELESS)
def test_a_senseless_rate_is_refused_by_name(logit, per_unit):
    model = gd.learn_dropout(
        nn.ModuleDict({"body": nn.Linear(3, 3), "attention": nn.MultiheadAttention(4, 2)}), per_unit=per_unit
    )
    site = model["attention"].concrete_dropout["out_proj"]
    site.scaled_logit.data.view(-1)[-1] = logit / UNIT
    for call in (
        gd.dropout_rates,
        gd.draw,
        lambda model: gd.negative_elbo(model["body"](torch.ones(2, 3)).sum(1), model, num_data=2, lengthscale=1),
        lambda model: gd.sample(model, torch.ones(2, 3)),
    ):
        with pytest.raises(ValueError, match=r"drop probability of 'attention.out_proj' must be a number between"):
            call(model)
    site.reset_parameters()
    gd.dropout_rates(model)


@pytest.mark.parametrize("logit", [-1e4, -60.0, 60.0, 1e4])
def test_extreme_rates_are_not_senseless(logit):
    model = gd.learn_dropout(nn.Linear(3, 3))
    set_logit(model.concrete_dropout, logit)
    assert gd.dropout_rates(model)[""] == pytest.approx(torch.tensor(logit).sigmoid().item())
    gd.kl_divergence(model, lengthscale="fan_in")
