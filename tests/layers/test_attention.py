"""MultiheadAttention and the transformer layers of PyTorch, whose projections are called as functions."""

import copy
import functools
import itertools

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.layers import dropout_blocks

from builders.masks import force_each

P = 0.4
BATCH, TIME, WIDTH, HEADS = 3, 5, 6, 2

MODULES = {
    "plain": {},
    "batch_first": {"batch_first": True},
    "sizes": {"kdim": 4, "vdim": 7},
    "sizes, batch_first": {"kdim": 4, "vdim": 7, "batch_first": True},
    "no bias": {"bias": False},
    "no bias, sizes": {"bias": False, "vdim": 7, "batch_first": True},
    "bias_kv": {"add_bias_kv": True},
    "zero_attn": {"add_zero_attn": True, "batch_first": True},
    "both": {"add_bias_kv": True, "add_zero_attn": True, "kdim": 4},
}
modules = pytest.mark.parametrize("options", MODULES.values(), ids=MODULES.keys())
need_weights = pytest.mark.parametrize("need_weights", [True, False], ids=["weights", "no weights"])

MASKS = {
    "none": lambda batch: {},
    "padding": lambda batch: {"key_padding_mask": padding()[: BATCH if batch else 1].squeeze(0)},
    "causal": lambda batch: {"attn_mask": torch.triu(torch.ones(TIME, TIME, dtype=torch.bool), 1)},
    "additive": lambda batch: {"attn_mask": torch.randn(TIME, TIME)},
    "each head": lambda batch: {"attn_mask": torch.randn((BATCH if batch else 1) * HEADS, TIME, TIME) > 1},
    "two": lambda batch: {**MASKS["padding"](batch), **MASKS["causal"](batch)},
    "hint": lambda batch: {**MASKS["causal"](batch), "is_causal": True},
}


def padding():
    mask = torch.zeros(BATCH, TIME, dtype=torch.bool)
    mask[0, 3:] = mask[1, 4:] = True
    return mask


def make(**options):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(WIDTH, HEADS, **options)
    with torch.no_grad():
        for parameter in module.parameters():  # no bias is 0 and no term is small
            parameter.normal_()
    return module


def make_inputs(module, batch=True):
    """Query, key and value; they are one tensor where the sizes allow it."""
    shape = (BATCH, TIME) if module.batch_first else (TIME, BATCH)
    shape = shape if batch else (TIME,)
    if module._qkv_same_embed_dim:
        return (torch.randn(*shape, WIDTH),) * 3
    return tuple(torch.randn(*shape, size) for size in (WIDTH, module.kdim, module.vdim))


def twin_of(module, factors, row):
    """PyTorch's module for one example: columns of its four weights zeroed and rescaled."""
    twin = copy.deepcopy(module)
    with torch.no_grad():
        for name, factor in factors.items():
            weight = twin.out_proj.weight if name == "out_proj" else getattr(twin, f"{name}_weight")
            weight.mul_(factor[row % len(factor)])
    return twin


def assert_same(actual, expected, **tolerance):
    torch.testing.assert_close(actual[0], expected[0], **tolerance)
    assert (actual[1] is None) is (expected[1] is None)
    if expected[1] is not None:
        torch.testing.assert_close(actual[1], expected[1], **tolerance)


# Nothing dropped


@modules
def test_vanishing_rates_give_the_result_of_pytorch(options):
    asked = ({}, {"average_attn_weights": False}, {"need_weights": False})
    for weights, mask, batch in itertools.product(asked, MASKS.values(), (True, False)):
        module = make(**options)
        inputs, chosen = make_inputs(module, batch), mask(batch) | weights
        expected = module(*inputs, **chosen)
        converted = gd.learn_dropout(module, p=1e-12)
        assert_same(converted(*inputs, **chosen), expected)
        with torch.no_grad():
            assert_same(converted(*inputs, **chosen), expected)


@need_weights
@modules
def test_vanishing_rates_give_the_gradients_of_pytorch(options, need_weights):
    module = make(**options).double()
    converted = gd.learn_dropout(copy.deepcopy(module), p=1e-12)
    inputs, chosen = [x.double() for x in make_inputs(module)], MASKS["two"](True)
    for each in (module, converted):
        each(*inputs, need_weights=need_weights, **chosen)[0].square().sum().backward()
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(converted.get_parameter(name).grad, parameter.grad, msg=name)


# Known masks


