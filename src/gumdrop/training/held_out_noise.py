"""The noise of a regression, taken from the residuals of held-out data as training goes on."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.layers.output_noise import HomoscedasticNoise
from gumdrop.likelihoods import Gaussian, Likelihood

STEPS_BETWEEN_NOISE = 10
MOST_NOISE_ROWS = 128
"""Held-out rows that are asked each time."""


def noise_of(model: nn.Module, held_out: Any) -> Tensor:
    """Find the log variance of a model, (D,), which is to follow the residuals of held-out data, or refuse either."""
    modules = [module for module in model.modules() if isinstance(module, HomoscedasticNoise)]
    if len(modules) != 1 or held_out is None:
        raise ValueError(
            "`held_out_noise` needs held-out data and a model with one `gumdrop.HomoscedasticNoise`, got "
            f"{len(modules)} of these and {'no' if held_out is None else 'such'} data"
        )
    return modules[0].log_variance


@contextlib.contextmanager
def without_gradient(parameters: Iterable[Tensor]) -> Iterator[None]:
    """Context in which parameters are not trained."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


def follow_residuals(log_variance: Tensor, output: Tensor, y: Tensor, steps: int, likelihood: Likelihood) -> None:
    """Move log variances, (..., D), towards those of held-out residuals of outputs, (..., N, 2 D), in place."""
    gaussian = likelihood if isinstance(likelihood, Gaussian) else Gaussian()
    square = gaussian.square_residuals(output, sent(y, output.device))
    log_variance.lerp_(square.clamp(min=1e-6).log(), max(0.1, STEPS_BETWEEN_NOISE / (steps + STEPS_BETWEEN_NOISE)))
