"""Evaluate functions drawn from the posterior: many draws at once where the model allows it, else one by one.

Each site has its own stream of noise, and draw t takes the t-th row of it. So one seed gives the same draws however
many run at once, and the plain loop over draws, which any model can run, is the measure of the rest.
"""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.layers import ConcreteDropout, check_rates, watch_rates
from gumdrop.prediction.drawing import MaskNoise, Stochastic, drawing_twin
from gumdrop.prediction.inputs import Arguments
from gumdrop.prediction.switches import OwnRandomness
from gumdrop.prediction.twins import uncompiled
from gumdrop.prediction.ways.chain import Chunk, chain_of, first_drop, is_watched, run_chain
from gumdrop.prediction.ways.folding import Foldable, foldable, folded
from gumdrop.prediction.ways.masks import Rate, factors_of, rates_of
from gumdrop.prediction.ways.vmap import run_batched

__all__ = ["Output", "drawn"]


Output = Callable[[Any], Tensor] | None

CACHED = 2**21
"""Bytes of the largest activation of a chunk on a CPU. Larger chunks leave the cache and are slower."""
MOST_BYTES = 2**28
"""The same on other devices, which many rows keep busy."""
RESULTS = 4
"""How many times as large the outputs of a chunk may be, over all rows."""
EQUAL = 2**15
"""Numbers in an activation of all draws that keep all units, as expected, from which on these run once."""
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
    _keep_what_is_freed()
    with torch.no_grad():
        call = _Call.of(uncompiled(model), x, output, step, seed)
        dropout, noise = call.dropout, call.noise
        if has_parts and dropout.only_learned:
            rates = [rate.numbers for rate in call.rates.values()]
            watch_rates(dropout.learned, rates, num_samples, stacklevel=5)  # past `by_batches` and what it calls
        ways = _ways(call)
        done, count = 0, ways[-1].first_count
        while done < num_samples:
            state = noise.state() if len(ways) > 1 else []
            try:
                result, most = ways[-1].evaluate(min(count, num_samples - done), parts)
            except Exception:
                if len(ways) == 1:
                    raise
                noise.restore(state)
                ways.pop()
                count = ways[-1].first_count
                continue
            yield result
            done += len(result)
            fits = RESULTS * _budget(result.device) // max(1, result[0].numel() * result.element_size())
            count = max(1, min(most, fits))
            if most < ways[-1].least:
                ways.pop()
        if not (noise.was_used or dropout.inside):
            raise ValueError(
                "`model` did not use any of its dropout in this prediction, so all draws are the same: its code uses "
                "the weights of layers without calling the layers, or other modules than those of the model"
            )


@functools.cache
def _keep_what_is_freed() -> None:
    """Have the C library keep the memory that a chunk frees for the next one.

    By default glibc gives blocks above 128 KiB back to the system. Then each of their pages is asked for again, which
    takes longer than a layer of a small network. Once a larger block was freed it keeps what is smaller than that
    (mallopt(3), M_MMAP_THRESHOLD); so one is freed here that nobody has written to. Others do not notice.
    """
    torch.empty(RESULTS * CACHED, dtype=torch.uint8)


@dataclass
class _Call:
    """What a prediction is asked for, and what all ways to run the model share."""

    model: nn.Module
    x: Arguments
    output: Output
    rows: int
    """Rows that run at once."""
    dropout: Stochastic
    noise: MaskNoise

    @classmethod
    def of(cls, model: nn.Module, x: Arguments, output: Output, rows: int, seed: int | None) -> "_Call":
        dropout = Stochastic.of(model, maskless=True)
        check_rates(dropout.learned, model)
        noise = MaskNoise(dropout.learned, dropout.plain, seed, shared=True, pinned=True)
        return cls(model, x, output, rows, dropout, noise)

    @functools.cached_property
    def rates(self) -> dict[ConcreteDropout, Rate]:
        """The rates of the model's sites."""
        return rates_of(self.dropout.learned)

    @functools.cached_property
    def twin(self) -> tuple[nn.Module, list[ConcreteDropout]]:
        """Another model around the same parameters, whose dropout is on, and its sites."""
        return drawing_twin(self.model, self.noise)

    @property
    def device(self) -> torch.device:
        """That of the inputs."""
        return self.x.tensors[0].device


def _ways(call: _Call) -> list["_Loop"]:
    """All ways to run a model, the best one last."""
    watched = is_watched(call.dropout.modules)
    ways = [_Loop(call, folds=not watched)]
    if watched or not call.dropout.only_learned:
        return ways
    if not torch.is_autocast_enabled(call.device.type):  # which does not act under vmap
        ways.append(_AtOnce(call))
    if call.x.alone is not None and (chain := chain_of(call.model)) is not None:
        ways.append(_Chain(call, chain, call.x.alone))
    return ways


