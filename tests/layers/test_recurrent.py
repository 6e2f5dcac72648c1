"""LSTM, GRU and RNN: PyTorch's numbers where nothing is dropped, and columns of the weights where something is."""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import gumdrop as gd
from gumdrop.layers import UNIT, dropout_blocks

from builders.masks import force_each

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")  # PyTorch's own, once a process

P = 0.4
BATCH, TIME, INPUTS, HIDDEN = 3, 4, 5, 4

MODES = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "tanh": lambda *args, **options: nn.RNN(*args, nonlinearity="tanh", **options),
    "relu": lambda *args, **options: nn.RNN(*args, nonlinearity="relu", **options),
    "projected": lambda *args, **options: nn.LSTM(*args, proj_size=2, **options),
}
modes = pytest.mark.parametrize("mode", MODES)
inputs = pytest.mark.parametrize("kind", ["time_first", "batch_first", "unbatched", "sorted", "unsorted"])
recurrence = pytest.mark.parametrize("recurrent", [False, True], ids=["input", "recurrent"])


def make(mode, num_layers=1, bidirectional=False, **options):
    torch.manual_seed(0)
    return MODES[mode](INPUTS, HIDDEN, num_layers=num_layers, bidirectional=bidirectional, **options)


def make_input(kind):
    if kind == "unbatched":
        return torch.randn(TIME, INPUTS)
    if kind in ("sorted", "unsorted"):
        lengths = [4, 3, 1] if kind == "sorted" else [1, 4, 3]
        return pack_padded_sequence(torch.randn(TIME, BATCH, INPUTS), lengths, enforce_sorted=kind == "sorted")
    return torch.randn(BATCH, TIME, INPUTS) if kind == "batch_first" else torch.randn(TIME, BATCH, INPUTS)


def make_state(module, kind):
    count = module.num_layers * (2 if module.bidirectional else 1)
    batch = () if kind == "unbatched" else (BATCH,)
    hidden = torch.randn(count, *batch, getattr(module, "proj_size", 0) or HIDDEN)
    return (hidden, torch.randn(count, *batch, HIDDEN)) if module.mode == "LSTM" else hidden


def leaves(result):
    """List the tensors of what a recurrent module returns."""
    if result is None:
        return []
    return [result] if isinstance(result, torch.Tensor) else [leaf for part in result for leaf in leaves(part)]


def assert_same(actual, expected, **tolerance):
    assert type(actual[0]) is type(expected[0])
    actual, expected = leaves(actual), leaves(expected)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, **tolerance)


def twin_of(module, factors, row):
    """PyTorch's module for one sequence: columns of its weights zeroed and rescaled."""
    twin = copy.deepcopy(module)
    with torch.no_grad():
        for name, factor in factors.items():
            getattr(twin, f"weight_{name}").mul_(factor[row % len(factor)])
    return twin


# Nothing dropped


@inputs
@modes
def test_vanishing_rates_give_the_output_and_state_of_pytorch(mode, kind):
    for num_layers, bidirectional, given, recurrent in itertools.product((1, 2), *3 * [(False, True)]):
        module = make(mode, num_layers, bidirectional, batch_first=kind == "batch_first")
        x = make_input(kind)
        state = make_state(module, kind) if given else None
        expected = module(x, state)
        actual = gd.learn_dropout(module, p=1e-12, recurrent=recurrent)(x, state)
        assert_same(actual, expected)  # and of the same shapes
        assert isinstance(actual[1], tuple) is (module.mode == "LSTM")


@pytest.mark.parametrize("kind", ["time_first", "unsorted"])
@modes
def test_modules_without_bias(mode, kind):
    module = make(mode, 2, True, bias=False)
    x = make_input(kind)
    expected = module(x)
    assert_same(gd.learn_dropout(copy.deepcopy(module), p=1e-12, recurrent=True)(x), expected)
    assert_same(gd.learn_dropout(copy.deepcopy(module), p=1e-12)(x), expected)


def test_keyword_arguments_and_a_state_as_a_list():
    module = gd.learn_dropout(make("lstm"), p=P)
    force_each(module, BATCH, P)
    x, state = make_input("time_first"), make_state(module, "time_first")
    assert_same(module(hx=state, input=x), module(x, state), rtol=0, atol=0)
    assert_same(module(x, list(state)), module(x, state), rtol=0, atol=0)


