"""A surrogate for BoTorch: networks with learned dropout, whose drawn functions are the posterior.

Run with ``python docs/recipes/botorch_surrogate.py``; needs botorch.
"""

import copy

import torch
from botorch.acquisition import AcquisitionFunction, PosteriorMean
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.models.ensemble import EnsembleModel
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf
from botorch.test_functions import Rosenbrock
from botorch.utils.transforms import unnormalize
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.networks import mlp
from gumdrop.training import fit_stacked


class DrawnFunctions(EnsembleModel):
    """Functions that are drawn once: the posterior has a gradient and is the same at every call.

    Args:
        networks: Trained networks of inputs that `centred` gave.
        outcome_transform: What standardised their targets.
        num_samples: Functions of each network.
        seed: Names the functions.
    """

    def __init__(self, networks: list[nn.Module], outcome_transform: Standardize, num_samples: int, seed: int) -> None:
        super().__init__()
        self._num_outputs = 1
        self.outcome_transform = outcome_transform
        copies = [copy.deepcopy(network).double() for network in networks]  # the gradients of BoTorch need float64
        draws = range(seed, seed + num_samples)
        self.functions = nn.ModuleList(gd.draw(network, seed=draw) for network in copies for draw in draws)

    def forward(self, X: Tensor) -> Tensor:
        """Evaluate points of the unit cube, (b, q, d), by all functions, (b, S, q, 1)."""
        rows = centred(X).flatten(0, -2)
        values = torch.stack([function(rows)[:, :1] for function in self.functions])  # without the log variance
        return values.unflatten(1, X.shape[:-1]).movedim(0, -3)


def centred(x: Tensor) -> Tensor:
    """Give inputs of the unit cube a mean of 0 and a variance of 1."""
    return (x - 0.5) * 12**0.5


def untrained(num_inputs: int, num_networks: int = 5, seed: int = 0) -> list[nn.Module]:
    """Build networks with learned rates and a learned noise."""
    torch.manual_seed(seed)
    options = {"hidden": [64, 64], "homoscedastic_noise": True, "activation": "silu", "strength": 0.1}
    return [mlp(num_inputs, 1, **options) for _ in range(num_networks)]


def train(networks: list[nn.Module], x: Tensor, y: Tensor, epochs: int) -> Standardize:
    """Train networks on all evaluations, from where they are, as one program; say how targets were standardised."""
    # Evaluations are few and have no noise: a faint prior and a low strength of dropout let the networks follow them.
    scaling = Standardize(1)
    rows = centred(x).float(), scaling(y)[0].float()
    settings = {"epochs": epochs, "batch_size": len(x), "lr": 1e-2, "lengthscale": "faint"}
    fit_stacked(networks, [rows] * len(networks), likelihood="gaussian", seed=len(x), **settings)
    return scaling


def highest(acquisition: AcquisitionFunction, num_inputs: int) -> Tensor:
    """Maximise an acquisition function over the unit cube by its gradient."""
    cube = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, num_inputs)
    return optimize_acqf(acquisition, cube, q=1, num_restarts=4, raw_samples=128)[0]


def main(evaluations: int = 40, initial: int = 20, first_epochs: int = 400, epochs: int = 100) -> dict[str, float]:
    """Maximise minus Rosenbrock's function, by qLogEI and by Thompson sampling in turn."""
    problem = Rosenbrock(dim=4, negate=True)
    x = torch.quasirandom.SobolEngine(problem.dim, scramble=True, seed=0).draw(initial, dtype=torch.float64)
    y = problem(unnormalize(x, problem.bounds.double())).unsqueeze(1)
    best, networks = [y.max().item()], untrained(problem.dim)
    for step in range(evaluations - initial):
        scaling = train(networks, x, y, epochs if step else first_epochs)
        if step % 2:
            model = DrawnFunctions(networks, scaling, num_samples=4, seed=step)
            acquisition = qLogExpectedImprovement(model, best_f=y.max())
        else:  # one function of one network, where it is highest
            one = networks[step % len(networks)]
            acquisition = PosteriorMean(DrawnFunctions([one], scaling, num_samples=1, seed=step))
        x = torch.cat([x, highest(acquisition, problem.dim)])
        y = torch.cat([y, problem(unnormalize(x[-1:], problem.bounds.double())).unsqueeze(1)])
        best.append(y.max().item())
    return {"regret at first": problem.optimal_value - best[0], "regret": problem.optimal_value - best[-1]}


if __name__ == "__main__":
    print(main())
