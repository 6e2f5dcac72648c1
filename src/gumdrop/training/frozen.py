"""A network whose weights stay: functions drawn from it at rates that are tried, with hard masks or relaxed ones."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.layers import UNIT, ConcreteDropout
from gumdrop.layers.block import NEVER
from gumdrop.layers.site import factors_from, sites_of
from gumdrop.prediction.draws import Output, drawn
from gumdrop.prediction.inputs import Arguments
from gumdrop.prediction.vmap import Chunk, run_batched

JUDGES = 64
"""Draws that rates are judged by, and that the temperature is for."""


class Rows(NamedTuple):
    """Inputs and targets."""

    x: Arguments
    y: Tensor

    def some(self, rows: Tensor) -> "Rows":
        """Pick rows."""
        return Rows(self.x[rows], self.y[sent(rows, self.y.device)])


@dataclass(frozen=True, eq=False)
class FrozenNetwork:
    """A twin of a model whose rates are its own, and how it draws."""

    twin: nn.Module
    num_samples: int
    batch_size: int
    seed: int
    output: Output

    @functools.cached_property
    def sites(self) -> list[ConcreteDropout]:
        """All sites of the twin."""
        return sites_of(self.twin)

    def outputs(self, x: Arguments, logits: Tensor) -> Tensor:
        """Evaluate functions with hard masks, (S, N, ...); those without drops are one."""
        for site, logit in zip(self.sites, logits, strict=True):
            vars(site)["scaled_logit"] = logit / UNIT  # in the place of the parameter, which the twin shares
            site.use.told = True  # nobody need be warned of rates that are tried
        count = 1 if bool((logits == NEVER).all()) else JUDGES
        rows = self.num_samples * self.batch_size  # as many as a step has, which keeps them for its gradient
        return torch.cat(list(drawn(self.twin, x, count, self.seed, rows, self.output, has_parts=False)))

    def relaxed(self, x: Arguments, factors: Sequence[Tensor]) -> Tensor:
        """Evaluate functions by what each site multiplies its units by, (S, K), with a gradient, (S, N, ...)."""
        chunk = Chunk(len(factors[0]), {id(site): each for site, each in zip(self.sites, factors, strict=True)})
        try:
            return run_batched(self.twin, functools.partial(self._call, x), chunk)
        except Exception:  # whatever is raised by code that depends on the values of a draw
            return torch.stack([self._one(x, each) for each in zip(*factors, strict=True)])

    def _one(self, x: Arguments, factors: Sequence[Tensor]) -> Tensor:
        of_site = {id(site): factor.unsqueeze(0) for site, factor in zip(self.sites, factors, strict=True)}
        with factors_from(lambda site, _: of_site[id(site)], self.twin):
            return self._call(x)

    def _call(self, x: Arguments) -> Tensor:
        result = x.call(self.twin)
        return result if self.output is None else self.output(result)