# Known masks


def _rows_of(result, kind, row, length):
    """Output and final state of one sequence, as the module gives them for an unbatched one."""
    output, state = result
    if isinstance(output, PackedSequence):
        output = pad_packed_sequence(output)[0]
    output = output if kind == "unbatched" else output[row] if kind == "batch_first" else output[:, row]
    return output[:length], [part if kind == "unbatched" else part[:, row] for part in leaves(state)]


@inputs
@modes
def test_known_masks_zero_columns_of_the_weights(mode, kind):
    for choices in itertools.product((1, 2), *3 * [(False, True)]):
        check_known_masks(mode, kind, *choices)


def check_known_masks(mode, kind, num_layers, bidirectional, shared, recurrent):
    module = make(mode, num_layers, bidirectional, batch_first=kind == "batch_first")
    x = make_input(kind)
    state = make_state(module, kind)
    converted = gd.learn_dropout(copy.deepcopy(module), p=P, recurrent=recurrent)
    rows = 1 if kind == "unbatched" else BATCH
    factors = force_each(converted, 1 if shared else rows, P)
    result = converted(x, state)

    if isinstance(x, PackedSequence):
        sequences, lengths = pad_packed_sequence(x)
    else:
        sequences = x.unsqueeze(1) if kind == "unbatched" else x.transpose(0, 1) if kind == "batch_first" else x
        lengths = [TIME] * rows
    for row in range(rows):
        own_state = [part if kind == "unbatched" else part[:, row] for part in leaves(state)]
        own_state = tuple(own_state) if module.mode == "LSTM" else own_state[0]
        expected, final = twin_of(module, factors, row)(sequences[: lengths[row], row], own_state)
        actual, actual_final = _rows_of(result, kind, row, lengths[row])
        torch.testing.assert_close(actual, expected)
        for one, other in zip(actual_final, leaves(final), strict=True):
            torch.testing.assert_close(one, other)


@recurrence
@modes
def test_sites_are_in_front_of_each_layer_and_direction(mode, recurrent):
    module = gd.learn_dropout(make(mode, 2, True), p=P, recurrent=recurrent)
    width = 2 if mode == "projected" else HIDDEN
    inputs = {"ih_l0": INPUTS, "ih_l0_reverse": INPUTS, "ih_l1": 2 * width, "ih_l1_reverse": 2 * width}
    hidden = {name.replace("ih", "hh"): width for name in inputs} if recurrent else {}
    sites = module.concrete_dropout
    assert {name: site.num_units for name, site in sites.named_children()} == inputs | hidden
    assert list(gd.dropout_rates(module)) == [block.name for block in dropout_blocks(module)]
    for block in dropout_blocks(module):
        part, suffix = block.name.split("_", 1)
        assert block.site is sites[block.name]
        assert block.weight is getattr(module, f"weight_{part}_{suffix}")
        assert [id(bias) for bias in block.biases] == [id(getattr(module, f"bias_{part}_{suffix}"))]
        assert block.fan_in == block.site.num_units


def test_relaxed_masks_are_the_same_at_all_time_steps():
    """With W_hh = 0 and no bias the steps are independent, so equal inputs give equal outputs."""
    module = nn.RNN(6, 6, nonlinearity="relu", bias=False)
    with torch.no_grad():
        module.weight_hh_l0.zero_()
        module.weight_ih_l0.copy_(torch.eye(6))
    gd.learn_dropout(module, p=0.5)
    scale = module(torch.ones(TIME, BATCH, 6))[0].detach()
    assert (scale == scale[:1]).all()
    assert len(scale[0].unique(dim=0)) == BATCH
    assert ((scale > 1e-3) & (scale < 1.999)).any()  # relaxed, not hard


def test_relaxed_recurrent_masks_are_the_same_at_all_time_steps():
    """With W_ih = 0, W_hh = I and h_0 = 1 the state is the scale to the power of the step."""
    module = nn.RNN(6, 6, nonlinearity="relu", bias=False)
    with torch.no_grad():
        module.weight_ih_l0.zero_()
        module.weight_hh_l0.copy_(torch.eye(6))
    gd.learn_dropout(module, p=0.5, recurrent=True)
    output = module(torch.zeros(TIME, BATCH, 6), torch.ones(1, BATCH, 6))[0].detach().double()
    for step in range(TIME):
        torch.testing.assert_close(output[step], output[0] ** (step + 1), rtol=1e-5, atol=1e-7)


