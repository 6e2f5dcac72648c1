"""Numbers with noise that has heavy tails: Student's t."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from gumdrop.functional.floats import widened
from gumdrop.likelihoods.gaussian import Gaussian, split_gaussian
from gumdrop.likelihoods.incomplete_beta import incomplete_beta
from gumdrop.likelihoods.likelihood import check_same_shape, per_example
from gumdrop.likelihoods.prediction import NumberPrediction, kept

DEGREES = 4.0
STEPS, CLOSE = 100, 1e-9
"""Of the search for a quantile: at most, and the share of the spread below which a step is the last."""


def student_t_nll(location: Tensor, log_square_scale: Tensor, target: Tensor, degrees: float = DEGREES) -> Tensor:
    r"""Negative log likelihood of Student's t, in nats per example.

    .. math:: \sum_d \log \frac{\Gamma(\nu/2) \sqrt{\nu \pi}}{\Gamma((\nu+1)/2)} + \tfrac12 s_d
        + \tfrac{\nu+1}2 \log\left(1 + \frac{(y_d - \mu_d)^2 e^{-s_d}}{\nu}\right)

    Args:
        location: Median of the noise, shape (N, ...), in units of the target.
        log_square_scale: Log of the squared scale, of the shape of ``location`` or one that broadcasts to it.
        target: Observations, of the shape of ``location``.
        degrees: Degrees of freedom, above 1: few for heavy tails, many for a Gaussian.

    Returns:
        Shape (N,): summed over all dimensions but the first.

    Raises:
        ValueError: If the shapes disagree.

    Example:
        >>> student_t_nll(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([[0.0], [9.0]]))
        tensor([0.9808, 8.6217])
    """
    check_same_shape("location", location, target)
    return per_example(-_log_density(widened(location), widened(log_square_scale), widened(target), degrees))


def _log_density(location: Tensor, log_square_scale: Tensor, target: Tensor, degrees: float) -> Tensor:
    # In logarithms, since the tail is finite where a standardised number, or its square, is too large for a float.
    half = (0.5 * target - 0.5 * location).abs()
    differs = half >= torch.finfo(half.dtype).tiny
    log_square = 2 * torch.where(differs, half, 1.0).log() + math.log(4 / degrees) - log_square_scale
    constant = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(degrees * math.pi)
    tail = torch.where(differs, torch.logaddexp(log_square, torch.zeros_like(log_square)), 0.0)
    return constant - 0.5 * log_square_scale - (degrees + 1) / 2 * tail


@dataclass(frozen=True)
class StudentTPrediction(NumberPrediction):
    """A mixture of Student's t for each row, one component for each drawn function; N rows, D outputs, S draws."""

    by_draw = frozenset({"draw_locations", "draw_square_scales"})
    aleatoric: Tensor
    """Mean of the drawn functions' noise variances, (N, D); infinite if there are 2 degrees of freedom or fewer."""
    draw_locations: Tensor | None
    """Median of each draw, (S, N, D); None if the draws were not kept."""
    draw_square_scales: Tensor | None
    """Squared scale of each draw, (S, N, D); None if the draws were not kept."""
    degrees: float = DEGREES
    """Degrees of freedom."""

    @property
    def _kind(self) -> object:
        return self.degrees

    def components(self) -> tuple[Tensor, Tensor]:
        """Give the medians and squared scales of the draws, (S, N, D) each."""
        return kept(self.draw_locations), kept(self.draw_square_scales)

    def log_prob(self, target: Tensor) -> Tensor:
        """Log density of observations, (N, D), under the mixture, jointly over the outputs of a row, (N,), in nats."""
        self._check_target(target)
        locations, squares = self.components()
        log_p = _log_density(locations, squares.log(), target, self.degrees).flatten(2).sum(2)
        return torch.logsumexp(log_p, dim=0) - math.log(len(log_p))

    def cdf(self, value: Tensor) -> Tensor:
        """See `NumberPrediction.cdf`; in float64."""
        locations, squares = (each.double() for each in self.components())
        standardised = (value.double() - locations) / squares.sqrt()
        nu = standardised.new_tensor(self.degrees)
        tail = 0.5 * incomplete_beta(nu / 2, nu.new_tensor(0.5), nu / (nu + standardised.square()))
        return torch.where(standardised > 0, 1 - tail, tail).mean(0)

    def _quantile(self, probability: float) -> Tensor:
        locations, squares = (each.double() for each in self.components())
        middle = locations.mean(0)
        reach = (locations - middle).abs().amax(0) + squares.amax(0).sqrt()
        while ((self.cdf(middle - reach) >= probability) | (self.cdf(middle + reach) <= probability)).any():
            reach = 2 * reach

        def density(value: Tensor) -> Tensor:
            return _log_density(locations, squares.log(), value, self.degrees).exp().mean(0)

        return increasing_root(self.cdf, density, probability, middle - reach, middle + reach).to(self.mean)


def increasing_root(
    function: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor], wanted: float, low: Tensor, high: Tensor
) -> Tensor:
    """Where an increasing function has a value, by Newton's method between bounds, and by halving these."""
    value, spread = (low + high) / 2, high - low
    for _ in range(STEPS):
        missing = wanted - function(value)
        low, high = torch.where(missing > 0, value, low), torch.where(missing > 0, high, value)
        step = value + missing / slope(value)
        after = torch.where((step > low) & (step < high), step, (low + high) / 2)
        is_far, value = ((after - value).abs() > CLOSE * spread).any(), after
        if not is_far:  # nor what is no number
            break
    return value


@dataclass(frozen=True)
class StudentT(Gaussian):
    """A number with noise that has heavy tails; the output is that of a `Gaussian`, of medians and log squared scales.

    One far value moves a mean by little, and widens no other interval.
    """

    degrees: float = DEGREES
    """Degrees of freedom, above 1; the tails of few are heavy, and the variance of 2 or fewer infinite."""
    name = "student_t"

    def __post_init__(self) -> None:
        """Check temperature and degrees of freedom."""
        super().__post_init__()
        if not 1 < self.degrees < math.inf:
            raise ValueError(f"`degrees` must be finite and above 1, where a mean begins, got {self.degrees}")

    def nll(self, output: Tensor, target: Tensor) -> Tensor:
        """Negative log likelihood, see `student_t_nll`."""
        return student_t_nll(*self._parameters(output), target, self.degrees)

    def square_residuals(self, output: Tensor, target: Tensor) -> Tensor:
        """Mean square of what is left, far values with the weight that they have in the likelihood (a step of EM)."""
        location, log_square_scale = split_gaussian(output)
        square = (target - location).square()
        return ((self.degrees + 1) / (self.degrees / square + torch.exp(-log_square_scale))).mean(-2)

    def predict(self, draws: Iterable[Tensor], num_samples: int, *, keep_draws: bool = True) -> StudentTPrediction:  # type: ignore[override]
        """Make a mixture of Student's t for each row."""
        same = super().predict(draws, num_samples, keep_draws=keep_draws)  # with medians and scales as its moments
        noise = same.aleatoric * (self.degrees / (self.degrees - 2) if self.degrees > 2 else math.inf)
        return StudentTPrediction(same.mean, same.epistemic, noise, same.draw_means, same.draw_variances, self.degrees)
