"""A number that is known in part: seen, or only within an interval, such as a time of which no more than its least is.

References:
    Tobin 1958, "Estimation of relationships for limited dependent variables" (Econometrica 26).
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gumdrop.functional.floats import finite_exp, widened
from gumdrop.likelihoods.gaussian import Gaussian, split_gaussian
from gumdrop.likelihoods.likelihood import per_example
from gumdrop.likelihoods.scaled_mixture import log_normal_mass

FAR = 1e6
"""An end that is not known; no standardised number is as far."""
NARROW = 1e-2
"""Standard deviations below which the mass of an interval is its width times the density, to 1e-5."""
ROUNDS, CLOSE = 200, 1e-6
"""Of expectation and maximisation, and the change after which no more is needed."""


@dataclass(frozen=True)
class PartKnown(Gaussian):
    """A number with Gaussian noise of which an interval is known; the output is that of a `Gaussian` of one number.

    A target has two columns, the ends of its interval: equal if the number was seen, infinite if there is none. What is
    seen counts by its density, all else by the probability of its interval.

    Example:
        >>> ends = torch.tensor([[0.0, 0.0], [0.0, torch.inf]])
        >>> PartKnown().nll(torch.zeros(2, 2), ends)
        tensor([0.9189, 0.6931])
    """

    name = "part_known"
    has_open_targets = True

    def nll(self, output: Tensor, target: Tensor) -> Tensor:
        """Minus the log density of what is seen, and the log mass of the interval of all else."""
        mean, log_variance = (widened(each) for each in self._parameters(output))
        return -per_example(interval_log_likelihood(mean, log_variance, *target.to(mean).split(1, dim=-1)))

    def check(self, target: Tensor, name: str) -> None:
        """Refuse targets that are no intervals."""
        if target.ndim != 2 or target.shape[1] != 2:
            raise ValueError(f"the targets in `{name}` must hold two ends, shape (N, 2), got {tuple(target.shape)}")
        lower, upper = target.unbind(1)
        bad = (lower > upper) | (lower == math.inf) | (upper == -math.inf)
        if bad.any():
            row = int(bad.nonzero()[0, 0])
            raise ValueError(
                f"the lower end of a target in `{name}` must not be above the upper one, got {lower[row]:g} and "
                f"{upper[row]:g} in row {row + 1}; equal ends say that it was seen"
            )

    def num_outputs(self, target: Tensor) -> int:
        """One number."""
        return 1

    def square_residuals(self, output: Tensor, target: Tensor) -> Tensor:
        """Mean square of residuals, of what is not seen the one that is expected within its interval."""
        mean, log_variance = split_gaussian(output)
        low, high = ((end.clamp(-FAR, FAR) - mean) * torch.exp(-0.5 * log_variance) for end in target.split(1, dim=-1))
        return (expected(low, high)[1] * log_variance.exp()).mean(-2)


class _LogMass(torch.autograd.Function):
    """Log of the standard normal mass between two ends, with slopes that stay exact far out."""

    @staticmethod
    def forward(ctx: Any, low: Tensor, high: Tensor) -> Tensor:
        mass = log_normal_mass(low, high)
        ctx.save_for_backward(low, high, mass)
        return mass

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor]:
        low, high, mass = ctx.saved_tensors
        return -slope * _share(low, mass), slope * _share(high, mass)


def _share(end: Tensor, log_mass: Tensor) -> Tensor:
    """Standard normal density at an end, divided by the mass of the interval."""
    return torch.exp(-0.5 * (end.square() + math.log(2 * math.pi)) - log_mass)


def interval_log_likelihood(mean: Tensor, log_variance: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    r"""Return the log of what a Gaussian gives to each interval: its mass, or its density where the ends are equal.

    .. math:: \log\big(\Phi(\tfrac{u - \mu}{\sigma}) - \Phi(\tfrac{l - \mu}{\sigma})\big), \quad
        \log N(l; \mu, \sigma^2) \text{ if } l = u

    All broadcast, in nats; an end that there is none is infinite.
    """
    inverse, width = finite_exp(-0.5 * log_variance), upper - lower
    low, high = ((end.clamp(-FAR, FAR) - mean) * inverse for end in (lower, upper))
    narrow = high - low < NARROW
    density = -0.5 * (math.log(2 * math.pi) + log_variance + (0.5 * (low + high)).square())
    mass = _LogMass.apply(low, torch.where(narrow, low + 1, high))
    return torch.where(narrow, density + torch.where(width > 0, width, 1.0).log(), mass)


def expected(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and mean square of a standard normal number of which an interval is known."""
    narrow, middle = high - low < NARROW, 0.5 * (low + high)
    wide = torch.where(narrow, low + 1, high)
    mass = log_normal_mass(low, wide)
    at_low, at_high = _share(low, mass), _share(wide, mass)
    square = (1 + low * at_low - wide * at_high).clamp(min=0.0)
    return torch.where(narrow, middle, at_low - at_high), torch.where(narrow, middle.square(), square)


def interval_moments(lower: Tensor, upper: Tensor, weights: Tensor) -> tuple[float, float]:
    """Return mean and standard deviation of the Gaussian under which weighted intervals, (N,), are most likely.

    By expectation and maximisation (Dempster, Laird & Rubin 1977), from the ends that are known; a deviation of 1
    where all rows are alike.

    Example:
        >>> lower = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
        >>> mean, std = interval_moments(lower, lower, torch.ones(3))
        >>> round(mean, 3), round(std, 3)
        (2.0, 0.816)
    """
    some = lower.isfinite() | upper.isfinite()  # all others say nothing, such as a time of more than 0
    lower, upper, weights = lower[some], upper[some], weights[some].double() / weights[some].sum()
    stand_ins = torch.where(lower.isfinite(), lower, upper)
    stand_ins = torch.where(upper.isfinite(), 0.5 * (stand_ins + upper), stand_ins)
    mean = weights @ stand_ins
    std = ((weights @ (stand_ins - mean).square()).sqrt()).item() or 1.0
    for _ in range(ROUNDS):
        first, second = expected(*(((end - mean) / std).clamp(-FAR, FAR) for end in (lower, upper)))
        shift = weights @ first
        factor = (weights @ second - shift.square()).clamp(min=1e-12).sqrt().item()
        mean, std = mean + std * shift, std * factor
        if abs(shift) < CLOSE and abs(factor - 1) < CLOSE:
            break
    return float(mean), std
