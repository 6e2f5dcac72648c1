"""A network whose weights stay: functions drawn from it at rates that are tried, with hard masks or relaxed ones."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.layers import UNIT, ConcreteDropout
from gumdrop.layers.block import NEVER
from gumdrop.layers.site import factors_from, sites_of
from gumdrop.likelihoods import Gaussian, Likelihood, StudentT
from gumdrop.networks.learn import learn_dropout
from gumdrop.networks.plain_dropout import own_dropout
from gumdrop.prediction.draws import Output, drawn
from gumdrop.prediction.inputs import Arguments
from gumdrop.prediction.vmap import Chunk, run_batched

EXACT = 1e-6
"""Largest residual, in units of the largest target, that rounding leaves of none."""
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

    def outputs(self, x: Arguments, logits: Tensor, *, share: int = 1) -> Tensor:
        """Evaluate functions (S, N, ...) with hard masks, one of so many of the judges; those without drops are one."""
        for site, logit in zip(self.sites, logits, strict=True):
            vars(site)["scaled_logit"] = logit / UNIT  # in the place of the parameter, which the twin shares
            site.use.told = True  # nobody need be warned of rates that are tried
        count = 1 if bool((logits == NEVER).all()) else JUDGES // share
        # Few rows leave room for many draws at once, which share what stands in front of the first site.
        return torch.cat(list(drawn(self.twin, x, count, self.seed, self.batch_size, self.output, has_parts=False)))

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


def place_sites(model: nn.Module) -> None:
    """Convert a model that is not, where it has dropout of its own or else everywhere, and switch off what is left."""
    if not sites_of(model):
        if any(own_dropout(model, {})):
            learn_dropout(model, include=[], plain_dropout="learn")
        else:
            learn_dropout(model)
    for *_, own in list(own_dropout(model, {})):
        setattr(own.module, own.attribute, 0.0)


def with_noise(likelihood: Likelihood, network: FrozenNetwork, rows: Rows) -> Likelihood:
    """Check means of numbers against the targets, and give a network that returns them alone the noise of residuals."""
    if type(likelihood) not in (Gaussian, StudentT):
        return likelihood
    (output,) = network.outputs(rows.x, torch.full((len(network.sites),), NEVER))
    y, has_noise = rows.y, likelihood.log_variance is not None  # type: ignore[attr-defined]
    if output.shape != y.shape and (has_noise or output.shape != (*y.shape[:-1], 2 * y.shape[-1])):
        raise ValueError(
            f"the targets in `held_out` have shape {tuple(y.shape)}, and the model returns {tuple(output.shape)}: it "
            "must be means of the shape of the targets, or twice as many, with log variances; (N,) and (N, 1) differ, "
            "see Tensor.unsqueeze"
        )
    residuals = y - output[..., : y.shape[-1]]
    if residuals.abs().max() <= EXACT * y.abs().max():
        raise ValueError(
            "the model is exact on all rows of `held_out`, so that no noise is small enough: it was trained on these "
            "rows, or is given the target; take rows that it has not seen"
        )
    if has_noise or output.shape != y.shape or type(likelihood) is not Gaussian:
        return likelihood
    return replace(likelihood, log_variance=residuals.square().mean(0).clamp(min=1e-12).log())