# Gradients, dtypes, modes


@recurrence
@pytest.mark.parametrize("mode", ["lstm", "gru", "tanh"])
def test_gradient_of_a_rate_is_that_of_finite_differences(mode, recurrent):
    module = gd.learn_dropout(make(mode).double(), p=P, recurrent=recurrent)
    x = make_input("time_first").double()
    logits = [site.p_logit.detach().requires_grad_() for site in module.concrete_dropout.children()]

    def scaled(logit):
        """The parameter of a site, with the factor that its own gradient lacks."""
        return logit.detach() / UNIT + UNIT * (logit - logit.detach())

    def output(*values):
        torch.manual_seed(3)
        named = {
            f"concrete_dropout.{name}.scaled_logit": scaled(value) for name, value in zip(names, values, strict=True)
        }
        return torch.func.functional_call(module, named, (x,))[0].sum()

    names = [name for name, _ in module.concrete_dropout.named_children()]
    assert torch.autograd.gradcheck(output, logits)


@pytest.mark.parametrize("kind", ["unbatched", "unsorted"])
@recurrence
def test_sampling_draws_and_restores(kind, recurrent):
    module = gd.learn_dropout(make("lstm", 2, True), p=P, recurrent=recurrent).eval()
    x = make_input(kind)
    with torch.no_grad():
        expected = module(x)
        drawn = gd.draw(module, seed=0, fresh=True)
        first = drawn(x)
        assert not torch.equal(leaves(drawn(x))[0], leaves(first)[0])
        drawn = gd.draw(module, seed=0, shared=False, fresh=True)
        assert leaves(drawn(x))[0].shape == leaves(first)[0].shape
        drawn = gd.draw(module, seed=0)
        assert_same(drawn(x), drawn(x), rtol=0, atol=0)
        assert_same(module(x), expected, rtol=0, atol=0)


# What must be refused as PyTorch refuses it


@recurrence
@pytest.mark.parametrize(
    ("kind", "state"),
    [
        *(("time_first", state) for state in [(1, BATCH, 1), (1, 1, HIDDEN), (2, BATCH, HIDDEN), (BATCH, HIDDEN)]),
        ("time_first", (1, BATCH, HIDDEN + 1)),
        ("unbatched", (1, 1, HIDDEN)),
    ],
)
def test_states_of_another_shape_are_refused_and_not_broadcast(kind, state, recurrent):
    module = gd.learn_dropout(make("gru"), p=P, recurrent=recurrent)
    with pytest.raises(ValueError, match="`hx` must hold a state of shape"):
        module(make_input(kind), torch.randn(state))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(TIME, BATCH, 1), (TIME, 1), (TIME, BATCH, INPUTS + 1)])
def test_inputs_of_another_size_are_refused_and_not_broadcast(shape, training):
    module, x = gd.learn_dropout(make("lstm"), p=P).train(training), torch.randn(shape)
    with pytest.raises((RuntimeError, ValueError), match="input_size"):
        module(x)
    if x.ndim == 3:
        with pytest.raises((RuntimeError, ValueError), match="input_size"):
            module.train()(pack_padded_sequence(x, [4, 3, 1]))


# What a converted module is


def test_one_inactive_site_leaves_its_weights_alone():
    module = gd.learn_dropout(make("lstm"), p=P, recurrent=True)
    x = make_input("time_first")
    factors = force_each(module, BATCH, P)
    hh = module.concrete_dropout["hh_l0"].eval()
    hh.factor_source = None
    result = module(x)[0]
    plain = make("lstm")
    del factors["hh_l0"]
    for row in range(BATCH):
        torch.testing.assert_close(result[:, row], twin_of(plain, factors, row)(x[:, row])[0])


