"""LSTM, GRU and RNN: PyTorch's numbers where nothing is dropped, and columns of the weights where something is."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import gumdrop as gd
from gumdrop.layers import UNIT, ConcreteDropout, bernoulli_factors, dropout_blocks

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
two_flags = pytest.mark.parametrize(("num_layers", "bidirectional"), [(1, False), (1, True), (2, False), (2, True)])
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


def force(module, rows):
    """Give every site known masks, which differ from row to row; return them by the name of the site."""
    masks = {}
    generator = torch.Generator().manual_seed(1)
    for name, site in module.concrete_dropout.named_children():
        kept = torch.rand(rows, site.num_units, generator=generator) > P
        kept[:, 0] = torch.arange(rows) % 2 == 0
        kept[:, 1] = torch.arange(rows) % 2 == 1
        masks[name] = kept
        site.factor_source = bernoulli_factors(lambda site, rows, kept=kept: torch.where(kept, 0.999, 0.0))
    return masks


def twin_of(module, masks, row):
    """PyTorch's module for one sequence: columns of its weights zeroed and rescaled."""
    twin = copy.deepcopy(module)
    with torch.no_grad():
        for name, kept in masks.items():
            part, suffix = name.split("_", 1)
            getattr(twin, f"weight_{part}_{suffix}").mul_(kept[row % len(kept)] / (1 - P))
    return twin


# Nothing dropped


@recurrence
@pytest.mark.parametrize("given", [False, True], ids=["no state", "state"])
@inputs
@two_flags
@modes
def test_vanishing_rates_give_the_output_and_state_of_pytorch(mode, num_layers, bidirectional, kind, given, recurrent):
    module = make(mode, num_layers, bidirectional, batch_first=kind == "batch_first")
    x = make_input(kind)
    state = make_state(module, kind) if given else None
    expected = module(x, state)
    converted = gd.learn_dropout(module, p=1e-12, recurrent=recurrent)
    actual = converted(x, state)
    assert_same(actual, expected)
    assert isinstance(actual[1], tuple) is (module.mode == "LSTM")
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        assert one.shape == other.shape


@pytest.mark.parametrize("kind", ["time_first", "unsorted"])
@modes
def test_modules_without_bias(mode, kind):
    module = make(mode, 2, True, bias=False)
    x = make_input(kind)
    expected = module(x)
    assert_same(gd.learn_dropout(copy.deepcopy(module), p=1e-12, recurrent=True)(x), expected)
    assert_same(gd.learn_dropout(copy.deepcopy(module), p=1e-12)(x), expected)


@inputs
@modes
def test_eval_is_pytorchs_own_path(mode, kind, monkeypatch):
    module = make(mode, 2, True, batch_first=kind == "batch_first", dropout=0.5).eval()
    x = make_input(kind)
    expected = module(x)
    converted = gd.learn_dropout(module, p=0.5, recurrent=True)
    calls = []
    own = type(module).forward
    monkeypatch.setattr(type(module), "forward", lambda self, *args: calls.append(self) or own(self, *args))
    assert_same(converted(x), expected, rtol=0, atol=0)
    assert calls == [module]
    assert not torch.equal(converted.train()(x)[0][0], expected[0][0])
    assert calls == [module]


def test_keyword_arguments():
    module = gd.learn_dropout(make("lstm"), p=P)
    force(module, BATCH)
    x, state = make_input("time_first"), make_state(module, "time_first")
    assert_same(module(hx=state, input=x), module(x, state), rtol=0, atol=0)


def test_state_as_a_list():
    module = gd.learn_dropout(make("lstm"), p=P)
    force(module, BATCH)
    x, state = make_input("time_first"), make_state(module, "time_first")
    assert_same(module(x, list(state)), module(x, state), rtol=0, atol=0)


# Known masks


def _rows_of(result, kind, row, length):
    """Output and final state of one sequence, as the module gives them for an unbatched one."""
    output, state = result
    if isinstance(output, PackedSequence):
        output = pad_packed_sequence(output)[0]
    output = output if kind == "unbatched" else output[row] if kind == "batch_first" else output[:, row]
    return output[:length], [part if kind == "unbatched" else part[:, row] for part in leaves(state)]


