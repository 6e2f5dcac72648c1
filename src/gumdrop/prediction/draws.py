"""Evaluate functions drawn from the posterior: many draws at once where the model allows it, else one by one.

Each site has its own stream of noise, and draw t takes the t-th row of it. So one seed gives the same draws however
many run at once, and the plain loop over draws, which any model can run, is the measure of the rest. Dense networks run
as one (`gumdrop.networks.dense`), all others under `torch.func.vmap`; where that refuses, the loop goes on.
"""

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from gumdrop.functional.devices import fetched, sent
from gumdrop.functional.masks import dropout_scale
from gumdrop.layers import ConcreteDropout
from gumdrop.layers.attach import check_rates, is_watched
from gumdrop.layers.watch import watch_rates
from gumdrop.machine.notes import warn
from gumdrop.machine.threads import keep_what_is_freed
from gumdrop.networks.dense import DenseFunctions
from gumdrop.prediction.drawing import MaskNoise, OwnRandomness, PlainDrop, Stochastic, switched_on
from gumdrop.prediction.inputs import Arguments
from gumdrop.prediction.twins import uncompiled
from gumdrop.prediction.vmap import Chunk, run_batched

Output = Callable[[Any], Tensor] | None

CACHED = 2**21
"""Bytes of the largest activation of a chunk on a CPU. Larger chunks leave the cache and are slower."""
MOST_BYTES = 2**28
"""The same on other devices, which many rows keep busy."""
RESULTS = 4
"""How many times as large the outputs of a chunk may be, over all rows."""
LEAST_AT_ONCE = 4
"""Draws of a chunk under vmap; with fewer, batching costs what it gains."""
LOOPED = 32
"""Draws that the loop evaluates, one by one, before their moments are taken together."""
_LOOKED_AT: weakref.WeakSet[nn.Module] = weakref.WeakSet()
"""Models of which is known whether their forwards draw random numbers, or are told of it."""


@torch.no_grad()
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
    """Evaluate functions drawn from the posterior for all rows, (S, N, ...), as many at once as fit."""
    if num_samples < 1:
        raise ValueError(f"`num_samples` must be at least 1, got {num_samples}")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1, got {batch_size}; None takes all rows at once")
    keep_what_is_freed()
    call = _Call(uncompiled(model), x, output, seed, batch_size)
    if has_parts and call.dropout.only_learned:
        watch_rates(call.dropout.learned, [p.sigmoid().tolist() for p in call.logits], num_samples)
    left = num_samples
    for way in call.ways():
        for result in way(left):
            yield result
            left -= len(result)
        if not left:
            break
    if not call.used_dropout:
        raise ValueError(
            "`model` did not use any of its dropout in this prediction, so all draws are the same: its code uses the "
            "weights of layers without calling the layers, or other modules than those of the model"
        )