@pytest.mark.parametrize("num_layers", [2, 11])
def test_dropout_between_layers_is_taken_over(num_layers):
    """``ih_l10`` begins like ``ih_l1``; the first layer alone keeps the initial rate."""
    reports = []
    module = make("lstm", num_layers, True, dropout=0.3)
    gd.learn_dropout(module, p=0.05, recurrent=True, report=reports.append)
    for name, rate in gd.dropout_rates(module).items():
        is_between = name.startswith("ih") and name not in ("ih_l0", "ih_l0_reverse")
        assert rate == pytest.approx(0.3 if is_between else 0.05)
    assert reports[0].replaced == {"dropout": "the model starts from p = 0.3 between its layers"}
    single = make("lstm")
    single.dropout = 0.3
    gd.learn_dropout(single, report=reports.append)
    assert reports[1].replaced == {}


@pytest.mark.filterwarnings(r"ignore:The \.grad attribute:UserWarning")  # PyTorch's own, of its resumed graphs
def test_a_loss_with_a_recurrent_module_compiles_around_it():
    """PyTorch breaks the graph at an LSTM; what follows, the KL among it, is a graph of its own."""
    model = gd.learn_dropout(nn.LSTM(4, 8, num_layers=2, batch_first=True))

    def loss(x):
        return model(x)[0].square().mean() + gd.kl_divergence(model, lengthscale="fan_in")

    x = torch.randn(3, 5, 4)
    torch.manual_seed(1)
    compiled = torch.compile(loss, backend="eager")(x)
    torch.manual_seed(1)
    torch.testing.assert_close(compiled, loss(x))


# Cells

CELLS = {
    "lstm": nn.LSTMCell,
    "gru": nn.GRUCell,
    "tanh": nn.RNNCell,
    "relu": lambda *args, **options: nn.RNNCell(*args, nonlinearity="relu", **options),
}


class Loop(nn.Module):
    """Runs a cell over time-first sequences, and gives the last state."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, hx=None):
        for row in x:
            hx = self.cell(row, hx)
        return hx


@pytest.mark.parametrize("recurrent", [False, True], ids=["input", "recurrent"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mode", CELLS)
def test_a_cell_keeps_its_masks_for_all_steps_and_zeroes_columns_of_its_weights(mode, bias, recurrent):
    torch.manual_seed(0)
    loop, x = Loop(CELLS[mode](INPUTS, HIDDEN, bias=bias)), torch.randn(TIME, BATCH, INPUTS)
    converted = gd.learn_dropout(copy.deepcopy(loop), p=P, recurrent=recurrent)
    names = ["cell.ih", "cell.hh"][: 1 + recurrent]
    assert [block.name for block in dropout_blocks(converted)] == names
    assert [block.weight is getattr(converted.cell, f"weight_{block.name[-2:]}") for block in dropout_blocks(converted)]
    assert_same(leaves(converted.eval()(x)), leaves(loop(x)))

    factors = force_each(converted.train().cell, BATCH, P)
    for state in (None, loop(x)):
        result = leaves(converted(x, state))
        for row in range(BATCH):
            own = state if state is None else tuple(h[row] for h in state) if mode == "lstm" else state[row]
            expected = Loop(twin_of(loop.cell, factors, row))(x[:, row], own)
            assert_same([part[row] for part in result], leaves(expected))


@pytest.mark.parametrize("mode", CELLS)
def test_draws_of_a_cell_are_those_of_the_module_that_it_is_a_step_of(mode):
    module = make(mode)
    cell = CELLS[mode](INPUTS, HIDDEN)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in module.state_dict().items()})
    x = torch.randn(BATCH, TIME, INPUTS)

    class Last(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            result = self.inner(x.transpose(0, 1))
            return result[0][-1] if isinstance(self.inner, nn.RNNBase) else leaves(result)[0]

    def drawn(inner):
        model = gd.learn_dropout(Last(inner), p=P, recurrent=True)
        return gd.sample(model, x, num_samples=8, seed=3)

    of_module = drawn(module)
    assert of_module.std(0).mean() > 0.01
    torch.testing.assert_close(drawn(Loop(cell)), of_module)


def test_a_state_of_another_shape_is_refused_by_a_cell():
    cell = gd.learn_dropout(nn.GRUCell(INPUTS, HIDDEN), p=P)
    with pytest.raises(ValueError, match=r"`hx` must hold a state of shape \(3, 4\), got \[\(1, 4\)\]"):
        cell(torch.randn(BATCH, INPUTS), torch.randn(1, HIDDEN))
