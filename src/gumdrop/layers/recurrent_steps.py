"""One layer and direction of a recurrent module, over a batch of sequences: fused, or step by step."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import _VF, Tensor, nn
from torch.nn import functional as F

from gumdrop.functional.devices import sent

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
        if self.batch_sizes is None:
            return Steps((self.data * scale).to(self.data.dtype), None)
        return Steps(
            (self.data * torch.cat([scale[:size] for size in self.batch_sizes])).to(self.data.dtype), self.batch_sizes
        )


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
