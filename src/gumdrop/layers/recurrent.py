"""Learned dropout inside LSTM, GRU and RNN, and their cells: one mask per sequence, one rate per layer and direction.

Zeroing input units for all time steps of a sequence is the same as zeroing columns of ``W_ih``, so only
``W_ih`` enters the KL of an input site, and only ``W_hh`` that of a recurrent one.

References:
    Gal & Ghahramani 2016, "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks"
    (NIPS 2016, arXiv:1512.05287).
"""

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import _VF, Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from gumdrop.functional.devices import sent
from gumdrop.layers.block import SITE, Block, as_matrix, joined
from gumdrop.layers.site import ConcreteDropout

# On a GPU the weights of one layer of several are copied together at each call, whatever the user does.
warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous chunk", module=__name__)

_FUSED: dict[str, Callable[..., Any]] = {
    "LSTM": _VF.lstm,
    "GRU": _VF.gru,
    "RNN_TANH": _VF.rnn_tanh,
    "RNN_RELU": _VF.rnn_relu,
}


class Steps(NamedTuple):
    """A batch of sequences with time first: (T, B, K), or packed rows (sum of lengths, K) with batch sizes."""

    data: Tensor
    batch_sizes: Tensor | None

    def reversed(self) -> "Steps":
        """Turn every sequence around within its own length."""
        if self.batch_sizes is None:
            return Steps(self.data.flip(0), None)
        sizes = self.batch_sizes
        start = sizes.cumsum(0) - sizes
        time = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        row = torch.arange(len(time)) - start[time]
        length = (sizes[None, :] > row[:, None]).sum(1)
        index = start[length - 1 - time] + row
        return Steps(self.data[sent(index, self.data.device)], sizes)

    def scaled(self, scale: Tensor) -> "Steps":
        """Multiply every step of sequence ``b`` by ``scale[b]``."""
        if self.batch_sizes is not None:
            scale = torch.cat([scale[:size] for size in self.batch_sizes])
        return Steps((self.data * scale).to(self.data.dtype), self.batch_sizes)


def weights_of(module: nn.RNNBase, suffix: str) -> dict[str, Tensor]:
    """Weights of a layer and direction, in the order of PyTorch's kernels."""
    names = ["weight_ih", "weight_hh"] + ["bias_ih", "bias_hh"] * module.bias
    names += ["weight_hr"] * (getattr(module, "proj_size", 0) > 0)
    return {name: getattr(module, f"{name}_{suffix}") for name in names}