@pytest.mark.parametrize("mask", ["none", "two"])
@pytest.mark.parametrize("batch", [True, False])
@need_weights
@modules
def test_known_masks_zero_columns_of_the_weights(options, need_weights, batch, mask):
    module = make(**options)
    inputs, chosen = make_inputs(module, batch), MASKS[mask](batch)
    converted = gd.learn_dropout(copy.deepcopy(module), p=P)
    rows = BATCH if batch else 1
    factors = force_each(converted, rows, P)
    query, key, value = inputs
    output, weights = converted(value=value, query=query, key=key, need_weights=need_weights, **chosen)
    assert (weights is not None) is need_weights
    dim = 0 if module.batch_first else 1
    for row in range(rows):
        own = tuple(x.select(dim, row) for x in inputs) if batch else inputs
        padded = chosen.get("key_padding_mask")
        own_masks = chosen | ({"key_padding_mask": padded[row] if batch else padded} if padded is not None else {})
        expected, expected_weights = twin_of(module, factors, row)(*own, need_weights=need_weights, **own_masks)
        # Sums of terms of up to 20: the last digits of float32 are those of the kernels.
        torch.testing.assert_close(output.select(dim, row) if batch else output, expected, rtol=1e-5, atol=1e-4)
        if need_weights:
            torch.testing.assert_close(weights[row] if batch else weights, expected_weights, rtol=1e-5, atol=1e-5)


def test_cross_attention_shares_the_mask_of_the_stacked_projection():
    module = make()
    query = torch.randn(2, BATCH, WIDTH)
    memory = torch.randn(TIME, BATCH, WIDTH)
    converted = gd.learn_dropout(copy.deepcopy(module), p=P)
    factors = force_each(converted, BATCH, P)
    output, _ = converted(query, memory, memory)
    for row in range(BATCH):
        expected, _ = twin_of(module, factors, row)(query[:, row], memory[:, row], memory[:, row])
        torch.testing.assert_close(output[:, row], expected)


@modules
def test_sites_and_blocks(options):
    module = gd.learn_dropout(make(**options), p=P)
    separate = not module._qkv_same_embed_dim
    sizes = {"q_proj": WIDTH, "k_proj": module.kdim, "v_proj": module.vdim} if separate else {"in_proj": WIDTH}
    sizes["out_proj"] = WIDTH
    assert {name: site.num_units for name, site in module.concrete_dropout.named_children()} == sizes
    biases = []
    for block in dropout_blocks(module):
        weight = module.out_proj.weight if block.name == "out_proj" else getattr(module, f"{block.name}_weight")
        assert block.weight is weight
        assert block.fan_in == block.site.num_units == weight.shape[1]
        biases += [id(bias) for bias in block.biases]
    expected = [] if module.in_proj_bias is None else [id(module.in_proj_bias), id(module.out_proj.bias)]
    assert biases == expected
    assert list(gd.dropout_rates(module)) == list(sizes)


@pytest.mark.parametrize("batch_first", [True, False])
def test_relaxed_masks_are_those_of_examples_and_not_of_positions(batch_first):
    module = gd.learn_dropout(make(batch_first=batch_first), p=0.5)
    x = torch.ones(BATCH, TIME, WIDTH) if batch_first else torch.ones(TIME, BATCH, WIDTH)
    output = module(x, x, x)[0].detach()
    output = output if batch_first else output.transpose(0, 1)
    torch.testing.assert_close(output, output[:, :1].expand_as(output))
    assert len(output[:, 0].unique(dim=0)) == BATCH


# Gradients, dtypes, refusals


OTHER_SIZES = {
    **{f"value of {shape}": ({}, [None, None, shape]) for shape in [(TIME, BATCH, 1), (TIME, 1, WIDTH), (TIME, WIDTH)]},
    **{f"key of {shape}": ({}, [None, shape, None]) for shape in [(TIME, BATCH, 1), (TIME, 1, WIDTH), (TIME, WIDTH)]},
    "query": ({}, [(TIME, BATCH, 1)] * 3),
    "key of another batch": ({"kdim": 4, "vdim": 7}, [None, (TIME, 1, 4), (TIME, 1, 7)]),
}


@pytest.mark.parametrize("name", OTHER_SIZES)
def test_inputs_of_another_shape_are_refused_and_not_broadcast(name):
    options, shapes = OTHER_SIZES[name]
    module = gd.learn_dropout(make(**options), p=P)
    inputs = [x if shape is None else torch.randn(shape) for x, shape in zip(make_inputs(module), shapes, strict=True)]
    units = options.get("kdim", WIDTH)
    message = f"`{name.split()[0]}` must have {units} units at its last dimension and as many examples as `query`, 3,"
    with pytest.raises(ValueError, match=message):
        module(*inputs)