@recurrence
@pytest.mark.parametrize("shared", [False, True], ids=["own masks", "one mask"])
@inputs
@two_flags
@modes
def test_known_masks_zero_columns_of_the_weights(mode, num_layers, bidirectional, kind, shared, recurrent):
    module = make(mode, num_layers, bidirectional, batch_first=kind == "batch_first")
    x = make_input(kind)
    state = make_state(module, kind)
    converted = gd.learn_dropout(copy.deepcopy(module), p=P, recurrent=recurrent)
    rows = 1 if kind == "unbatched" else BATCH
    masks = force(converted, 1 if shared else rows)
    result = converted(x, state)

    if isinstance(x, PackedSequence):
        sequences, lengths = pad_packed_sequence(x)
    else:
        sequences = x.unsqueeze(1) if kind == "unbatched" else x.transpose(0, 1) if kind == "batch_first" else x
        lengths = [TIME] * rows
    for row in range(rows):
        own_state = [part if kind == "unbatched" else part[:, row] for part in leaves(state)]
        own_state = tuple(own_state) if module.mode == "LSTM" else own_state[0]
        expected, final = twin_of(module, masks, row)(sequences[: lengths[row], row], own_state)
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


def test_only_the_copy_that_enters_the_gates_is_dropped():
    """The cell state and the GRU's own carry keep the undropped hidden state."""
    module = gd.learn_dropout(make("gru"), p=P, recurrent=True)
    for name, site in module.concrete_dropout.named_children():
        kept = torch.zeros(1, site.num_units) if name.startswith("hh") else torch.ones(1, site.num_units)
        site.factor_source = bernoulli_factors(lambda site, rows, kept=kept: torch.where(kept > 0, 0.999, 0.0))
    x, state = make_input("time_first")[:1], make_state(module, "time_first")
    gates = nn.functional.linear(x[0] / (1 - P), module.weight_ih_l0, module.bias_ih_l0).chunk(3, -1)
    hidden = module.bias_hh_l0.chunk(3)
    update = torch.sigmoid(gates[1] + hidden[1])
    new = torch.tanh(gates[2] + torch.sigmoid(gates[0] + hidden[0]) * hidden[2])
    torch.testing.assert_close(module(x, state)[0][0], (1 - update) * new + update * state[0])


# Gradients, dtypes, modes


@recurrence
@pytest.mark.parametrize("kind", ["time_first", "unsorted"])
@modes
def test_gradients_reach_every_weight_and_rate(mode, kind, recurrent):
    module = gd.learn_dropout(make(mode, 2, True), p=P, recurrent=recurrent)
    with torch.no_grad():
        for name, value in module.named_parameters():
            if name.startswith("weight"):
                value.abs_()  # keeps the rectified units of "relu" alive
    sum(leaf.double().square().sum() for leaf in leaves(module(make_input(kind)))[:1]).backward()
    for name, value in module.named_parameters():
        assert value.grad is not None, name
        assert value.grad.isfinite().all(), name
        assert value.grad.any(), name


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


@recurrence
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
@modes
def test_activations_keep_their_dtype(mode, dtype, recurrent):
    module = gd.learn_dropout(make(mode, 2, True).to(dtype), recurrent=recurrent)
    results = leaves(module(make_input("time_first").to(dtype)))
    assert {result.dtype for result in results} == {dtype}
    results[0].float().sum().backward()
    assert all(site.scaled_logit.grad.isfinite() for site in module.concrete_dropout.children())


@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_autocast_gives_what_it_gives_without_dropout(mode):
    module = make(mode, 2, True)
    x = make_input("time_first")
    converted = gd.learn_dropout(copy.deepcopy(module), p=1e-12)
    with torch.autocast("cpu", torch.bfloat16):
        assert_same(converted(x), module(x))


@inputs
@recurrence
def test_sampling_draws_and_restores(kind, recurrent):
    module = gd.learn_dropout(make("lstm", 2, True, batch_first=kind == "batch_first"), p=P, recurrent=recurrent).eval()
    x = make_input(kind)
    expected = module(x)
    drawn = gd.draw(module, seed=0, fresh=True)
    with torch.no_grad():
        first, second = leaves(drawn(x)), leaves(drawn(x))
    assert not torch.equal(first[0], second[0])
    drawn = gd.draw(module, seed=0, shared=False, fresh=True)
    with torch.no_grad():
        assert leaves(drawn(x))[0].shape == first[0].shape
    drawn = gd.draw(module, seed=0)
    with torch.no_grad():
        assert_same(drawn(x), drawn(x), rtol=0, atol=0)
    assert_same(module(x), expected, rtol=0, atol=0)