def run_fused(
    module: nn.RNNBase, steps: Steps, state: tuple[Tensor, ...], weights: list[Tensor]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run by PyTorch's kernel; give the outputs of all steps and the final state."""
    hx = tuple(h.unsqueeze(0) for h in state)
    hidden = hx if module.mode == "LSTM" else hx[0]
    settings = (module.bias, 1, 0.0, module.training, False)  # one layer, no dropout of its own, one direction
    if steps.batch_sizes is None:
        output, *final = _FUSED[module.mode](steps.data, hidden, weights, *settings, False)
    else:
        output, *final = _FUSED[module.mode](steps.data, steps.batch_sizes, hidden, weights, *settings)
    return output, tuple(h.squeeze(0) for h in final)


def run_step_by_step(
    mode: str, steps: Steps, state: tuple[Tensor, ...], weights: dict[str, Tensor], scale: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Do the same step by step, because the fused kernels cannot drop the hidden state on its way into ``W_hh``."""
    gates = F.linear(steps.data, weights["weight_ih"], weights.get("bias_ih"))
    rows = gates.unbind(0) if steps.batch_sizes is None else gates.split(steps.batch_sizes.tolist())
    outputs, ended = [], []
    for row in rows:
        size = row.shape[0]  # not len, which would fix the rows of an exported model
        if size < state[0].shape[0]:  # the shortest sequences, which stand last, have ended
            ended.append(tuple(part[size:] for part in state))
            state = tuple(part[:size] for part in state)
        dropped = (state[0] * scale[:size]).to(state[0].dtype)
        hidden_gates = F.linear(dropped, weights["weight_hh"], weights.get("bias_hh"))
        state = _CELLS[mode](row, hidden_gates, state)
        if "weight_hr" in weights:
            state = (F.linear(state[0], weights["weight_hr"]), *state[1:])
        outputs.append(state[0])
    final = tuple(torch.cat(parts) for parts in zip(*[state, *ended[::-1]], strict=True))
    return torch.stack(outputs) if steps.batch_sizes is None else torch.cat(outputs), final


def _lstm_cell(input_gates: Tensor, hidden_gates: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    i, f, g, o = (input_gates + hidden_gates).chunk(4, dim=-1)
    c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def _gru_cell(input_gates: Tensor, hidden_gates: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    input_r, input_z, input_n = input_gates.chunk(3, dim=-1)
    hidden_r, hidden_z, hidden_n = hidden_gates.chunk(3, dim=-1)
    z = torch.sigmoid(input_z + hidden_z)
    n = torch.tanh(input_n + torch.sigmoid(input_r + hidden_r) * hidden_n)
    return ((1 - z) * n + z * state[0],)


_CELLS: dict[str, Callable[[Tensor, Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]] = {
    "LSTM": _lstm_cell,
    "GRU": _gru_cell,
    "RNN_TANH": lambda input_gates, hidden_gates, state: (torch.tanh(input_gates + hidden_gates),),
    "RNN_RELU": lambda input_gates, hidden_gates, state: (torch.relu(input_gates + hidden_gates),),
}


def attach_recurrent(
    module: nn.RNNBase, make_site: Callable[..., ConcreteDropout], *, recurrent: bool, own_input: bool
) -> None:
    """Place sites ``ih_l0``, ... in front of ``W_ih`` and, on request, ``hh_l0``, ... in front of ``W_hh``."""
    sites = nn.ModuleDict()
    for suffix in _directions(module):
        parts = ["ih"] * (own_input or not suffix.startswith("l0")) + ["hh"] * recurrent
        for name in (f"{part}_{suffix}" for part in parts):
            sites[name] = site = make_site(getattr(module, f"weight_{name}").shape[1])
            site.rows_dim = 0 if module.batch_first else 1
    module.add_module(SITE, sites)
    vars(module)["forward"] = functools.partial(recurrent_forward, module)


def attach_cell(
    cell: nn.RNNCellBase, make_site: Callable[..., ConcreteDropout], *, recurrent: bool, own_input: bool
) -> None:
    """Place a site ``ih`` in front of ``W_ih`` and, on request, ``hh`` in front of ``W_hh``."""
    sizes = {"ih": cell.input_size} if own_input else {}
    sizes |= {"hh": cell.hidden_size} if recurrent else {}
    cell.add_module(SITE, nn.ModuleDict({name: make_site(size) for name, size in sizes.items()}))
    vars(cell)["forward"] = functools.partial(cell_forward, cell)


def recurrent_blocks(name: str, module: Any) -> Iterator[Block]:
    """Give the blocks of a recurrent module or cell, one for each site."""
    for part, site in module.concrete_dropout.items():
        weight = getattr(module, f"weight_{part}")
        biases = (getattr(module, f"bias_{part}"),) if module.bias else ()
        yield Block(joined(name, part), site, weight, biases, as_matrix, weight.shape[1])


def _directions(module: nn.RNNBase) -> list[str]:
    """Name each layer and direction as PyTorch names its weights: ``l0``, ``l0_reverse``, ``l1``, ..."""
    reverse = [""] + ["_reverse"] * module.bidirectional
    return [f"l{layer}{suffix}" for layer in range(module.num_layers) for suffix in reverse]


class _Batch(NamedTuple):
    """The arguments of a call, as a batch of sequences with time first."""

    steps: Steps
    states: list[tuple[Tensor, ...]]
    """One for each layer and direction: (h,), or (h, c) for an LSTM."""
    num_sequences: int
    order: Tensor | None
    """Of packed rows: the index of each sequence in the batch."""

    @classmethod
    def of(cls, module: nn.RNNBase, input: Tensor | PackedSequence, hx: Any) -> "_Batch":
        if hx is not None:
            hx = tuple(hx) if module.mode == "LSTM" else (hx,)
        if isinstance(input, PackedSequence):
            module.check_input(input.data, input.batch_sizes)
            steps, order = Steps(input.data, input.batch_sizes), input.sorted_indices
            num_sequences = int(input.batch_sizes[0])
        else:
            if input.dim() == 2:  # one sequence of its own
                input = input.unsqueeze(0 if module.batch_first else 1)
                hx = None if hx is None else tuple(h.unsqueeze(1) for h in hx)
            module.check_input(input, None)
            data = input.transpose(0, 1) if module.batch_first else input
            steps, order, num_sequences = Steps(data, None), None, data.shape[1]
        return cls(steps, _initial_states(module, steps.data, num_sequences, hx, order), num_sequences, order)

    def factor(self, site: ConcreteDropout, data: Tensor) -> Tensor:
        """Draw one row of factors for each sequence, in the order of the packed rows."""
        if not site.is_active:
            return data.new_ones(1, 1).expand(self.num_sequences, site.num_units)
        rows = data.new_empty(()).expand(self.num_sequences, site.num_units)  # stands for a shape
        factor = site.factor(rows).expand(self.num_sequences, -1)
        return factor if self.order is None else factor.index_select(0, self.order)


def recurrent_forward(
    module: nn.RNNBase, input: Tensor | PackedSequence, hx: Any = None
) -> tuple[Tensor | PackedSequence, Any]:
    """Run a recurrent module with its sites; without an active one, exactly as PyTorch does."""
    sites: Any = module.concrete_dropout
    if not any(site.is_active for site in sites.values()):
        return type(module).forward(module, input, hx)
    batch = _Batch.of(module, input, hx)
    steps, finals = batch.steps, []
    suffixes = iter(zip(_directions(module), batch.states, strict=True))
    for _ in range(module.num_layers):
        outputs = []
        for _ in range(2 if module.bidirectional else 1):
            suffix, state = next(suffixes)
            result, final = _one_direction(module, batch, suffix, steps, state)
            outputs.append(result)
            finals.append(final)
        steps = Steps(torch.cat(outputs, dim=-1) if len(outputs) > 1 else outputs[0], steps.batch_sizes)
    state = tuple(torch.stack(parts) for parts in zip(*finals, strict=True))
    output, state = _as_given(module, input, steps.data, state)
    return output, state if module.mode == "LSTM" else state[0]


def cell_forward(cell: Any, input: Tensor, hx: Any = None) -> Any:
    """Run one step of a cell with its sites, which keep their masks for a pass; without an active one, as PyTorch."""
    sites = cell.concrete_dropout
    if not any(site.is_active for site in sites.values()):
        return type(cell).forward(cell, input, hx)
    shape = (*input.shape[:-1], cell.hidden_size)
    is_lstm = isinstance(cell, nn.LSTMCell)
    state = (input.new_zeros(shape),) * (1 + is_lstm) if hx is None else tuple(hx) if is_lstm else (hx,)
    if any(part.shape != shape for part in state):
        raise ValueError(f"`hx` must hold a state of shape {shape}, got {[tuple(part.shape) for part in state]}")
    mode = f"RNN_{cell.nonlinearity.upper()}" if isinstance(cell, nn.RNNCell) else "LSTM" if is_lstm else "GRU"
    input, hidden = (sites[name](x) if name in sites else x for name, x in (("ih", input), ("hh", state[0])))
    gates = F.linear(input, cell.weight_ih, cell.bias_ih), F.linear(hidden, cell.weight_hh, cell.bias_hh)
    result = _CELLS[mode](*gates, state)
    return result if is_lstm else result[0]


def _as_given(
    module: nn.RNNBase, input: Tensor | PackedSequence, data: Tensor, state: tuple[Tensor, ...]
) -> tuple[Tensor | PackedSequence, tuple[Tensor, ...]]:
    """Bring output and final state into the form of the input."""
    if isinstance(input, PackedSequence):
        if input.unsorted_indices is not None:
            state = tuple(h.index_select(1, input.unsorted_indices) for h in state)
        return PackedSequence(data, input.batch_sizes, input.sorted_indices, input.unsorted_indices), state
    if input.dim() == 2:
        return data.squeeze(1), tuple(h.squeeze(1) for h in state)
    return data.transpose(0, 1) if module.batch_first else data, state


def _initial_states(
    module: nn.RNNBase, data: Tensor, num_sequences: int, hx: tuple[Tensor, ...] | None, order: Tensor | None
) -> list[tuple[Tensor, ...]]:
    """Split the initial state into one tuple for each layer and direction: (h,), or (h, c) for an LSTM."""
    sizes = [getattr(module, "proj_size", 0) or module.hidden_size]
    if module.mode == "LSTM":
        sizes.append(module.hidden_size)
    expected = [(len(_directions(module)), num_sequences, size) for size in sizes]
    if hx is None:
        hx = tuple(data.new_zeros(shape) for shape in expected)
    elif (shapes := [tuple(h.shape) for h in hx]) != expected:
        raise ValueError(f"`hx` must hold a state of shape {expected}, got {shapes}")
    elif order is not None:
        hx = tuple(h.index_select(1, order) for h in hx)
    return list(zip(*(h.unbind(0) for h in hx), strict=True))


def _one_direction(
    module: nn.RNNBase, batch: _Batch, suffix: str, steps: Steps, state: tuple[Tensor, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    backward = suffix.endswith("_reverse")
    steps = steps.reversed() if backward else steps
    sites: Any = module.concrete_dropout
    input_site = sites._modules.get(f"ih_{suffix}")
    if input_site is not None:
        steps = steps.scaled(batch.factor(input_site, steps.data))
    recurrent_site = sites._modules.get(f"hh_{suffix}")
    weights = weights_of(module, suffix)
    if recurrent_site is None:
        output, final = run_fused(module, steps, state, list(weights.values()))
    else:
        scale = batch.factor(recurrent_site, steps.data)
        output, final = run_step_by_step(module.mode, steps, state, weights, scale)
    return (Steps(output, steps.batch_sizes).reversed().data if backward else output), final
