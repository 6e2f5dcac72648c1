"""What is known of each type of layer, and of the dropout that modules have inside."""

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.layers import KINDS
from gumdrop.layers.kinds import inner_dropout, kind_of

LAYERS = {
    nn.Linear: lambda: nn.Linear(3, 4),
    **{cls: lambda cls=cls: cls(3, 4, 1) for cls in (nn.Conv1d, nn.Conv2d, nn.Conv3d)},
    **{cls: lambda cls=cls: cls(3, 4, 1) for cls in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)},
    nn.Embedding: lambda: nn.Embedding(5, 4),
    **{cls: lambda cls=cls: cls(3, 4) for cls in (nn.LSTM, nn.GRU, nn.RNN, nn.LSTMCell, nn.GRUCell, nn.RNNCell)},
    nn.MultiheadAttention: lambda: nn.MultiheadAttention(4, 2),
}
"""One layer of each type that can be made."""


def test_each_type_has_an_example():
    public = {cls for kind in KINDS for cls in kind.types if not cls.__name__.startswith("_")}
    assert public - {nn.RNNBase, nn.RNNCellBase} == LAYERS.keys()


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
    assert (kind.weight_input_dim is not None) == (hasattr(layer, "weight") and kind.num_inputs is not None)
    if kind.weight_input_dim is not None:
        assert layer.weight.shape[kind.weight_input_dim] == getattr(layer, kind.num_inputs) == 3


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


# What holds of every layer


def sequence():
    return (torch.randn(4, 3, 6),)


EXAMPLES = {
    "Linear": (lambda: nn.Linear(6, 4), lambda: (torch.randn(5, 3, 6),)),
    "Conv1d": (lambda: nn.Conv1d(6, 4, 3, groups=2), lambda: (torch.randn(5, 6, 7),)),
    "Conv2d": (lambda: nn.Conv2d(6, 12, 3, groups=6, bias=False), lambda: (torch.randn(5, 6, 4, 5),)),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(6, 4, 2), lambda: (torch.randn(5, 6, 2, 3, 2),)),
    "Embedding": (lambda: nn.Embedding(9, 4), lambda: (torch.arange(9).repeat(2).reshape(6, 3),)),
    "LSTM": (lambda: nn.LSTM(6, 4, num_layers=2, bidirectional=True), sequence),
    "LSTM without bias": (lambda: nn.LSTM(6, 4, bias=False), sequence),
    "GRU": (lambda: nn.GRU(6, 4, num_layers=2, bidirectional=True), sequence),
    "RNN": (lambda: nn.RNN(6, 4, num_layers=2, bidirectional=True), sequence),
    "attention": (lambda: nn.MultiheadAttention(6, 2), lambda: sequence() * 3),
    "attention of several sizes": (
        lambda: nn.MultiheadAttention(6, 2, kdim=4, vdim=7, bias=False, add_bias_kv=True),
        lambda: (torch.randn(4, 3, 6), torch.randn(4, 3, 4), torch.randn(4, 3, 7)),
    ),
}
examples = pytest.mark.parametrize(("make", "inputs"), EXAMPLES.values(), ids=EXAMPLES)


def converted(layer, **options):
    return gd.learn_dropout(layer, embeddings=True, recurrent=True, **options)


def first_of(result):
    return result if isinstance(result, torch.Tensor) else result[0]


def floating(inputs, dtype):
    return [x.to(dtype) if x.is_floating_point() else x for x in inputs]


@examples
@pytest.mark.parametrize("context", [torch.no_grad, torch.enable_grad])
def test_class_weights_keys_and_the_output_in_eval_stay(make, inputs, context):
    layer, x = make().eval(), inputs()
    keys, parameters, cls = list(layer.state_dict()), dict(layer.named_parameters()), type(layer)
    with context():
        expected = first_of(layer(*x))
        assert torch.equal(first_of(converted(layer, p=0.5)(*x)), expected)
        assert not torch.equal(first_of(layer.train()(*x)), expected)
    assert type(layer) is cls
    assert [key for key in layer.state_dict() if "concrete_dropout" not in key] == keys
    assert all(layer.get_parameter(name) is parameter for name, parameter in parameters.items())


@examples
def test_gradients_reach_every_weight_and_rate_and_inputs_stay(make, inputs):
    layer, x = converted(make(), p=0.3), inputs()
    before = [value.clone() for value in x]
    first_of(layer(*x)).square().sum().backward()
    assert all(torch.equal(*pair) for pair in zip(x, before, strict=True))
    for name, value in layer.named_parameters():
        assert value.grad is not None, name
        assert value.grad.isfinite().all(), name
        assert value.grad.any(), name


@examples
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_activations_keep_their_dtype(make, inputs, dtype):
    layer = converted(make().to(dtype))
    output = first_of(layer(*floating(inputs(), dtype)))
    assert output.dtype == dtype
    output.float().square().sum().backward()
    assert all(value.grad.isfinite().all() for value in layer.parameters())


@examples
def test_autocast_gives_what_it_gives_without_dropout(make, inputs):
    layer, x = make(), inputs()
    with torch.autocast("cpu", torch.bfloat16):
        try:
            expected = first_of(layer(*x))
        except RuntimeError as error:  # an LSTM in bfloat16 on a processor without AVX512
            pytest.skip(f"PyTorch cannot do it here: {error}")
        output = first_of(gd.learn_dropout(layer, p=1e-12, embeddings=True)(*x))
    assert output.dtype == expected.dtype
    torch.testing.assert_close(output, expected, rtol=0.05, atol=0.02)
