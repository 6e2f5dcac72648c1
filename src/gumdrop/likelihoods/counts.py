"""Counts: Poisson's, and those that vary more."""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from gumdrop.functional.floats import finite_exp, widened
from gumdrop.likelihoods.incomplete_beta import incomplete_beta
from gumdrop.likelihoods.likelihood import Likelihood, check_same_shape, per_example
from gumdrop.likelihoods.prediction import NumberPrediction, RunningMoments, kept

LEAST, LARGEST = math.log(1e-8), math.log(1e8)
"""Log dispersions beyond are taken as these: below, no count tells them from Poisson's."""
FEW = 100
"""Below this count a sum of probabilities is quicker than the incomplete beta function."""


def poisson_nll(log_rate: Tensor, target: Tensor) -> Tensor:
    r"""Negative log likelihood of counts, in nats per example.

    .. math:: \sum_d \left(e^{r_d} - y_d r_d + \log y_d!\right)

    Args:
        log_rate: Log of the expected count ``r``, shape (N, ...).
        target: Counts, of the shape of ``log_rate``.

    Returns:
        Shape (N,): summed over all dimensions but the first.

    Raises:
        ValueError: If the shapes disagree.

    Example:
        >>> poisson_nll(torch.zeros(2, 1), torch.tensor([[0.0], [2.0]]))
        tensor([1.0000, 1.6931])
    """
    check_same_shape("log_rate", log_rate, target)
    log_rate = widened(log_rate)
    return per_example(-_log_poisson(log_rate, target).to(log_rate.dtype))


def _log_poisson(log_rate: Tensor, target: Tensor) -> Tensor:
    """Log probability of counts, in float64 where there is one: in float32 that of a million is wrong by 1."""
    exact = log_rate if log_rate.device.type == "mps" else log_rate.double()
    counts = target.to(exact.dtype)
    return counts * exact - torch.exp(exact) - torch.lgamma(counts + 1)


@dataclass(frozen=True)
class CountPrediction(NumberPrediction):
    """A mixture of Poisson distributions for each row, one for each drawn function; N rows, S draws."""

    by_draw = frozenset({"draw_log_rates"})
    draw_log_rates: Tensor | None
    """Log of each draw's rate, (S, N, ...); None if the draws were not kept."""

    @property
    def aleatoric(self) -> Tensor:
        """Mean of the drawn functions' noise variances, (N, ...): of Poisson counts it is ``mean``."""
        return self.mean

    def _log_rates(self) -> Tensor:
        return kept(self.draw_log_rates)

    def _log_masses(self, counts: Tensor) -> Tensor:
        """Log probability of counts under each draw, shape (S, N, ...)."""
        log_rates = self._log_rates()
        return _log_poisson(log_rates, counts).clamp(min=torch.finfo(log_rates.dtype).min).to(log_rates.dtype)

    def _at_most(self, count: Tensor) -> Tensor:
        """Probability under each draw that what is observed is at most a count, shape (S, N, ...), in float64."""
        return torch.special.gammaincc(count + 1, finite_exp(self._log_rates().double()))

    def _noise_variances(self) -> Tensor:
        """Variance of a count under each draw, shape (S, N, ...), in float64."""
        return finite_exp(self._log_rates().double())

    def log_prob(self, target: Tensor) -> Tensor:
        r"""Log probability of observed counts under the mixture, per row, in nats.

        .. math:: \log \frac1S \sum_s \prod_d \frac{\lambda_{sd}^{y_d} e^{-\lambda_{sd}}}{y_d!}

        Args:
            target: Counts, of the shape of ``mean``.

        Returns:
            Shape (N,).

        Raises:
            ValueError: If the shape differs, a target is no count, or the draws were not kept.
        """
        self._check_target(target)
        if not ((target >= 0) & (target % 1 == 0)).all():
            raise ValueError("`target` must hold counts: 0, 1, 2, ...")
        log_p = self._log_masses(target)
        return torch.logsumexp(log_p.flatten(2).sum(2) if log_p.ndim > 2 else log_p, dim=0) - math.log(len(log_p))

    def cdf(self, value: Tensor) -> Tensor:
        """See `NumberPrediction.cdf`; in float64."""
        at_most = self._at_most(value.double().floor().clamp(min=0)).mean(0)
        return torch.where(value < 0, 0.0, at_most)

    def _quantile(self, probability: float | Tensor) -> Tensor:
        rates = finite_exp(self._log_rates().double())
        mean, variance = rates.mean(0), self._noise_variances().mean(0) + rates.var(0, correction=0)
        # Cantelli's inequality puts the quantile above the one and at most at the other, with room for rounding.
        odds, room = probability / (1 - probability), 1.01 * variance.sqrt()
        low = (mean - room * odds**-0.5).clamp(min=0).floor() - 1
        high = (mean + room * odds**0.5).clamp(max=2.0**53).ceil() + 1
        while (high - low > 1).any():
            middle = ((low + high) / 2).floor()
            below = self.cdf(middle) < probability
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return high.to(self.mean)


