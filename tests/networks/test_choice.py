"""Which layers are converted: those of other libraries, by name, and those that read one unit."""

import copy
import sys
import types

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.layers import dropout_blocks
from gumdrop.layers.site import bernoulli_factors

from builders.models import report_of
from builders.rates import set_logit

# Layers of other libraries


class _PyGLinear(nn.Module):
    """What a Linear of PyTorch Geometric has that matters here: no base class but Module, and its own name."""

    __module__, __qualname__ = "torch_geometric.nn.dense.linear", "Linear"

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        is_lazy = in_channels < 0
        self.weight = nn.UninitializedParameter() if is_lazy else nn.Parameter(torch.randn(out_channels, in_channels))
        self.bias = nn.Parameter(torch.randn(out_channels))

    def forward(self, x):
        return nn.functional.linear(x, self.weight, self.bias)


_PyGLinear.__name__ = "Linear"


@pytest.fixture
def pyg_linear(monkeypatch):
    """Put the stand-in where the real class is."""
    place = ""
    for part in _PyGLinear.__module__.split("."):
        place = f"{place}.{part}".removeprefix(".")
        monkeypatch.setitem(sys.modules, place, types.ModuleType(place))
    sys.modules[place].Linear = _PyGLinear
    return _PyGLinear


def conv1d(inputs, outputs):
    utilities = pytest.importorskip("transformers.pytorch_utils", reason="needs the package transformers")
    layer = utilities.Conv1D(outputs, inputs)
    nn.init.normal_(layer.bias)
    return layer


def as_linear(layer, weight):
    twin = nn.Linear(weight.shape[1], weight.shape[0])
    twin.load_state_dict({"weight": weight.detach(), "bias": layer.bias.detach()})
    return twin


@pytest.fixture(params=["Conv1D", "PyG"])
def pair(request):
    """A layer of another library and PyTorch's with the same weights."""
    if request.param == "PyG":
        layer = request.getfixturevalue("pyg_linear")(6, 3)
        return layer, as_linear(layer, layer.weight)
    layer = conv1d(6, 3)
    return layer, as_linear(layer, layer.weight.T)


def test_a_layer_of_another_library_is_as_good_as_pytorchs(pair):
    layers = [gd.learn_dropout(nn.Sequential(layer, nn.Tanh()), p=0.3) for layer in pair]
    (block,), (twin,) = (list(dropout_blocks(layer)) for layer in layers)
    assert (block.fan_in, block.site.num_units) == (twin.fan_in, twin.site.num_units) == (6, 6)
    assert torch.equal(block.columns(block.weight), twin.columns(twin.weight))
    divergences = [gd.kl_divergence(layer, lengthscale="fan_in") for layer in layers]
    torch.testing.assert_close(*divergences)
    for each in divergences:
        each.backward()
    gradient = layers[0][0].weight.grad
    expected = layers[1][0].weight.grad
    torch.testing.assert_close(gradient if gradient.shape == expected.shape else gradient.T, expected)
    torch.testing.assert_close(*(layer[0].bias.grad for layer in layers))
    torch.testing.assert_close(*(layer[0].concrete_dropout.scaled_logit.grad for layer in layers))
    x = torch.randn(4, 6)
    torch.testing.assert_close(*(gd.sample(layer, x, num_samples=8, seed=1) for layer in layers))


def test_dropout_in_front_of_it_is_taken_over(pair):
    report = report_of(nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.4), pair[0]))
    assert report.replaced == {"1": "2 starts from p = 0.4"}


def test_what_the_caller_says_goes_first(pyg_linear):
    model = gd.learn_dropout(pyg_linear(6, 3), custom={pyg_linear: lambda layer: 2 * layer.weight})
    (block,) = dropout_blocks(model)
    assert torch.equal(block.weight, 2 * model.weight)
    model = nn.Sequential(nn.Linear(6, 6), pyg_linear(-1, 3), pyg_linear(1, 4))
    assert report_of(model).left == {
        "1": "Linear is not initialised yet; run the model once first",
        "2": ALL_OF_IT.format("Linear"),
    }


def test_a_class_of_the_same_name_elsewhere_is_unknown():
    class Conv1D(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(6, 3))

    report = report_of(nn.Sequential(nn.Linear(6, 6), Conv1D()))
    assert report.left == {"1": "Conv1D is not a known layer type; name it in `custom` if it takes one tensor"}


# Layers that read one unit


ALL_OF_IT = "{} reads one unit, and would lose all of its input; name it in `include`"


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv1d(1, 4, 3),
        nn.Conv2d(1, 4, 3),
        nn.ConvTranspose2d(1, 4, 3),
        nn.Linear(1, 4),
        nn.LSTM(1, 4),
        nn.GRU(1, 4, bidirectional=True),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_single_unit_is_not_dropped(layer):
    model = nn.Sequential()
    model.first, model.second = layer, nn.Linear(4, 2)
    report = report_of(model)
    assert report.converted == {"second": "Linear"}
    assert report.left == {"first": ALL_OF_IT.format(type(layer).__name__)}
    assert list(gd.dropout_rates(model)) == ["second"]


@pytest.mark.parametrize(
    ("options", "converted"),
    [
        ({"include": ["0"]}, ["0"]),
        ({"include": ["0", "*"]}, ["0", "1", "2"]),
        ({"include": ["?"]}, ["1", "2"]),
        ({"types": nn.Linear}, ["1"]),
        ({"predicate": lambda name, layer: True}, ["1", "2"]),
    ],
)
def test_one_unit_is_dropped_where_its_layer_is_named(options, converted):
    model = nn.Sequential(nn.Linear(1, 4), nn.Linear(4, 4), nn.Conv2d(4, 4, 3, groups=4))
    assert list(report_of(model, **options).converted) == converted


def test_a_recurrent_module_over_one_unit_drops_what_its_further_layers_read():
    model = gd.learn_dropout(nn.LSTM(1, 4, num_layers=2, bidirectional=True))
    assert list(gd.dropout_rates(model)) == ["ih_l1", "ih_l1_reverse"]
    model = gd.learn_dropout(nn.GRU(1, 4), recurrent=True)
    assert list(gd.dropout_rates(model)) == ["hh_l0"]
    assert list(gd.dropout_rates(gd.learn_dropout(nn.GRU(1, 4), include=[""]))) == ["ih_l0"]


@pytest.mark.parametrize("recurrent", [False, True])
def test_it_runs_as_with_an_input_site_that_drops_nothing(recurrent):
    lstm = nn.LSTM(1, 4, num_layers=2)
    twin = gd.learn_dropout(copy.deepcopy(lstm), include=[""], recurrent=recurrent, p=0.4)
    model = gd.learn_dropout(lstm, recurrent=recurrent, p=0.4)
    set_logit(twin.concrete_dropout["ih_l0"], -60.0)
    for site in (*model.concrete_dropout.values(), *twin.concrete_dropout.values()):
        site.factor_source = bernoulli_factors(
            lambda site, rows: torch.linspace(0.3, 0.9, site.num_units).expand(rows, -1)
        )
    x = torch.randn(5, 3, 1)
    torch.testing.assert_close(model(x)[0], twin(x)[0])
    model.train()
    for site in model.concrete_dropout.values():
        site.factor_source = None
    model(x)[0].sum().backward()
    assert all(each.scaled_logit.grad.any() for each in model.concrete_dropout.values())


def test_a_network_over_one_column():
    from gumdrop.networks import mlp

    assert list(gd.dropout_rates(mlp(1, 2))) == ["2", "4"]
    assert list(gd.dropout_rates(mlp(1, 2, hidden=[]))) == ["0"]  # a line: there is nothing else
