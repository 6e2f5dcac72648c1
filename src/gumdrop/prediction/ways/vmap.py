"""Any model on many draws at once, by `torch.func.vmap` over what its sites multiply their inputs by.

What comes before the first drop is not batched, so it is computed once for a chunk. A forward that looks at values,
draws random numbers of its own or keeps something in the model cannot run so, and says it by an exception.
"""

import contextlib
import functools
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.layers import SITE, ConcreteDropout, factors_from
from gumdrop.prediction.switches import FallbackWarning, switched
from gumdrop.prediction.ways.chain import Chunk

__all__ = ["run_batched"]

REPEATED = 0.25
"""Probability that a draw keeps all units, from which on draws are looked through for equal ones."""
COPIED = 16
"""How many times as large as other activations copies of an output may be, which are written and read once."""


def run_batched(model: nn.Module, call: Callable[[], Tensor], sites: list[ConcreteDropout], chunk: Chunk) -> Tensor:
    """Run a model on the draws of a chunk.

    Args:
        model: The model, inside a context that switches its dropout on.
        call: Calls it and gives its output tensor.
        sites: All sites of the model.
        chunk: The draws.

    Returns:
        Shape (S, N, ...).

    Raises:
        RuntimeError: If the model keeps something of what it computes, or whatever PyTorch raises for code that
            depends on the values of a draw.
    """
    active = {id(site): scale for site in sites if (scale := chunk.scales[id(site)]) is not None}
    before = _Contents(model)

    def one_draw(scales: dict[int, Tensor]) -> Tensor:
        with contextlib.ExitStack() as stack:
            stack.enter_context(factors_from(functools.partial(_factor, scales, chunk), model))
            for module in model.modules():
                if isinstance(module, nn.RNNBase):
                    forward = functools.partial(_recurrent, module, module.forward, scales, chunk)
                    stack.enter_context(_replaced(module, "forward", forward))
            return call()

    try:
        # Of an operation that runs draw by draw, as attention on a CPU, vmap warns; it is still no slower.
        with switched([(FallbackWarning(), False)], threading.get_ident()):
            result = torch.func.vmap(one_draw)(active) if active else one_draw({}).unsqueeze(0)
        if before.changed():
            raise RuntimeError("the model keeps something of what it computes")
    except Exception:
        before.restore()  # what it has kept belongs to this trial
        raise
    return result


class _Contents:
    """Everything that the modules of a model hold, as it is now."""

    def __init__(self, model: nn.Module) -> None:
        self._held = [(each, each.copy()) for m in model.modules() for each in (vars(m), m._buffers)]

    def changed(self) -> bool:
        """Tell whether something else is held."""
        return any(
            now.keys() != then.keys() or any(now[name] is not value for name, value in then.items())
            for now, then in self._held
        )

    def restore(self) -> None:
        """Hold the same again."""
        for now, then in self._held:
            now.clear()
            now.update(then)


@contextlib.contextmanager
def _replaced(module: nn.Module, name: str, value: Any) -> Iterator[None]:
    """Put a function in the place of a method of one module, for a while."""
    own = vars(module)
    before = {name: own[name]} if name in own else {}
    own[name] = value
    try:
        yield
    finally:
        del own[name]
        own.update(before)


def _factor(scales: Mapping[int, Tensor], chunk: Chunk, site: ConcreteDropout, x: Tensor) -> Tensor:
    """Give the factor of a site inside a draw of a chunk, whose ``scales`` have shape (K,)."""
    chunk.was_used = True
    if any(x.stride()):  # otherwise it only stands for a shape
        chunk.see(x)
    scale = scales.get(id(site))
    return torch.ones(1, site.num_units, device=x.device) if scale is None else scale.unsqueeze(0)


# Recurrent modules: PyTorch has no batching rule for them