@need_weights
@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ({"attn_mask": torch.zeros(1, TIME)}, "must be boolean or floating, of shape"),
        ({"attn_mask": torch.zeros(TIME, TIME, dtype=torch.int64)}, "must be boolean or floating, of shape"),
        ({"attn_mask": torch.zeros(HEADS, TIME, TIME)}, "must be boolean or floating, of shape"),
        ({"key_padding_mask": torch.zeros(1, TIME)}, "must be boolean or floating, of shape"),
        ({"key_padding_mask": torch.zeros(BATCH, TIME, dtype=torch.uint8)}, "must be boolean or floating, of shape"),
        ({"attn_mask": None, "is_causal": True}, "must hold the mask that `is_causal` is a hint about"),
    ],
)
def test_masks_that_would_broadcast_or_be_read_as_numbers_are_refused(mask, message, need_weights):
    module = gd.learn_dropout(make(), p=P)
    with pytest.raises(ValueError, match=f"`{next(iter(mask))}` {message}"):
        module(*make_inputs(module), need_weights=need_weights, **mask)


@need_weights
def test_dropout_of_attention_weights_stays_and_is_reported(need_weights):
    reports = []
    module = gd.learn_dropout(make(dropout=0.25), p=1e-12, report=reports.append)
    assert reports[0].left == {
        "dropout": "dropout of attention weights, p = 0.25; it acts as before, on top of learned rates"
    }
    inputs = make_inputs(module)
    call = functools.partial(module, *inputs, need_weights=need_weights)
    assert not torch.equal(call()[0], call()[0])
    assert torch.equal(module.eval()(*inputs, need_weights=need_weights)[0], call()[0])


# Transformers


def encoder_layer(**options):
    return nn.TransformerEncoderLayer(WIDTH, HEADS, dim_feedforward=8, **options)


def encoder(**options):
    nested = options.get("batch_first", False) and not options.get("norm_first", False)
    return nn.TransformerEncoder(encoder_layer(**options), num_layers=2, enable_nested_tensor=nested)


class Decoder(nn.Module):
    """A decoder layer that attends to its own input, to be called like an encoder."""

    def __init__(self, **options):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(WIDTH, HEADS, dim_feedforward=8, **options)

    def forward(self, x, src_key_padding_mask=None):
        return self.layer(
            x, x.flip(-1), tgt_key_padding_mask=src_key_padding_mask, memory_key_padding_mask=src_key_padding_mask
        )


TRANSFORMERS = {"layer": encoder_layer, "encoder": encoder, "decoder": Decoder}
transformers = pytest.mark.parametrize("build", TRANSFORMERS.values(), ids=TRANSFORMERS.keys())
norm_first = pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
batch_first = pytest.mark.parametrize("batch_first", [False, True], ids=["time first", "batch first"])


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype stage:UserWarning")
@batch_first
@norm_first
@transformers
def test_eval_output_of_a_transformer_stays(build, norm_first, batch_first):
    for mask, context in itertools.product((None, padding()), (torch.no_grad, torch.enable_grad)):
        model = build(norm_first=norm_first, batch_first=batch_first).eval()
        x = torch.randn(BATCH, TIME, WIDTH) if batch_first else torch.randn(TIME, BATCH, WIDTH)
        with context():
            expected = model(x, src_key_padding_mask=mask)
            actual = gd.learn_dropout(model)(x, src_key_padding_mask=mask)
        real = torch.ones(BATCH, TIME, dtype=torch.bool) if mask is None else ~mask
        real = real if batch_first else real.T
        torch.testing.assert_close(actual[real], expected[real])


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@batch_first
@norm_first
@transformers
def test_draws_of_a_transformer_differ_without_gradients(build, norm_first, batch_first, padded):
    """PyTorch's fused path would skip every site, silently."""
    model = gd.learn_dropout(build(norm_first=norm_first, batch_first=batch_first, dropout=0.0), p=0.5).eval()
    x = torch.randn(BATCH, TIME, WIDTH) if batch_first else torch.randn(TIME, BATCH, WIDTH)
    mask = padding() if padded else None
    sampler, function = gd.draw(model, seed=0, fresh=True), gd.draw(model, seed=0)
    with torch.no_grad():
        expected = model(x, src_key_padding_mask=mask)
        first, second = (sampler(x, src_key_padding_mask=mask) for _ in range(2))
        one, other = (function(x, src_key_padding_mask=mask) for _ in range(2))
        assert torch.equal(one, other)
        assert torch.equal(model(x, src_key_padding_mask=mask), expected)
    assert not torch.allclose(first, second)
    assert first.shape == expected.shape


