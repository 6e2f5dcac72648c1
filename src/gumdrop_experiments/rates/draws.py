r"""Rates that are learned by what several draws predict together, while the weights follow the ELBO.

The ELBO asks how well each drawn function predicts by itself; a prediction averages them. For the rates alone the
expected log likelihood gives way to

.. math:: \mathbb{E}_{z_1 \dots z_m} \log \frac1m \sum_s p(y \mid x, z_s)

with Bernoulli masks, whose gradient has no bias at any rate: that of the scores of the masks, each against what the
other draws predict, and that of the factors 1 / (1 - p).

References:
    Morningstar, Alemi & Dillon 2022, "PAC^m-Bayes: Narrowing the Empirical Risk Gap in the Misspecified Bayesian
    Regime" (arXiv:2010.09629); Mnih & Rezende 2016, "Variational Inference for Monte Carlo Objectives"
    (arXiv:1602.06725).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from gumdrop.ensembles import EnsembleFit
from gumdrop.layers import SITE, ConcreteDropout
from gumdrop_experiments.rates.ensembles import Setup
from gumdrop_experiments.training import seeded

NUM_DRAWS = 4


class Drawn(NamedTuple):
    """What a network says of a batch while it is trained."""

    output: Tensor
    """Under relaxed masks, which have no gradient for the rates: shape (B, D)."""
    draws: Tensor
    """Under Bernoulli masks, with no gradient for the weights: shape (m, B, D)."""
    log_q: Tensor
    """Log probability of these masks, shape (m, B)."""


class Drawing(nn.Module):
    """A dense network, as `gumdrop.networks.mlp` builds it, whose rates see several draws where it is trained."""

    def __init__(self, network: nn.Module, num_draws: int = NUM_DRAWS) -> None:
        super().__init__()
        self.network, self.num_draws = network, num_draws

    def forward(self, x: Tensor) -> Drawn | Tensor:
        """Call the network on rows, shape (B, F)."""
        if not self.training:
            output: Tensor = self.network(x)
            return output
        held = {name: p.detach() for name, p in self.network.named_parameters() if name.endswith(".scaled_logit")}
        return Drawn(functional_call(self.network, held, (x,)), *self._drawn(x))

    def _drawn(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = x.expand(self.num_draws, *x.shape)
        log_q = a.new_zeros(())
        for layer in self.network.children():
            if isinstance(layer, nn.Linear):
                site = layer.get_submodule(SITE)
                assert isinstance(site, ConcreteDropout)
                logit = site.p_logit
                drop = torch.rand_like(a) < torch.sigmoid(logit)
                log_q = log_q + (drop * logit - nn.functional.softplus(logit)).sum(-1)
                a = a * ~drop * (1 + logit.exp())  # 1 / (1 - p)
                a = nn.functional.linear(a, layer.weight.detach(), layer.bias.detach())
            else:
                a = layer(a)
        return a, log_q


def nll_by_draws(nll_of: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Drawn | Tensor, Tensor], Tensor]:
    """Give the rates the gradient of the predictive loss, and the weights that of an ordinary one."""

    def nll(found: Drawn | Tensor, y: Tensor) -> Tensor:
        if isinstance(found, Tensor):
            return nll_of(found, y)
        log_p = torch.stack([-nll_of(draw, y) for draw in found.draws])
        count = len(log_p)
        together = log_p.logsumexp(0) - math.log(count)
        itself = torch.eye(count, dtype=torch.bool, device=y.device).unsqueeze(-1)
        others = log_p.expand(count, *log_p.shape).masked_fill(itself, -torch.inf).logsumexp(1) - math.log(count - 1)
        surrogate = -together - ((together - others).detach() * found.log_q).sum(0)
        return nll_of(found.output, y) + surrogate - surrogate.detach()

    return nll


def fit_by_draws(setup: Setup, like: EnsembleFit) -> EnsembleFit:
    """Train an ensemble on the folds of another one."""
    count = len(like.held_out)
    with seeded(setup.settings.seed):
        members = [Drawing(setup.build()) for _ in range(count)]
    return setup.trained(members, [setup.train] * count, nll_by_draws, like)