class _FoldDraws(torch.autograd.Function):
    """Call ``run(S, *tensors)``, whose tensors, arguments and results, have the draws in dimension 0."""

    @staticmethod
    def forward(run: Callable[..., tuple[Tensor, ...]], *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(result.squeeze(0) for result in run(1, *(tensor.unsqueeze(0) for tensor in tensors)))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep nothing: predictions have no gradient."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, run: Callable[..., tuple[Tensor, ...]], *tensors: Tensor) -> Any:
        size = info.batch_size
        moved = [
            tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            for tensor, dim in zip(tensors, in_dims[1:], strict=True)
        ]
        results = run(size, *moved)
        return results, (0,) * len(results)


def _recurrent(
    module: nn.RNNBase,
    forward: Callable[..., Any],
    scales: Mapping[int, Tensor],
    chunk: Chunk,
    input: Tensor,
    hx: Any = None,
) -> Any:
    """Forward of a recurrent module inside a draw of a chunk: the sequences of all draws are one batch."""
    if not isinstance(input, Tensor) or input.ndim != 3:
        return forward(input, hx)
    holder = module._modules.get(SITE)
    sites = [site for site in holder.children() if id(site) in scales] if holder is not None else []
    chunk.was_used |= bool(sites)
    states = () if hx is None else tuple(hx) if module.mode == "LSTM" else (hx,)
    run = functools.partial(_run_distinct, module, forward, sites, len(states), chunk)
    output, *final = _FoldDraws.apply(run, input, *states, *(scales[id(site)] for site in sites))
    return output, tuple(final) if module.mode == "LSTM" else final[0]


def _run_distinct(
    module: nn.RNNBase,
    forward: Callable[..., Any],
    sites: list[nn.Module],
    num_states: int,
    chunk: Chunk,
    count: int,
    *tensors: Tensor,
) -> tuple[Tensor, ...]:
    """Run what draws have in common once: the same sequences under the same masks, where few units make them likely."""
    run = functools.partial(_run_folded, module, forward, sites, num_states)
    (input, *states), scales = tensors[: 1 + num_states], tensors[1 + num_states :]
    is_shared = count == 1 or all(tensor.stride(0) == 0 for tensor in (input, *states))  # as `expand` leaves it
    all_kept = math.prod(chunk.all_kept[id(site)] for site in sites)
    if not (sites and is_shared and input.device.type == "cpu" and all_kept > REPEATED):
        results = run(count, *tensors)
        chunk.see(input, count)
        chunk.see(results[0], count)
        return results
    distinct, which = torch.unique(torch.cat(scales, dim=1), dim=0, return_inverse=True)
    width = (getattr(module, "proj_size", 0) or module.hidden_size) * (1 + module.bidirectional)
    largest = input[0].numel() // input.shape[-1] * width * input.element_size()
    parts = []
    for rows in distinct.split(max(1, chunk.budget // largest)):
        given = (tensor[: len(rows)] for tensor in (input, *states))
        parts.append(run(len(rows), *given, *rows.split([scale.shape[1] for scale in scales], dim=1)))
    results = tuple(torch.cat(each)[which] for each in zip(*parts, strict=True))
    chunk.see(results[0], COPIED * count)
    return results


def _run_folded(
    module: nn.RNNBase,
    forward: Callable[..., Any],
    sites: list[nn.Module],
    num_states: int,
    count: int,
    input: Tensor,
    *tensors: Tensor,
) -> tuple[Tensor, ...]:
    batch_dim = 0 if module.batch_first else 1
    num_sequences = input.shape[1 + batch_dim]

    def fold(tensor: Tensor, dim: int) -> Tensor:
        return tensor.movedim(0, dim).flatten(dim, dim + 1)

    def unfold(tensor: Tensor, dim: int) -> Tensor:
        return tensor.unflatten(dim, (count, num_sequences)).movedim(dim, 0)

    states = tuple(fold(state, 1) for state in tensors[:num_states])
    scales = zip(sites, tensors[num_states:], strict=True)
    rows = {site: scale.repeat_interleave(num_sequences, dim=0) for site, scale in scales}
    with contextlib.ExitStack() as stack:
        for site in sites:
            stack.enter_context(factors_from(lambda site, x: rows[site], site))
        hx = None if not states else states if module.mode == "LSTM" else states[0]
        output, final = forward(fold(input, batch_dim), hx)
    finals = final if module.mode == "LSTM" else (final,)
    return (unfold(output, batch_dim), *(unfold(state, 1) for state in finals))