def test_one_shared_mask_makes_a_batch_and_its_rows_agree():
    module = gd.learn_dropout(make("lstm", 2, True, batch_first=True), p=P, recurrent=True).eval()
    x = make_input("batch_first")
    whole = gd.sample(module, x, num_samples=3, seed=0, output=lambda result: result[0])
    parts = gd.sample(module, x, num_samples=3, seed=0, batch_size=1, output=lambda result: result[0])
    torch.testing.assert_close(whole, parts)


def test_packed_rows_get_the_masks_of_their_sequences():
    """Sorting a batch for packing must not hand the masks around."""
    module = gd.learn_dropout(make("gru", 1, True), p=P)
    force(module, BATCH)
    padded, lengths = torch.randn(TIME, BATCH, INPUTS), [2, 4, 3]
    one = module(pack_padded_sequence(padded, lengths, enforce_sorted=False))[0]
    order = [1, 2, 0]
    for site in module.concrete_dropout.children():
        source = site.factor_source
        site.factor_source = lambda site, x, source=source: source(site, x)[order]
    other = module(pack_padded_sequence(padded[:, order], [lengths[i] for i in order]))[0]
    torch.testing.assert_close(one.data, other.data)


# What must be refused as PyTorch refuses it


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(TIME, BATCH, 1), (TIME, 1), (TIME, BATCH, INPUTS + 1)])
def test_inputs_of_another_size_are_refused_and_not_broadcast(shape, training):
    module = gd.learn_dropout(make("lstm"), p=P).train(training)
    with pytest.raises((RuntimeError, ValueError), match="input_size"):
        module(torch.randn(shape))


def test_packed_inputs_of_another_size_are_refused_and_not_broadcast():
    module = gd.learn_dropout(make("lstm"), p=P)
    with pytest.raises((RuntimeError, ValueError), match="input_size"):
        module(pack_padded_sequence(torch.randn(TIME, BATCH, 1), [4, 3, 1]))


@recurrence
@pytest.mark.parametrize(
    "state", [(1, BATCH, 1), (1, 1, HIDDEN), (2, BATCH, HIDDEN), (BATCH, HIDDEN), (1, BATCH, HIDDEN + 1)]
)
def test_states_of_another_shape_are_refused_and_not_broadcast(state, recurrent):
    module = gd.learn_dropout(make("gru"), p=P, recurrent=recurrent)
    with pytest.raises(ValueError, match="`hx` must hold a state of shape"):
        module(make_input("time_first"), torch.randn(state))


def test_unbatched_input_with_a_batched_state_is_refused():
    module = gd.learn_dropout(make("gru"), p=P)
    with pytest.raises(ValueError, match="`hx` must hold a state of shape"):
        module(make_input("unbatched"), torch.randn(1, 1, HIDDEN))


# What a converted module is


@modes
def test_class_weights_and_keys_stay(mode):
    module = make(mode, 2, True)
    keys, parameters = list(module.state_dict()), dict(module.named_parameters())
    gd.learn_dropout(module, recurrent=True)
    assert type(module) in (nn.LSTM, nn.GRU, nn.RNN)
    assert [key for key in module.state_dict() if "concrete_dropout" not in key] == keys
    for name, parameter in parameters.items():
        assert module.get_parameter(name) is parameter
    assert all(
        len(weights) == len(names) for weights, names in zip(module.all_weights, module._all_weights, strict=True)
    )