@batch_first
@norm_first
@transformers
def test_every_site_of_a_transformer_acts_and_learns(build, norm_first, batch_first):
    """Each site alone changes the output; a site that never fired would pass for a converted one."""
    model = gd.learn_dropout(build(norm_first=norm_first, batch_first=batch_first, dropout=0.0), p=0.5)
    x = torch.randn(BATCH, TIME, WIDTH) if batch_first else torch.randn(TIME, BATCH, WIDTH)
    model(x).square().sum().backward()
    expected = model.eval()(x)
    for block in dropout_blocks(model):
        assert block.site.scaled_logit.grad.abs() > 0, block.name
        block.site.train()
        assert not torch.equal(model(x), expected), block.name
        block.site.eval()


@batch_first
def test_feed_forward_masks_are_those_of_examples(batch_first):
    model = gd.learn_dropout(encoder_layer(batch_first=batch_first, dropout=0.0), p=0.5)
    sites = [model.linear1.concrete_dropout, model.linear2.concrete_dropout]
    x = torch.randn(BATCH, TIME, WIDTH) if batch_first else torch.randn(TIME, BATCH, WIDTH)
    seen = []
    for site in sites:
        site.register_forward_hook(lambda site, args, output: seen.append((output / args[0]).detach()))
    with torch.no_grad():
        model.linear1.weight.abs_()
        model.linear1.bias.fill_(20.0)  # no hidden unit is exactly 0
    model(x)
    for scale in seen:
        scale = scale if batch_first else scale.transpose(0, 1)
        torch.testing.assert_close(scale, scale[:, :1].expand_as(scale))
        assert len(scale[:, 0].unique(dim=0)) == BATCH


@transformers
def test_dropout_in_front_of_the_second_linear_layer_is_taken_over(build):
    reports = []
    model = gd.learn_dropout(build(dropout=0.3), p=0.05, report=reports.append)
    for name, module in model.named_modules():
        if isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
            inside = f"{name}." if name else ""
            assert isinstance(module.dropout, nn.Identity)
            assert isinstance(module.dropout1, nn.Dropout)
            assert reports[0].replaced[f"{inside}dropout"] == f"{inside}linear2 starts from p = 0.3"
            assert "acts as before" in reports[0].left[f"{inside}dropout1"]
            assert gd.dropout_rates(model)[f"{inside}linear2"] == pytest.approx(0.3)
            assert gd.dropout_rates(model)[f"{inside}linear1"] == pytest.approx(0.05)


def test_dropout_stays_where_it_feeds_more_than_the_second_linear_layer():
    class Gated(nn.TransformerEncoderLayer):
        def _ff_block(self, x):
            hidden = self.dropout(self.activation(self.linear1(x)))
            return self.linear2(hidden) + hidden[..., :WIDTH]

    model = gd.learn_dropout(Gated(WIDTH, HEADS, dim_feedforward=8, dropout=0.3), p=0.05)
    assert isinstance(model.dropout, nn.Dropout)
    model = gd.learn_dropout(encoder_layer(dropout=0.3), exclude=["linear2"])
    assert isinstance(model.dropout, nn.Dropout)


def test_nested_tensors_are_given_up_for_converted_layers_only():
    model = nn.Sequential(encoder(batch_first=True), encoder(batch_first=True))
    gd.learn_dropout(model, include=["1.*"])
    assert [part.use_nested_tensor for part in model] == [True, False]


def test_a_model_that_was_not_run_drops_the_heads_of_its_first_prediction():
    x = torch.randn(BATCH, TIME, WIDTH)
    model = gd.learn_dropout(encoder_layer(dropout=0.5), plain_dropout="learn", p=0.4)
    new, used = (copy.deepcopy(model) for _ in range(2))
    used.train()(x)
    draws = [torch.stack(list(gd.sample(each, x, num_samples=8, seed=0))) for each in (new, new, used)]
    torch.testing.assert_close(draws[0], draws[1])
    torch.testing.assert_close(draws[0], draws[2])


def test_whole_transformer():
    model = nn.Transformer(WIDTH, HEADS, 1, 1, 8, dropout=0.2, batch_first=True)
    gd.learn_dropout(model, p=0.1)
    projections = ("in_proj", "out_proj")
    assert list(gd.dropout_rates(model)) == [
        *(f"encoder.layers.0.self_attn.{name}" for name in projections),
        *("encoder.layers.0.linear1", "encoder.layers.0.linear2"),
        *(f"decoder.layers.0.{part}.{name}" for part in ("self_attn", "multihead_attn") for name in projections),
        *("decoder.layers.0.linear1", "decoder.layers.0.linear2"),
    ]
    x = torch.randn(BATCH, TIME, WIDTH)
    draws = gd.sample(model, (x, x), num_samples=2, seed=0)
    assert not torch.allclose(draws[0], draws[1])
