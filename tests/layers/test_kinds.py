"""What is known of each type of layer, and of the dropout that modules have inside."""

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.layers import KINDS, inner_dropout, kind_of

LAYERS = {
    nn.Linear: lambda: nn.Linear(3, 4),
    **{cls: lambda cls=cls: cls(3, 4, 1) for cls in (nn.Conv1d, nn.Conv2d, nn.Conv3d)},
    **{cls: lambda cls=cls: cls(3, 4, 1) for cls in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)},
    nn.Embedding: lambda: nn.Embedding(5, 4),
    **{cls: lambda cls=cls: cls(3, 4) for cls in (nn.LSTM, nn.GRU, nn.RNN)},
    nn.MultiheadAttention: lambda: nn.MultiheadAttention(4, 2),
}
"""One layer of each type that can be made."""


def test_each_type_has_an_example():
    public = {cls for kind in KINDS for cls in kind.types if not cls.__name__.startswith("_")}
    assert public - {nn.RNNBase} == LAYERS.keys()


@pytest.mark.parametrize("cls", LAYERS)
def test_a_layer_is_of_the_kind_that_lists_its_type(cls):
    assert cls in kind_of(LAYERS[cls]()).types
    assert cls in kind_of(object.__new__(type("Own", (cls,), {}))).types


def test_other_modules_are_of_no_kind():
    assert kind_of(nn.ReLU()) is None
    assert kind_of(nn.Bilinear(2, 2, 2)) is None


@pytest.mark.parametrize("cls", LAYERS)
def test_the_weight_has_the_inputs_where_the_row_says(cls):
    layer, kind = LAYERS[cls](), kind_of(LAYERS[cls]())
    if kind.weight_input_dim is not None:
        assert layer.weight.shape[kind.weight_input_dim] == getattr(layer, kind.num_inputs) == 3


@pytest.mark.parametrize("cls", [cls for cls in LAYERS if kind_of(LAYERS[cls]()).keeps_rows_apart])
def test_rows_are_kept_apart_where_the_row_says(cls):
    layer = LAYERS[cls]()
    x = torch.randn(5, 3, *[4] * (layer.weight.ndim - 2))
    torch.testing.assert_close(layer(x)[1:2], layer(x[1:2]))


@pytest.mark.parametrize("cls", [cls for cls in LAYERS if kind_of(LAYERS[cls]()).last_dimension_only])
def test_positions_are_kept_apart_where_the_row_says(cls):
    layer, x = LAYERS[cls](), torch.randn(5, 6, 3)
    torch.testing.assert_close(layer(x)[:, 1], layer(x[:, 1]))


@pytest.mark.parametrize(
    ("module", "what"),
    [
        (nn.AlphaDropout(0.1), "of its input"),
        (nn.AlphaDropout(0.0), None),
        (nn.MultiheadAttention(4, 2, dropout=0.1), "of attention weights"),
        (nn.MultiheadAttention(4, 2), None),
        (nn.LSTM(3, 4, num_layers=2, dropout=0.1), "between layers"),
        (nn.LSTM(3, 4, num_layers=2), None),
        (nn.Dropout(0.1), None),
        (nn.Linear(2, 2), None),
    ],
)
def test_dropout_inside(module, what):
    assert inner_dropout(module) == what


def test_what_learned_rates_have_taken_over_is_not_inside():
    module = gd.learn_dropout(nn.LSTM(3, 4, num_layers=2, dropout=0.5, batch_first=True))
    assert inner_dropout(module) is None