@pytest.mark.parametrize("twin_by", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"])
def test_copies_run_on_their_own_weights_and_rates(twin_by):
    module = gd.learn_dropout(make("lstm", 2), p=P)
    twin = twin_by(module)
    x = make_input("time_first")
    drawn = [gd.draw(each, seed=0, fresh=True) for each in (twin, module)]
    assert_same(drawn[0](x), drawn[1](x), rtol=0, atol=0)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert not twin(x)[0].any()
    assert module(x)[0].any()


def test_functional_call_uses_the_parameters_that_it_is_given():
    module = gd.learn_dropout(make("gru"), p=P)
    zeros = {name: torch.zeros_like(value) for name, value in module.named_parameters()}
    assert not torch.func.functional_call(module, zeros, (make_input("time_first"),))[0].any()


def test_fixed_rates_draw_hard_masks_in_training():
    module = nn.RNN(6, 6, nonlinearity="relu", bias=False)
    with torch.no_grad():
        module.weight_hh_l0.zero_()
        module.weight_ih_l0.copy_(torch.eye(6))
    gd.fix_dropout(gd.learn_dropout(module, p=P))
    scale = module(torch.ones(TIME, 50, 6))[0].detach()
    assert (scale.eq(0) | scale.isclose(torch.tensor(1 / (1 - P)))).all()
    assert 0.2 < scale.eq(0).float().mean() < 0.6


def test_one_inactive_site_leaves_its_weights_alone():
    module = gd.learn_dropout(make("lstm"), p=P, recurrent=True)
    x = make_input("time_first")
    masks = force(module, BATCH)
    hh = module.concrete_dropout["hh_l0"].eval()
    hh.factor_source = None
    result = module(x)[0]
    plain = make("lstm")
    del masks["hh_l0"]
    for row in range(BATCH):
        torch.testing.assert_close(result[:, row], twin_of(plain, masks, row)(x[:, row])[0])


def test_dropout_between_layers_is_taken_over():
    reports = []
    module = gd.learn_dropout(make("lstm", 2, True, dropout=0.3), p=0.05, recurrent=True, report=reports.append)
    rates = gd.dropout_rates(module)
    for name, rate in rates.items():
        assert rate == pytest.approx(0.3 if name.startswith("ih_l1") else 0.05)
    assert reports[0].replaced == {"dropout": "the model starts from p = 0.3 between its layers"}
    assert str(reports[0]).splitlines()[0].split() == ["learned", "(the", "model)", "LSTM"]


def test_dropout_of_a_single_layer_is_nothing_to_take_over():
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last"):
        module = make("lstm", 1, dropout=0.3)
    reports = []
    gd.learn_dropout(module, report=reports.append)
    assert reports[0].replaced == {}


def test_gru_layer_eleven_is_between_layers():
    """``ih_l10`` begins like ``ih_l1``; the first layer alone keeps the initial rate."""
    module = gd.learn_dropout(nn.RNN(2, 2, num_layers=11, dropout=0.3), p=0.05)
    rates = list(gd.dropout_rates(module).values())
    assert rates == pytest.approx([0.05] + [0.3] * 10)


def test_sites_are_sites_and_their_sum_is_the_kl():
    module = gd.learn_dropout(make("gru", 1), p=P, recurrent=True)
    sites = module.concrete_dropout
    assert all(isinstance(site, ConcreteDropout) for site in sites.children())
    entropy = -(P * torch.log(torch.tensor(P)) + (1 - P) * torch.log(torch.tensor(1 - P)))
    expected = torch.zeros(())
    for part, units in (("ih", INPUTS), ("hh", HIDDEN)):
        weight, bias = getattr(module, f"weight_{part}_l0"), getattr(module, f"bias_{part}_l0")
        expected = expected + 2 * weight.square().sum() / (1 - P) + 2 * bias.square().sum() - units * entropy
    torch.testing.assert_close(gd.kl_divergence(module, lengthscale=2.0), expected)


@pytest.mark.filterwarnings(r"ignore:The \.grad attribute:UserWarning")  # PyTorch's own, of its resumed graphs
def test_a_loss_with_a_recurrent_module_compiles_around_it():
    """PyTorch breaks the graph at an LSTM; what follows, the KL among it, is a graph of its own."""
    model = gd.learn_dropout(nn.LSTM(4, 8, num_layers=2, batch_first=True))

    def loss(x):
        return model(x)[0].square().mean() + gd.kl_divergence(model)

    x = torch.randn(3, 5, 4)
    torch.manual_seed(1)
    compiled = torch.compile(loss, backend="eager")(x)
    torch.manual_seed(1)
    torch.testing.assert_close(compiled, loss(x))
