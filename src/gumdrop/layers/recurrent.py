"""Learned dropout inside LSTM, GRU and RNN: one mask per sequence, one rate per layer and direction.

Zeroing input units for all time steps of a sequence is the same as zeroing columns of ``W_ih``, so only
``W_ih`` enters the KL of an input site, and only ``W_hh`` that of a recurrent one.

References:
    Gal & Ghahramani 2016, "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks"
    (NIPS 2016, arXiv:1512.05287).
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from gumdrop.layers.block import SITE, Block, as_matrix, joined
from gumdrop.layers.recurrent_steps import Steps, run_fused, run_step_by_step, weights_of
from gumdrop.layers.site import ConcreteDropout


def attach_recurrent(
    module: nn.RNNBase, make_site: Callable[..., ConcreteDropout], *, recurrent: bool, own_input: bool
) -> None:
    """Place sites ``ih_l0``, ... in front of ``W_ih`` and, on request, ``hh_l0``, ... in front of ``W_hh``."""
    sites = nn.ModuleDict()
    for suffix in _directions(module):
        if own_input or not suffix.startswith("l0"):
            sites[f"ih_{suffix}"] = make_site(getattr(module, f"weight_ih_{suffix}").shape[1])
        if recurrent:
            sites[f"hh_{suffix}"] = make_site(getattr(module, f"weight_hh_{suffix}").shape[1])
    module.add_module(SITE, sites)
    vars(module)["forward"] = functools.partial(recurrent_forward, module)


def recurrent_blocks(name: str, module: Any) -> Iterator[Block]:
    """Give the blocks of a recurrent module, one for each site."""
    for suffix in _directions(module):
        for part in (f"ih_{suffix}", f"hh_{suffix}"):
            if part in module.concrete_dropout:
                weight = getattr(module, f"weight_{part}")
                biases = (getattr(module, f"bias_{part}"),) if module.bias else ()
                yield Block(
                    joined(name, part), module.concrete_dropout[part], weight, biases, as_matrix, weight.shape[1]
                )


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
            result, final = _one_direction(module, suffix, steps, state, batch.num_sequences, batch.order)
            outputs.append(result)
            finals.append(final)
        steps = Steps(torch.cat(outputs, dim=-1) if len(outputs) > 1 else outputs[0], steps.batch_sizes)
    state = tuple(torch.stack(parts) for parts in zip(*finals, strict=True))
    output, state = _as_given(module, input, steps.data, state)
    return output, state if module.mode == "LSTM" else state[0]


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
    module: nn.RNNBase,
    suffix: str,
    steps: Steps,
    state: tuple[Tensor, ...],
    num_sequences: int,
    order: Tensor | None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    backward = suffix.endswith("_reverse")
    steps = steps.reversed() if backward else steps
    sites: Any = module.concrete_dropout
    input_site = sites._modules.get(f"ih_{suffix}")
    if input_site is not None:
        steps = steps.scaled(_sequence_factor(input_site, num_sequences, order, steps.data))
    recurrent_site = sites._modules.get(f"hh_{suffix}")
    weights = weights_of(module, suffix)
    if recurrent_site is None:
        output, final = run_fused(module, steps, state, list(weights.values()))
    else:
        scale = _sequence_factor(recurrent_site, num_sequences, order, steps.data)
        output, final = run_step_by_step(module.mode, steps, state, weights, scale)
    return (Steps(output, steps.batch_sizes).reversed().data if backward else output), final


def _sequence_factor(site: ConcreteDropout, num_sequences: int, order: Tensor | None, data: Tensor) -> Tensor:
    """Draw one row of factors for each sequence, in the order of the packed rows."""
    if not site.is_active:
        return data.new_ones(1, 1).expand(num_sequences, site.num_units)
    rows = data.new_empty(()).expand(num_sequences, site.num_units)  # stands for a shape
    factor = site.factor(rows).expand(num_sequences, -1)
    return factor if order is None else factor.index_select(0, order)
