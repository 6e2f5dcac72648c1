"""What can be done with a trained network: each way gives outputs of functions for any rows, shape (S, N, ...)."""

import copy
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from gumdrop.layers import ConcreteDropout
from gumdrop.likelihoods import Gaussian, Likelihood
from gumdrop.prediction import sample
from gumdrop_experiments.injected import Settings
from gumdrop_experiments.injected.tasks import Pair, Task
from gumdrop_experiments.shared import seeded

Outputs = Callable[[Tensor], Tensor]
GRID = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
GRID_SAMPLES = 32
PRECISIONS = tuple(10.0**power for power in range(-2, 5))
ROWS_AT_ONCE = 1000


@torch.no_grad()
def one_function(network: nn.Module, x: Tensor) -> Tensor:
    """Dropout is off."""
    return torch.cat([network.eval()(part) for part in x.split(ROWS_AT_ONCE)]).unsqueeze(0)


def many_functions(network: nn.Module, num_samples: int, seed: int, x: Tensor) -> Tensor:
    """Dropout draws functions."""
    return sample(network, x, num_samples=num_samples, seed=seed, batch_size=ROWS_AT_ONCE)


def all_networks(networks: Sequence[nn.Module], x: Tensor) -> Tensor:
    """Each network is a function."""
    return torch.cat([one_function(network, x) for network in networks])


def log_likelihood(likelihood: Likelihood, draws: Tensor, y: Tensor) -> float:
    """Mean log likelihood of rows, in nats."""
    return likelihood.predict([draws], len(draws)).log_prob(y).mean().item()


def tempered(likelihood: Likelihood, outputs: Outputs, held_out: Pair) -> tuple[Likelihood, float]:
    """Give a likelihood the temperature that is best for held-out rows; say what they are worth then."""
    from scipy.optimize import minimize_scalar

    draws, y = outputs(held_out[0]), held_out[1]

    def cost(log_t: float) -> float:
        return -log_likelihood(likelihood.tempered(math.exp(log_t)), draws, y)

    found = minimize_scalar(cost, bounds=(-5, 5), method="bounded", options={"xatol": 0.005})
    return likelihood.tempered(math.exp(found.x)), -float(found.fun)


def noise_of(network: nn.Module, task: Task) -> Gaussian:
    """Give a network that returns numbers the noise of its held-out residuals."""
    x, y = task.held_out
    return Gaussian(float((y - one_function(network, x)[0]).square().mean().log()))


def injected(converted: nn.Module, seed: int, p: float, num_samples: int, x: Tensor) -> Tensor:
    """Dropout draws functions of a converted network at one rate in all places."""
    network = copy.deepcopy(converted)
    for site in network.modules():
        if isinstance(site, ConcreteDropout):
            site.start_at(p)
    return many_functions(network, num_samples, seed, x)


class LastLayer:
    """A Laplace approximation of the last layer of a network: its weights have a Gaussian posterior.

    Its precision is the Gauss-Newton matrix of the training rows, and that of the prior.
    """

    def __init__(self, network: nn.Module, task: Task, likelihood: Likelihood, settings: Settings, seed: int) -> None:
        self.network = network.eval()
        self.layer = [module for module in network.modules() if type(module) is nn.Linear][-1]
        self.shape = settings.num_samples, self.layer.out_features * (self.layer.in_features + 1)
        self.seed = seed
        x, _ = task.train
        features, outputs = self._features(x)
        self.precision = torch.zeros(self.shape[1], self.shape[1], dtype=torch.float64)
        for phi, output in zip(features.split(ROWS_AT_ONCE), outputs.split(ROWS_AT_ONCE), strict=True):
            curvature = _curvature(likelihood, output)
            part = torch.einsum("nij,nk,nl->ikjl", curvature.double(), phi.double(), phi.double())
            self.precision += part.reshape_as(self.precision)

    @torch.no_grad()
    def _features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the last layer reads, with a 1 for its bias, and what it gives."""
        seen: list[Tensor] = []
        hook = self.layer.register_forward_pre_hook(lambda layer, args: seen.append(args[0]))
        outputs = one_function(self.network, x)[0]
        hook.remove()
        features = torch.cat(seen)
        return torch.cat([features, torch.ones(len(features), 1)], dim=1), outputs

    def with_prior(self, precision: float) -> Outputs:
        """Draw last layers."""
        identity = torch.eye(self.shape[1], dtype=torch.float64)
        factor = torch.linalg.cholesky(self.precision + precision * identity)
        with seeded(self.seed):
            noise = torch.randn(*self.shape, dtype=torch.float64)
        moves = torch.linalg.solve_triangular(factor.mT, noise.mT, upper=True).mT.float()
        moves = moves.view(len(noise), self.layer.out_features, -1)

        def outputs(x: Tensor) -> Tensor:
            features, mean = self._features(x)
            return mean + torch.einsum("nk,sok->sno", features, moves)

        return outputs


def _curvature(likelihood: Likelihood, output: Tensor) -> Tensor:
    """Second derivative of the negative log likelihood by the output, (N, O, O)."""
    if isinstance(likelihood, Gaussian):
        assert isinstance(likelihood.log_variance, float)
        return torch.full((len(output), 1, 1), likelihood.log_variance).neg().exp()
    p = torch.softmax(output, dim=1)
    return torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)