class _Loop:
    """One draw after the other: what any model can do."""

    least = 1
    """Smallest chunk that is quicker so than the next way."""

    def __init__(self, call: _Call, *, folds: bool = False) -> None:
        self.call, self.folds = call, folds
        self.randomness: OwnRandomness | None = None

    @functools.cached_property
    def layers(self) -> Foldable:
        """Layers whose weights are dropped in place of their inputs, where these are larger."""
        return foldable(self.call.twin[0]) if self.folds else []

    @property
    def first_count(self) -> int:
        """Number of draws in the first chunk."""
        return 1

    def evaluate(self, count: int, parts: list[slice]) -> tuple[Tensor, int]:
        """Evaluate the next draws for all parts of the rows; give (S, N, ...) and how many the next chunk may hold."""
        self.randomness = self.randomness or OwnRandomness(self.call.twin[0], self.call.noise.seed)
        with self.randomness.used(), folded(self.layers):
            results = [self._draw(parts) for _ in range(count)]
        return torch.stack(results), LOOPED

    def _draw(self, parts: list[slice]) -> Tensor:
        self.call.noise.renew()
        results = []
        for rows in parts:
            self.call.noise.restart()
            results.append(self._pass(rows))
        return _joined(results, dim=0)

    def _pass(self, rows: slice) -> Tensor:
        result = self.call.x[rows].call(self.call.twin[0])
        result = result if self.call.output is None else self.call.output(result)
        if not isinstance(result, Tensor):
            raise TypeError(
                f"the model returned a {type(result).__name__}; pass `output`, a function that takes the "
                "tensor out of it, as in output=lambda result: result.logits"
            )
        return result


class _AtOnce(_Loop):
    """A few draws at once, of any model that `torch.func.vmap` can run."""

    least = 4  # with fewer, batching costs what it gains

    def __init__(self, call: _Call) -> None:
        super().__init__(call)
        self.budget = _budget(call.device)

    @functools.cached_property
    def rates(self) -> dict[ConcreteDropout, Rate]:
        """The rate of each site that is run."""
        return dict(zip(self.call.twin[1], self.call.rates.values(), strict=True))

    @functools.cached_property
    def all_kept(self) -> dict[int, float]:
        """Probability that a draw keeps all units of a site, by its identity."""
        return {id(site): rate.all_kept(site.num_units) for site, rate in self.rates.items()}

    @functools.cached_property
    def first_count(self) -> int:
        """Number of draws in the first chunk, rather too few: it shows how large the activations are."""
        return max(1, self.budget // (4 * self.numbers))

    @functools.cached_property
    def numbers(self) -> int:
        """Numbers in the largest activation of a draw, as far as the sites and the input show it."""
        return self.call.rows * max(site.num_units for site in self.call.rates) * max(1, self._positions())

    def _positions(self) -> int:
        return max(tensor[0].numel() for tensor in self.call.x.tensors)

    def evaluate(self, count: int, parts: list[slice]) -> tuple[Tensor, int]:
        """Evaluate the next draws, as `_Loop.evaluate`."""
        noise, equal = self.call.noise, count * math.prod(self.all_kept.values())
        finds_equal = equal > 1 and equal * self.numbers > EQUAL
        scales, places = factors_of(self.rates, lambda site: noise.rows(site, count), equal_once=finds_equal)
        chunk = Chunk(1 + max(places) if places else count, scales, self.all_kept, self.budget)
        result = _joined([self._run(chunk, rows) for rows in parts], dim=1)
        noise.was_used |= chunk.was_used
        result = result.expand(chunk.count, *result.shape[1:])
        if chunk.count < count:
            result = result.index_select(0, sent(torch.tensor(places), result.device))
        return result, max(1, self.budget // max(1, chunk.widest))

    def _run(self, chunk: Chunk, rows: slice) -> Tensor:
        """Run the draws of a chunk for some of the rows; shape (S or 1, N, ...)."""
        return run_batched(self.call.twin[0], lambda: self._pass(rows), list(self.rates), chunk)


class _Chain(_AtOnce):
    """A few draws at once, of a chain of known layers: what stands before the first drop runs a single time."""

    least = 1

    def __init__(self, call: _Call, chain: list[nn.Module], x: Tensor) -> None:
        super().__init__(call)
        self.chain, self.x = chain, x
        self.prefix: dict[int, Tensor] = {}
        self.keeps_prefix = call.rows == len(x)

    @functools.cached_property
    def rates(self) -> dict[ConcreteDropout, Rate]:
        """Those of the model itself: of a chain no twin is needed, since nothing in it asks for its mode."""
        return self.call.rates

    def _positions(self) -> int:
        dense = all(site.feature_dim == -1 for site in self.call.rates)
        return super()._positions() // (max(1, self.x.shape[-1]) if dense else 1)

    def _run(self, chunk: Chunk, rows: slice) -> Tensor:
        start = first_drop(self.chain, chunk)
        x = self.prefix.get(start)
        if x is None:
            x = run_chain(self.chain[:start], self.x[rows], chunk)[0]
            if self.keeps_prefix:
                self.prefix = {start: x}
        result = run_chain(self.chain[start:], x, chunk)
        return result if self.call.output is None else torch.func.vmap(self.call.output)(result)


def _budget(device: torch.device) -> int:
    """Bytes that the largest activation of a chunk may have."""
    if device.type == "cpu":
        return CACHED
    return min(MOST_BYTES, torch.cuda.mem_get_info(device)[0] // 16) if device.type == "cuda" else MOST_BYTES


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=dim)