class _Call:
    """What a prediction is asked for, and the ways to run its model."""

    def __init__(
        self, model: nn.Module, x: Arguments, output: Output, seed: int | None, batch_size: int | None
    ) -> None:
        self.model, self.x, self.output = model, x, output
        self.rows, self.device = min(batch_size or len(x), len(x)), x.tensors[0].device
        self.parts = [slice(start, start + self.rows) for start in range(0, len(x), self.rows)]
        self.dropout = Stochastic.of(model, maskless=True)
        check_rates(self.dropout.learned, model)
        self.noise = MaskNoise(self.dropout.num_masked, seed)
        self.randomness = OwnRandomness(self.model, self.noise.seed)
        if not all(site.num_units for site in self.dropout.learned):  # they count the units of what they see
            with OwnRandomness(self.model, self.noise.seed).used():
                self._pass(self.parts[0])
        self.used_dropout = bool(self.dropout.inside)

    @functools.cached_property
    def on(self) -> tuple[nn.Module, list[ConcreteDropout], list[PlainDrop]]:
        """A twin of the model, its sites, and its plain dropout."""
        return switched_on(self.model, self.noise, maskless=True)

    @functools.cached_property
    def logits(self) -> list[Tensor]:
        """The logits of the rates on the CPU, for which the device is waited for once."""
        logits = [site.p_logit.detach() for site in self.dropout.learned]
        return list(fetched(logits).split([each.numel() for each in logits])) if logits else []

    def factors(self, count: int) -> tuple[list[Tensor], Tensor | None]:
        """Draw what sites multiply by, and evaluate draws that keep all units once, since they are one function."""
        factors = []
        for number, (site, logit) in enumerate(zip(self.dropout.learned, self.logits, strict=True)):
            noise = self.noise.of(number, (count, site.num_units), logit.dtype)
            factors.append(dropout_scale(logit, noise, hard=True))
        if self.randomness.moved or not self.dropout.only_learned:
            return factors, None
        same = torch.stack([(factor > 0).all(1) for factor in factors]).all(0)
        if same.sum() < 2:
            return factors, None
        chosen = ~same | (same & (same.cumsum(0) == 1))
        indices = chosen.cumsum(0) - 1
        return [factor[chosen] for factor in factors], torch.where(same, indices[same][0], indices)

    def ways(self) -> Iterator[Callable[[int], Iterator[Tensor]]]:
        """Ways to run the model, the best one first; each goes on where the one before has stopped."""
        # Who watches the forward would see several draws at once, or inputs without drops.
        watched = _global_forward_hooks or _global_forward_pre_hooks or is_watched(self.model)
        if self.dropout.only_learned and not watched:
            x = self.x.alone
            dense = None if x is None or x.ndim != 2 or self.output is not None else DenseFunctions.of([self.model])
            if x is not None and dense is not None and dense.takes(x):
                yield functools.partial(self._of_dense, dense, x)
            elif not torch.is_autocast_enabled(self.device.type):  # which does not act under vmap
                yield self._at_once
        yield self._one_by_one

    def _of_dense(self, dense: DenseFunctions, x: Tensor, left: int) -> Iterator[Tensor]:
        self.used_dropout = True
        widest = self.rows * max(weight.shape[2] for weight in dense.weights) * x.element_size()
        while left:
            count = min(left, self._count(widest, dense.weights[-1].shape[1]))
            factors, indices = self.factors(count)
            on_device = [sent(factor, x.device)[None, :, None] for factor in factors]
            yield self._placed(torch.cat([dense.outputs(x[rows], on_device)[0] for rows in self.parts], dim=1), indices)
            left -= count

    def _at_once(self, left: int) -> Iterator[Tensor]:
        """Run chunks under vmap until it refuses."""
        positions = max(tensor[0].numel() for tensor in self.x.tensors)
        twin, sites, _ = self.on
        widest = 16 * self.rows * max(1, positions) * max(1, *(site.num_units for site in sites))  # rather too much
        outputs = 1
        while left:
            state, count = self.noise.state(), min(left, self._count(widest, outputs))
            factors, indices = self.factors(count)
            pairs = zip(sites, factors, strict=True)
            chunk = Chunk(len(factors[0]), {id(s): sent(f, self.device) for s, f in pairs if (f != 1).any()})
            # vmap refuses random numbers of the forward's own; where all units are kept, it has nothing to batch.
            turn = contextlib.nullcontext() if chunk.factors else self.randomness.used()
            try:
                with turn:
                    parts = [run_batched(twin, functools.partial(self._pass, rows), chunk) for rows in self.parts]
                if self.randomness.moved:
                    raise RuntimeError("the forward draws random numbers")
            except Exception:  # whatever is raised by code that depends on the values of a draw
                self.noise.restore(state)
                return
            self.used_dropout |= chunk.was_used
            yield self._placed(torch.cat(parts, dim=1).expand(len(factors[0]), -1, *parts[0].shape[2:]), indices)
            left -= count
            widest, outputs = max(1, chunk.widest), parts[0][0, 0].numel()
            if self._count(widest, outputs) < LEAST_AT_ONCE:
                return

    def _one_by_one(self, left: int) -> Iterator[Tensor]:
        while left:
            before, count = self.noise.state(), min(left, LOOPED)
            factors, indices = self.factors(count)
            drawn = len(factors[0]) if factors else count
            is_known = self.model in _LOOKED_AT or self.dropout.inside
            start = None if is_known else (self.noise.state(), self.randomness.states())
            with self.randomness.used():
                results = [self._draw([factor[i : i + 1] for factor in factors]) for i in range(drawn)]
            if start is not None:
                self._look_at_randomness(*start, factors, results[0])
            if indices is not None and self.randomness.moved:  # draws that keep all units are no longer one function
                self.noise.restore(before)
                continue
            yield self._placed(torch.stack(results), indices)
            left -= count

    def _look_at_randomness(
        self, noise: list[Tensor], states: list[Tensor], factors: list[Tensor], result: Tensor
    ) -> None:
        """Warn, once for each model, if a function differs from itself by random numbers that no dropout has drawn.

        Another thread may draw, too, or train the model: so it is the same function again under the same numbers.
        """
        _LOOKED_AT.add(self.model)
        if not self.randomness.moved:
            return
        now = self.noise.state(), self.randomness.states()
        alike = []
        self.randomness.restore(states)
        for _ in range(2):  # by the numbers of the first time, and by those that follow
            self.noise.restore(noise)
            with self.randomness.used():
                again = self._draw([factor[:1] for factor in factors])
            alike.append(torch.allclose(again, result, rtol=1e-3, atol=1e-6, equal_nan=True))
        self.noise.restore(now[0])
        self.randomness.restore(now[1])
        if alike == [True, False]:
            warn(
                "the forward of the model draws random numbers in predictions that no module owns, as "
                "torch.nn.functional.dropout does without `training`, and an nn.Dropout that a forward makes: no rate "
                "is learned for them, and the draws differ by them, too. Give dropout a module of the model, or "
                "`training=self.training`"
            )

    def _draw(self, factors: list[Tensor]) -> Tensor:
        """Evaluate one function."""
        _, sites, drops = self.on
        for site, factor in zip(sites, factors, strict=True):
            site.factor_source = functools.partial(self._given, factor)
        for drop in drops:
            drop.renew()
        results = []
        for rows in self.parts:
            for drop in drops:
                drop.restart()
            results.append(self._pass(rows))
        self.used_dropout |= any(drop.was_used for drop in drops)
        return results[0] if len(results) == 1 else torch.cat(results)

    def _given(self, factor: Tensor, site: ConcreteDropout, x: Tensor) -> Tensor:
        """Give a site its factor, on the device of the input."""
        self.used_dropout = True
        return sent(factor, x.device)

    def _pass(self, rows: slice) -> Tensor:
        result = self.x[rows].call(self.on[0])
        result = result if self.output is None else self.output(result)
        if not isinstance(result, Tensor):
            raise TypeError(
                f"the model returned a {type(result).__name__}; pass `output`, a function that takes the "
                "tensor out of it, as in output=lambda result: result.logits"
            )
        return result

    def _placed(self, result: Tensor, indices: Tensor | None) -> Tensor:
        return result if indices is None else result[sent(indices, result.device)]

    def _count(self, widest: int, outputs: int) -> int:
        """Draws of a chunk, so that neither its largest activation nor its results are too large."""
        budget = CACHED if self.device.type == "cpu" else MOST_BYTES
        if self.device.type == "cuda":
            budget = min(budget, torch.cuda.mem_get_info(self.device)[0] // 16)
        return max(1, min(budget // widest, RESULTS * budget // (4 * len(self.x) * outputs)))
