"""Any model on many draws at once, by `torch.func.vmap` over what its sites multiply their inputs by.

What comes before the first drop is not batched, so it is computed once for a chunk. A forward that looks at values,
draws random numbers of its own or keeps something in the model cannot run so, and says it by an exception.
"""

import functools
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.layers import SITE, ConcreteDropout
from gumdrop.layers.site import factors_from


class Chunk:
    """A few draws that run as one program, and what sites that change something multiply their units by, (S, K)."""

    def __init__(self, count: int, factors: Mapping[int, Tensor]) -> None:
        self.count, self.factors = count, dict(factors)
        self.widest = 0
        """Bytes of the largest activation of one draw, as far as it was seen."""
        self.was_used = False
        """Whether the model has called a site."""

    def see(self, activation: Tensor, draws: int = 1) -> None:
        """Take note of the size of an activation that holds this many draws."""
        self.widest = max(self.widest, activation.numel() * activation.element_size() // draws)


def run_batched(model: nn.Module, call: Callable[[], Tensor], chunk: Chunk) -> Tensor:
    """Run a model on the draws of a chunk, (S, N, ...), or (1, N, ...) where all are the same."""
    own = _contents(model)

    def one_draw(factors: dict[int, Tensor]) -> Tensor:
        for module in model.modules():
            if isinstance(module, ConcreteDropout):
                module.factor_source = functools.partial(_factor, factors, chunk)
            elif isinstance(module, nn.RNNBase):
                vars(module)["forward"] = functools.partial(_recurrent, module, module.forward, factors, chunk)
        held = _contents(model)
        result = call()
        for now, then in held:
            if now.keys() != then.keys() or any(now[name] is not value for name, value in then.items()):
                raise RuntimeError("the model keeps something of what it computes")
        return result

    depth = torch._C._functorch.get_dynamic_layer_stack_depth()
    try:
        # Of an operation that runs draw by draw, as attention on a CPU, vmap warns; it is still no slower.
        torch._C._functorch._set_vmap_fallback_warning_enabled(False)  # type: ignore[attr-defined]
        return torch.func.vmap(one_draw)(chunk.factors) if chunk.factors else one_draw({}).unsqueeze(0)
    except BaseException as error:
        # An interrupt between two lines of vmap leaves its level, in which nobody can draw random numbers any more. The
        # traceback may hold a context that would take off a level much later, then of somebody else.
        if torch._C._functorch.get_dynamic_layer_stack_depth() > depth:
            traceback.clear_frames(error.__traceback__)
        raise
    finally:
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        for now, then in own:  # also of what the model has kept, which belongs to this trial
            now.clear()
            now.update(then)
        torch._C._functorch._set_vmap_fallback_warning_enabled(True)  # type: ignore[attr-defined]


def _contents(model: nn.Module) -> list[tuple[Any, Any]]:
    """What the modules of a model hold, and a copy of it as it is now."""
    return [(each, each.copy()) for m in model.modules() for each in (vars(m), m._buffers)]


def _factor(factors: Mapping[int, Tensor], chunk: Chunk, site: ConcreteDropout, x: Tensor) -> Tensor:
    """Give the factor of a site inside a draw of a chunk, whose ``factors`` have shape (K,)."""
    chunk.was_used = True
    if any(x.stride()):  # otherwise it only stands for a shape
        chunk.see(x)
    factor = factors.get(id(site))
    return torch.ones(1, site.num_units, device=x.device) if factor is None else factor.unsqueeze(0)


# Recurrent modules: PyTorch has no batching rule for them


class _FoldDraws(torch.autograd.Function):
    """Call ``run(S, *tensors)``, whose tensors, arguments and results, have the draws in dimension 0."""

    @staticmethod
    def forward(run: Callable[..., tuple[Tensor, ...]], chunk: Chunk, *tensors: Tensor) -> tuple[Tensor, ...]:
        results = run(1, *(tensor.unsqueeze(0) for tensor in tensors))
        chunk.see(results[0])
        return tuple(result.squeeze(0) for result in results)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep nothing: predictions have no gradient."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, run: Callable[..., tuple[Tensor, ...]], chunk: Chunk, *tensors: Tensor) -> Any:
        batched = [t.movedim(dim, 0) for t, dim in zip(tensors, in_dims[2:], strict=True) if dim is not None]
        of_draw: Tensor | slice = slice(None)
        size, copied = info.batch_size, 1
        is_hard = not torch.is_grad_enabled()  # relaxed masks differ everywhere, and have a gradient
        if is_hard and in_dims[2] is None and all(tensor.ndim == 2 and tensor.is_cpu for tensor in batched):
            # The same sequences in all draws, which few masks of few inputs tell apart: .4 of the time of a small LSTM.
            rows, of_draw = torch.cat(batched, 1).unique(dim=0, return_inverse=True)
            batched, size = list(rows.split([tensor.shape[1] for tensor in batched], 1)), len(rows)
            copied = 16  # an activation that is copied to other draws takes the room of so many that are computed
        rest = iter(batched)
        moved = [
            tensor.expand(size, *tensor.shape) if dim is None else next(rest)
            for tensor, dim in zip(tensors, in_dims[2:], strict=True)
        ]
        results = tuple(result[of_draw] for result in run(size, *moved))
        chunk.see(results[0], info.batch_size * copied)
        return results, (0,) * len(results)


def _recurrent(
    module: nn.RNNBase,
    forward: Callable[..., Any],
    factors: Mapping[int, Tensor],
    chunk: Chunk,
    input: Tensor,
    hx: Any = None,
) -> Any:
    """Forward of a recurrent module inside a draw of a chunk: the sequences of all draws are one batch."""
    if not isinstance(input, Tensor) or input.ndim != 3:
        return forward(input, hx)
    holder = module._modules.get(SITE)
    sites = [site for site in holder.children() if id(site) in factors] if holder is not None else []
    chunk.was_used |= bool(sites)
    states = () if hx is None else tuple(hx) if module.mode == "LSTM" else (hx,)
    run = functools.partial(_run_folded, module, forward, sites, len(states))
    output, *final = _FoldDraws.apply(run, chunk, input, *states, *(factors[id(site)] for site in sites))
    return output, tuple(final) if module.mode == "LSTM" else final[0]


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
    with factors_from(lambda site, _: rows[site], nn.ModuleList(sites)):
        hx = None if not states else states if module.mode == "LSTM" else states[0]
        output, final = forward(fold(input, batch_dim), hx)
    finals = final if module.mode == "LSTM" else (final,)
    return (unfold(output, batch_dim), *(unfold(state, 1) for state in finals))
