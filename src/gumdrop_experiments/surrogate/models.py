"""The surrogates: BoTorch models of all evaluations so far; importing this needs BoTorch."""

import torch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.ensemble import EnsembleModel
from botorch.posteriors import Posterior
from botorch.posteriors.ensemble import EnsemblePosterior
from botorch.sampling.base import MCSampler
from botorch.sampling.normal import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.ensembles import DrawnFunctions
from gumdrop.networks import mlp
from gumdrop.training import fit_stacked

MEMBERS, HIDDEN, STRENGTH, DRAWS = 5, (64, 64), 0.1, 4
"""Networks, their layers, what the entropy of their masks counts, and functions of each."""
FIRST = 7
"""How many times as long the first training is."""


class GaussianProcess:
    """BoTorch's Gaussian process with its priors and transforms, fitted anew each time."""

    def acquisition(self, x: Tensor, y: Tensor, seed: int) -> qLogExpectedImprovement:
        """Fit inputs of the unit cube, (N, d), and values to be maximised, (N, 1), by their marginal likelihood."""
        model = SingleTaskGP(x, y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        sampler = SobolQMCNormalSampler(torch.Size([128]), seed=seed)
        return qLogExpectedImprovement(model, best_f=y.max(), sampler=sampler)

    def rates(self) -> list[float]:
        """Give none."""
        return []


class Networks:
    """Networks with dropout, trained on from where they are, and functions drawn of them."""

    def __init__(self, num_inputs: int, steps: int, is_fixed: bool) -> None:
        self.steps, self.is_new = steps, True
        self.members: list[nn.Module] = [
            mlp(num_inputs, 1, hidden=HIDDEN, homoscedastic_noise=True, activation="silu", p=0.1, strength=STRENGTH)
            for _ in range(MEMBERS)
        ]
        if is_fixed:
            for member in self.members:
                gd.fix_dropout(member)

    def acquisition(self, x: Tensor, y: Tensor, seed: int) -> qLogExpectedImprovement:
        """Train on all evaluations at once, and draw."""
        rows = centred(x).float(), ((y - y.mean()) / y.std()).float()
        fit_stacked(
            self.members,
            [rows] * MEMBERS,
            likelihood="gaussian",
            epochs=self.steps * (FIRST if self.is_new else 1),
            batch_size=len(x),
            lr=1e-2,
            lengthscale="faint",
            seed=seed,
        )
        self.is_new = False
        drawn = DrawnFunctions.of(self.members, DRAWS, range(seed, seed + MEMBERS))
        assert drawn is not None, "the members are dense and of one shape"
        sampler = EachOnce(torch.Size([MEMBERS * DRAWS]))
        return qLogExpectedImprovement(Functions(drawn, x), best_f=0.0, sampler=sampler)

    def rates(self) -> list[float]:
        """Average over the members."""
        rates = torch.tensor([list(gd.dropout_rates(member).values()) for member in self.members])
        return list(rates.mean(0).tolist())


class Functions(EnsembleModel):
    """Drawn functions with their masks in their weights, so that all of them are one product a layer.

    Args:
        drawn: Functions of the members.
        x: Evaluated points, (N, d): each function is above 0 where it is above its own best there.
    """

    def __init__(self, drawn: DrawnFunctions, x: Tensor) -> None:
        super().__init__()
        self._num_outputs, self.best = 1, torch.zeros(1)
        self.activate = drawn.dense.first.activate
        masked = zip(drawn.dense.weights, drawn.factors, strict=True)
        self.weights = [(weight[:, None] * factor).flatten(0, 1).mT.double() for weight, factor in masked]
        self.biases = [bias.repeat_interleave(DRAWS, 0).unsqueeze(1).double() for bias in drawn.dense.biases]
        with torch.no_grad():
            self.best = self(x).amax(dim=-2, keepdim=True)

    def forward(self, X: Tensor) -> Tensor:
        """Evaluate points (b, q, d) by all functions, (b, S, q, 1)."""
        values = centred(X).flatten(0, -2).expand(len(self.weights[0]), -1, -1)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = torch.baddbmm(bias, self.activate(values) if i else values, weight)
        return values.unflatten(1, X.shape[:-1]).movedim(0, -3) - self.best


class EachOnce(MCSampler):
    """Takes each function of an ensemble once, and no random choice of them."""

    def forward(self, posterior: Posterior) -> Tensor:
        """Give their values, (S, b, q, 1)."""
        assert isinstance(posterior, EnsemblePosterior)
        return posterior.values.movedim(-3, 0)


def centred(x: Tensor) -> Tensor:
    """Give inputs of the unit cube a mean of 0 and a variance of 1."""
    return (x - 0.5) * 12**0.5