@dataclass(frozen=True)
class Poisson(Likelihood):
    """A count; the output holds the log of its expectation, shape (N, ...)."""

    name = "poisson"
    support = (0.0, math.inf)

    def nll(self, output: Tensor, target: Tensor) -> Tensor:
        """Negative log likelihood, see `poisson_nll`."""
        return poisson_nll(output, target)

    def predict(self, draws: Iterable[Tensor], num_samples: int, *, keep_draws: bool = True) -> CountPrediction:
        """Make a mixture of Poisson distributions for each row."""
        moments, every = RunningMoments(), []
        for result in draws:
            log_rates = widened(result)
            moments.add(finite_exp(log_rates))
            if keep_draws:
                every.append(log_rates)
        return CountPrediction(moments.mean, moments.variance, torch.cat(every) if every else None)


def negative_binomial_nll(log_mean: Tensor, log_dispersion: Tensor, target: Tensor) -> Tensor:
    r"""Negative log likelihood of a negative binomial distribution, in nats per example.

    .. math:: -\sum_d \log \frac{\Gamma(y_d + r_d)}{\Gamma(r_d)\, y_d!} + r_d \log \frac{r_d}{r_d + m_d}
        + y_d \log \frac{m_d}{r_d + m_d}, \quad r_d = 1 / \alpha_d

    The variance of a count is :math:`m + \alpha m^2`: that of Poisson's with a rate that varies, too.

    Args:
        log_mean: Log of the expected count m, shape (N, ...).
        log_dispersion: Log of the dispersion, of the shape of ``log_mean`` or one that broadcasts to it.
        target: Counts, of the shape of ``log_mean``.

    Returns:
        Shape (N,): summed over all dimensions but the first.

    Raises:
        ValueError: If the shapes disagree.

    Example:
        >>> negative_binomial_nll(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([[0.0], [2.0]]))
        tensor([0.6931, 2.0794])
    """
    check_same_shape("log_mean", log_mean, target)
    return per_example(-log_mass(widened(log_mean), widened(log_dispersion), target).to(widened(log_mean).dtype))


def log_mass(log_mean: Tensor, log_dispersion: Tensor, counts: Tensor) -> Tensor:
    """Log probability of counts, in float64, in which large gamma functions differ by what counts."""
    log_mean, y = log_mean.double(), counts.double()
    log_size = -log_dispersion.double().clamp(LEAST, LARGEST)
    size, log_odds = log_size.exp(), log_mean - log_size
    of_counts = torch.lgamma(y + size) - torch.lgamma(size) - torch.lgamma(y + 1)
    # Each share by itself: a difference of logarithms loses the slope where one of them is nearly all.
    return of_counts - size * F.softplus(log_odds) - y * F.softplus(-log_odds)


