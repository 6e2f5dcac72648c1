r"""Rates that follow held-out rows through the response of the weights to them: self-tuning networks.

The best weights depend on the rates, :math:`w^*(\lambda)` with the logits :math:`\lambda`, one for each layer. Around
the present logits :math:`\lambda_0` each layer has a linear response to them, a gate on its outputs,

.. math:: W(\lambda) = \big(1 + \operatorname{diag}(V (\lambda - \lambda_0))\big) W, \qquad
          b(\lambda) = b + C (\lambda - \lambda_0).

Three losses share each step, and each moves its own parameters:

- W, b: the loss of a training batch at :math:`\lambda_0`, and the prior, as with fixed rates;
- V, C: the loss of the same batch at :math:`\lambda_0 + \epsilon` with the weights :math:`W(\lambda_0 + \epsilon)`,
  :math:`\epsilon \sim N(0, \sigma^2)` for each row, W and b held;
- :math:`\lambda`: the loss of held-out rows, :math:`-\log \frac1m \sum_s p(y \mid x, z_s, W(\lambda))`, by way of the
  masks :math:`z_s` and by way of the weights.

The first two are those of the centred successor, with the network itself in place of its linearisation. Both papers
gate other weights than W, which are learned with the gates; 2,500 steps are too few for that. The response leaves out
that the prior, too, depends on the rates.

References:
    MacKay et al. 2019, "Self-Tuning Networks" (arXiv:1903.03088); Bae & Grosse 2020, "Delta-STN: Efficient Bilevel
    Optimization for Neural Networks using Structured Response Jacobians" (arXiv:2010.13514).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import linear

from gumdrop import fix_dropout
from gumdrop.ensembles import EnsembleFit
from gumdrop.functional import concrete_dropout
from gumdrop.layers import SITE, UNIT, ConcreteDropout, dropout_blocks
from gumdrop_experiments.rates.ensembles import Setup
from gumdrop_experiments.shared import seeded

NUM_DRAWS = 4
SPREAD = 0.5
"""Standard deviation of what the logits are moved by while the response is learned."""


class Drawn(NamedTuple):
    """What a network says of a batch while it is trained."""

    output: Tensor
    """Under relaxed masks, which have no gradient for the rates: shape (B, D)."""
    draws: Tensor
    """Under Bernoulli masks, with no gradient for the weights: shape (m, B, D)."""
    log_q: Tensor
    """Log probability of these masks, shape (m, B)."""


class Drawing(nn.Module):
    r"""A dense network, as `gumdrop.networks.mlp` builds it, whose rates see several draws where it is trained.

    The ELBO asks how well each drawn function predicts by itself; a prediction averages them. So the weights follow the
    ELBO, but for the rates the expected log likelihood gives way to

    .. math:: \mathbb{E}_{z_1 \dots z_m} \log \frac1m \sum_s p(y \mid x, z_s)

    with Bernoulli masks, whose gradient has no bias at any rate: that of the scores of the masks, each against what the
    other draws predict, and that of the factors 1 / (1 - p).

    References:
        Morningstar, Alemi & Dillon 2022, "PAC^m-Bayes: Narrowing the Empirical Risk Gap in the Misspecified Bayesian
        Regime" (arXiv:2010.09629); Mnih & Rezende 2016, "Variational Inference for Monte Carlo Objectives"
        (arXiv:1602.06725).
    """

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

    def nll(answers: Drawn | Tensor, y: Tensor) -> Tensor:
        if isinstance(answers, Tensor):
            return nll_of(answers, y)
        log_p = torch.stack([-nll_of(draw, y) for draw in answers.draws])
        count = len(log_p)
        together = log_p.logsumexp(0) - math.log(count)
        itself = torch.eye(count, dtype=torch.bool, device=y.device).unsqueeze(-1)
        others = log_p.expand(count, *log_p.shape).masked_fill(itself, -torch.inf).logsumexp(1) - math.log(count - 1)
        surrogate = -together - ((together - others).detach() * answers.log_q).sum(0)
        return nll_of(answers.output, y) + surrogate - surrogate.detach()

    return nll


def fit_by_draws(setup: Setup, like: EnsembleFit) -> EnsembleFit:
    """Train an ensemble on the folds of another one."""
    count = len(like.held_out)
    with seeded(setup.settings.seed):
        members = [Drawing(setup.build()) for _ in range(count)]
    return setup.trained(members, [setup.train] * count, nll_by_draws, like)


class Answers(NamedTuple):
    """What a network says while it is trained; each has a gradient for its own parameters alone."""

    output: Tensor
    """Of the training rows at the present rates, shape (B, D)."""
    moved: Tensor
    """The same at other rates with the weights that respond to them."""
    held_out: Tensor
    """Of held-out rows under several relaxed masks, shape (m, B, D)."""
    y_held_out: Tensor
    """Their targets."""


class SelfTuning(nn.Module):
    """A dense network whose weights respond to its rates; an ordinary one when it is not trained.

    The rates of the network become buffers that follow ``logits``. In the unit of weights these move a tenth as fast as
    other rates, so that the response keeps up with them. A row that it is trained on goes on with the inputs of a
    held-out row and its target, one number or a class index.
    """

    def __init__(
        self, network: nn.Module, num_inputs: int, *, num_draws: int = NUM_DRAWS, spread: float = SPREAD
    ) -> None:
        super().__init__()
        self.network, self.num_inputs, self.num_draws, self.spread = fix_dropout(network), num_inputs, num_draws, spread
        layers = [layer for layer in network.children() if isinstance(layer, nn.Linear)]
        self.logits = nn.Parameter(torch.stack([block.site.p_logit for block in dropout_blocks(network)]))
        gates = [nn.Linear(len(layers), 2 * layer.out_features, bias=False) for layer in layers]
        self.gates = nn.ModuleList(gates)
        for gate in gates:
            nn.init.zeros_(gate.weight)

    def forward(self, x: Tensor) -> Answers | Tensor:
        """Call the network on rows, shape (B, F + F + 1); the first F columns count where it is not trained."""
        rows, beside, y = x.split([self.num_inputs, self.num_inputs, 1], dim=1)
        if not self.training:
            output: Tensor = self.network(rows)
            return output
        here = self.logits.detach()
        for block, logit in zip(dropout_blocks(self.network), here, strict=True):
            block.site.scaled_logit.copy_(logit / UNIT)
        moves = self.spread * torch.randn_like(here.expand(len(rows), -1))
        moved = self._at(rows, here + moves, moves, relaxed=False)
        held_out = self._at(beside.repeat(self.num_draws, 1), self.logits, self.logits - here, relaxed=True)
        return Answers(self.network(rows), moved, held_out.unflatten(0, (self.num_draws, -1)), y)

    def _at(self, a: Tensor, logits: Tensor, moves: Tensor, *, relaxed: bool) -> Tensor:
        """Run the network at other logits; its weights have no gradient, nor has the response to relaxed masks."""
        layers = zip(self.gates, logits.split(1, dim=-1), strict=True)
        for layer in self.network.children():
            if isinstance(layer, nn.Linear):
                gate, logit = next(layers)
                assert isinstance(gate, nn.Linear)
                v, c = linear(moves, gate.weight.detach() if relaxed else gate.weight).chunk(2, dim=-1)
                a = concrete_dropout(a, logit, hard=not relaxed)
                a = (1 + v) * linear(a, layer.weight.detach()) + layer.bias.detach() + c
            else:
                a = layer(a)
        return a


def nll_by_response(nll_of: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Answers | Tensor, Tensor], Tensor]:
    """Give weights, response and rates the gradient of the loss of each."""

    def nll(answers: Answers | Tensor, y: Tensor) -> Tensor:
        if isinstance(answers, Tensor):
            return nll_of(answers, y)
        target = answers.y_held_out.view_as(y).to(y.dtype)
        log_p = torch.stack([-nll_of(draw, target) for draw in answers.held_out])
        others = nll_of(answers.moved, y) - log_p.logsumexp(0)  # up to log m
        return nll_of(answers.output, y) + others - others.detach()

    return nll


def fit_by_response(setup: Setup, like: EnsembleFit) -> EnsembleFit:
    """Train an ensemble on the folds of another one, whose held-out rows move the rates."""
    x, y = setup.train
    with seeded(setup.settings.seed):
        members = [SelfTuning(setup.build(), x.shape[1]) for _ in like.held_out]
        beside = [held_out[torch.randperm(len(y)) % len(held_out)] for held_out in like.held_out]
    train = [(torch.cat([x, x[other], y[other].view(-1, 1).to(x.dtype)], dim=1), y) for other in beside]
    return setup.trained(members, train, nll_by_response, like)
