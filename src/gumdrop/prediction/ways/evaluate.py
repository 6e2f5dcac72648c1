"""Evaluate functions drawn from the posterior: many draws at once where the model allows it, else one by one.

Each site has its own stream of noise, and draw t takes the t-th row of it. So one seed gives the same draws however
many run at once, and the plain loop over draws, which any model can run, is the measure of the rest.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from gumdrop.functional.devices import read, sent
from gumdrop.functional.masks import inverse_keep
from gumdrop.layers import ConcreteDropout, is_own_hook, watch_rates
from gumdrop.prediction.drawing import MaskNoise, drawing_twin
from gumdrop.prediction.inputs import Arguments
from gumdrop.prediction.switches import OwnRandomness
from gumdrop.prediction.ways.chain import Chunk, chain_of, first_drop, run_chain
from gumdrop.prediction.ways.folding import Foldable, foldable, folded
from gumdrop.prediction.ways.vmap import run_batched

__all__ = ["Output", "drawn"]


Output = Callable[[Any], Tensor] | None

CACHED = 2**21
"""Bytes of the largest activation of a chunk on a CPU. Larger chunks leave the cache and are slower."""
MOST_BYTES = 2**28
"""The same on other devices, which many rows keep busy."""
RESULTS = 4
"""How many times as large the outputs of a chunk may be, over all rows."""
LOOPED = 32
"""Draws that the loop evaluates, one by one, before their moments are taken together."""


def drawn(
    model: nn.Module,
    x: Arguments,
    num_samples: int,
    seed: int | None,
    batch_size: int | None,
    output: Output,
    *,
    has_parts: bool = True,
) -> Iterator[Tensor]:
    """Evaluate functions drawn from the posterior, as many at once as the model and the device's memory allow.

    Args:
        model: The model.
        x: The arguments of a call, from `gumdrop.prediction.inputs.arguments`.
        num_samples: Monte Carlo samples S.
        seed: Seed of the masks; drawn if None.
        batch_size: Rows that run at once; all if None.
        output: Takes a tensor out of what the model returns; None where that is one.
        has_parts: Whether somebody reads an epistemic part in it, which must not be 0 in silence.

    Yields:
        The outputs of the next functions for all rows, shape (S, N, ...).

    Raises:
        ValueError: If ``num_samples`` or ``batch_size`` is less than 1, or the model did not use any of its dropout.
    """
    if num_samples < 1:
        raise ValueError(f"`num_samples` must be at least 1, got {num_samples}")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1, got {batch_size}; None takes all rows at once")
    length = len(x)
    step = min(batch_size or length, length)
    parts = [slice(start, start + step) for start in range(0, length, step)]
    with torch.no_grad():
        twin, noise, dropout = drawing_twin(model, seed)
        if has_parts and dropout.only_learned:
            watch_rates(dropout.learned, num_samples, stacklevel=5)  # past `by_batches` and what it calls
        ways = _ways(twin, x, output, step)
        ways = ways if dropout.only_learned else ways[:1]
        done, count = 0, ways[-1].first_count
        while done < num_samples:
            state = noise.state() if len(ways) > 1 else []
            try:
                result, most = ways[-1].evaluate(noise, min(count, num_samples - done), parts)
            except Exception:
                if len(ways) == 1:
                    raise
                noise.restore(state)
                ways.pop()
                count = ways[-1].first_count
                continue
            yield result
            done += len(result)
            count = max(1, min(most, _limit(result) // max(1, result[0].numel() * result.element_size())))
            if most < ways[-1].least:
                ways.pop()
        if not (noise.was_used or dropout.inside):
            raise ValueError(
                "`model` did not use any of its dropout in this prediction, so all draws are the same: its code uses "
                "the weights of layers without calling the layers, or other modules than those of the model"
            )


def _ways(model: nn.Module, x: Arguments, output: Output, rows: int) -> list["_Loop"]:
    """All ways to run a model, the best one last."""
    is_watched = _has_foreign_hooks(model)
    ways = [_Loop(model, x, output, [] if is_watched else foldable(model))]
    device = x.tensors[0].device.type
    if not is_watched and not torch.is_autocast_enabled(device):  # which does not act under vmap
        ways.append(_AtOnce(model, x, output, rows))
    if not is_watched and x.alone is not None and (chain := chain_of(model)) is not None:
        ways.append(_Chain(model, x, output, rows, chain))
    return ways


def _has_foreign_hooks(model: nn.Module) -> bool:
    """Tell whether someone watches the forward, and would see several draws at once, or inputs without drops."""
    return bool(_global_forward_pre_hooks or _global_forward_hooks) or any(
        not is_own_hook(hook)
        for module in model.modules()
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    )


class _Loop:
    """One draw after the other: what any model can do."""

    least = 1
    """Smallest chunk that is quicker so than the next way."""

    def __init__(self, model: nn.Module, x: Arguments, output: Output, layers: Foldable) -> None:
        self.model, self.x, self.output, self.layers = model, x, output, layers
        self.randomness: OwnRandomness | None = None

    @property
    def first_count(self) -> int:
        """Number of draws in the first chunk."""
        return 1

    def evaluate(self, noise: MaskNoise, count: int, parts: list[slice]) -> tuple[Tensor, int]:
        """Evaluate the next draws for all parts of the rows; give (S, N, ...) and how many the next chunk may hold."""
        self.randomness = self.randomness or OwnRandomness(self.model, noise.seed)
        with self.randomness.used(), folded(self.layers):
            results = [self._draw(noise, parts) for _ in range(count)]
        return torch.stack(results), LOOPED

    def _draw(self, noise: MaskNoise, parts: list[slice]) -> Tensor:
        noise.renew()
        results = []
        for rows in parts:
            noise.restart()
            results.append(self._call(rows))
        return _joined(results, dim=0)

    def _call(self, rows: slice) -> Tensor:
        result = self.x[rows].call(self.model)
        result = result if self.output is None else self.output(result)
        if not isinstance(result, Tensor):
            raise TypeError(
                f"the model returned a {type(result).__name__}; pass `output`, a function that takes the "
                "tensor out of it, as in output=lambda result: result.logits"
            )
        return result


class _AtOnce(_Loop):
    """A few draws at once, of any model that `torch.func.vmap` can run."""

    least = 4  # with fewer, batching costs what it gains

    def __init__(self, model: nn.Module, x: Arguments, output: Output, rows: int) -> None:
        super().__init__(model, x, output, [])
        self.rows = rows
        self.budget = _budget(x.tensors[0].device)

    @functools.cached_property
    def sites(self) -> dict[ConcreteDropout, tuple[Tensor, Tensor, Tensor | None]]:
        """Rate and inverse probability of keeping of each site, and the rate on the CPU where nearly all is kept."""
        sites = [module for module in self.model.modules() if isinstance(module, ConcreteDropout)]
        logits = [site.p_logit for site in sites]
        inverses = [inverse_keep(logit) for logit in logits]
        largest = read([inverse.max() for inverse in inverses])
        found = {}
        for site, logit, inverse, most in zip(sites, logits, inverses, largest, strict=True):
            p = torch.sigmoid(logit)
            # Where 1 - p rounds to 1, a unit is dropped once in 2 ** 24 draws.
            found[site] = (p, inverse, p.cpu() if most == 1 else None)
        return found

    @functools.cached_property
    def first_count(self) -> int:
        """Number of draws in the first chunk, rather too few: it shows how large the activations are."""
        widest = max(site.num_units for site in self.sites)
        return max(1, self.budget // (4 * self.rows * widest * max(1, self._positions())))

    def _positions(self) -> int:
        return max(tensor[0].numel() for tensor in self.x.tensors)

    def evaluate(self, noise: MaskNoise, count: int, parts: list[slice]) -> tuple[Tensor, int]:
        """Evaluate the next draws, as `_Loop.evaluate`."""
        scales = {id(site): self._scale(site, noise.rows(site, count)) for site in self.sites}
        chunk = Chunk(count, scales)
        result = _joined([self._run(chunk, rows) for rows in parts], dim=1)
        noise.was_used |= chunk.was_used
        return result.expand(count, *result.shape[1:]), max(1, self.budget // max(1, chunk.widest))

    def _scale(self, site: ConcreteDropout, noise: Tensor) -> Tensor | None:
        """Hard factors as `gumdrop.functional.dropout_scale` gives them, in the memory of the noise."""
        p, inverse, rare = self.sites[site]
        if rare is not None and bool((noise >= rare).all()):
            return None
        return sent(noise, p.device).ge_(p).mul_(inverse)

    def _run(self, chunk: Chunk, rows: slice) -> Tensor:
        """Run the draws of a chunk for some of the rows; shape (S or 1, N, ...)."""
        return run_batched(self.model, lambda: self._call(rows), list(self.sites), chunk)


class _Chain(_AtOnce):
    """A few draws at once, of a chain of known layers: what stands before the first drop runs a single time."""

    least = 1

    def __init__(self, model: nn.Module, x: Arguments, output: Output, rows: int, chain: list[nn.Module]) -> None:
        assert x.alone is not None
        self.chain, self.tensor = chain, x.alone
        self.prefix: dict[int, Tensor] = {}
        self.keeps_prefix = rows == len(x)
        super().__init__(model, x, output, rows)

    def _positions(self) -> int:
        dense = all(site.feature_dim == -1 for site in self.sites)
        return super()._positions() // (max(1, self.tensor.shape[-1]) if dense else 1)

    def _run(self, chunk: Chunk, rows: slice) -> Tensor:
        start = first_drop(self.chain, chunk)
        x = self.prefix.get(start)
        if x is None:
            x = run_chain(self.chain[:start], self.tensor[rows], chunk)[0]
            if self.keeps_prefix:
                self.prefix = {start: x}
        result = run_chain(self.chain[start:], x, chunk)
        return result if self.output is None else torch.func.vmap(self.output)(result)


def _budget(device: torch.device) -> int:
    """Bytes that the largest activation of a chunk may have."""
    if device.type == "cpu":
        return CACHED
    return min(MOST_BYTES, torch.cuda.mem_get_info(device)[0] // 16) if device.type == "cuda" else MOST_BYTES


def _limit(result: Tensor) -> int:
    """Bytes that the outputs of a chunk may have, over all rows."""
    return RESULTS * _budget(result.device)


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=dim)