@dataclass(frozen=True)
class NegativeBinomialPrediction(CountPrediction):
    """A mixture of negative binomial distributions for each row, one for each drawn function; N rows, S draws."""

    by_draw = CountPrediction.by_draw | {"draw_log_dispersions"}
    draw_log_dispersions: Tensor | None = None
    """Log of each draw's dispersion, (S, N, ...); None if the draws were not kept."""
    overdispersion: Tensor | float = 0.0
    """Mean over the draws of what the variance of a count has beyond Poisson's, shape (N, ...)."""

    @property
    def aleatoric(self) -> Tensor:
        """Mean of the drawn functions' noise variances, (N, ...)."""
        return self.mean + self.overdispersion

    def _log_dispersions(self) -> Tensor:
        return kept(self.draw_log_dispersions)

    def _log_masses(self, counts: Tensor) -> Tensor:
        log_rates = self._log_rates()
        return log_mass(log_rates, self._log_dispersions(), counts).to(log_rates.dtype)

    def _at_most(self, count: Tensor) -> Tensor:
        log_size = -self._log_dispersions().double().clamp(LEAST, LARGEST)
        share = torch.sigmoid(log_size - self._log_rates().double())
        return incomplete_beta(log_size.exp(), count + 1, share)

    def masses(self) -> Iterator[Tensor]:
        """Yield the probability of 0, 1, 2, ... under each draw, shape (S, N, ...) each, in float64, without an end."""
        log_size, log_rates = -self._log_dispersions().double().clamp(LEAST, LARGEST), self._log_rates().double()
        size, log_share = log_size.exp(), F.logsigmoid(log_rates - log_size)
        log_mass = -size * F.softplus(log_rates - log_size)
        for count in itertools.count():
            yield log_mass.exp()
            log_mass = log_mass + log_share + ((count + size) / (count + 1)).log()

    def cdf(self, value: Tensor) -> Tensor:
        """See `NumberPrediction.cdf`; in float64, of few counts by their sum."""
        value, _ = torch.broadcast_tensors(value, self.mean)
        near, result = value < FEW, torch.zeros_like(value, dtype=torch.float64)
        most = int(value[near].max()) if near.any() else -1
        for count, mass in zip(range(most + 1), self.masses(), strict=False):
            result += mass.mean(0) * (count <= value)
        far = (~near).reshape(len(near), -1).any(1).nonzero()[:, 0]
        result[far] = super(NegativeBinomialPrediction, self.rows(far)).cdf(value[far])
        return result

    def _quantile(self, probability: float | Tensor) -> Tensor:
        result, up_to = torch.full_like(self.mean, math.nan), torch.zeros_like(self.mean, dtype=torch.float64)
        for count, mass in zip(range(FEW), self.masses(), strict=False):
            up_to += mass.mean(0)
            result = torch.where(result.isnan() & (up_to >= probability), count, result)
            if not result.isnan().any():
                return result
        far = result.isnan().reshape(len(result), -1).any(1).nonzero()[:, 0]
        wanted = probability.expand(self.mean.shape)[far] if isinstance(probability, Tensor) else probability
        result[far] = super(NegativeBinomialPrediction, self.rows(far))._quantile(wanted)
        return result

    def _noise_variances(self) -> Tensor:
        rates = finite_exp(self._log_rates().double())
        return rates + rates.square() * self._log_dispersions().double().clamp(LEAST, LARGEST).exp()


@dataclass(frozen=True)
class NegativeBinomial(Likelihood):
    """A count that varies more than Poisson's.

    The output holds the log of its expectation and the log of its dispersion in halves of the last dimension, or ends
    in `gumdrop.HomoscedasticNoise`: then there is one dispersion.
    """

    name = "negative_binomial"
    support: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def nll(self, output: Tensor, target: Tensor) -> Tensor:
        """Negative log likelihood, see `negative_binomial_nll`."""
        return negative_binomial_nll(*split_counts(output), target)

    def predict(
        self, draws: Iterable[Tensor], num_samples: int, *, keep_draws: bool = True
    ) -> NegativeBinomialPrediction:
        """Make a mixture of negative binomial distributions for each row."""
        moments, beyond, every = RunningMoments(), RunningMoments(), []
        for result in draws:
            log_rates, log_dispersions = split_counts(widened(result))
            rates = finite_exp(log_rates)
            moments.add(rates)
            beyond.add(rates.square() * log_dispersions.clamp(LEAST, LARGEST).exp())
            if keep_draws:
                every.append((log_rates, log_dispersions))
        of_draws = [torch.cat(each) for each in zip(*every, strict=True)] if every else [None, None]
        return NegativeBinomialPrediction(moments.mean, moments.variance, of_draws[0], of_draws[1], beyond.mean)


def split_counts(output: Tensor) -> tuple[Tensor, Tensor]:
    """Split a network's output, (..., 2 D), into log means and log dispersions, the halves of its last dimension."""
    if output.ndim < 2 or output.shape[-1] % 2:
        raise ValueError(
            "a negative binomial output holds log means and log dispersions in halves of its last dimension, got shape "
            f"{tuple(output.shape)}; end the model with 2 D outputs, or with `gumdrop.HomoscedasticNoise(D)`"
        )
    log_mean, log_dispersion = output.chunk(2, dim=-1)
    return log_mean, log_dispersion
