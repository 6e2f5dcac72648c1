"""Counts."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from gumdrop.functional.floats import finite_exp, widened
from gumdrop.likelihoods.likelihood import Likelihood, check_same_shape, per_example
from gumdrop.likelihoods.prediction import NumberPrediction, kept
from gumdrop.likelihoods.running import RunningMoments


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
    return per_example(-_log_mass(log_rate, target).to(log_rate.dtype))


def _log_mass(log_rate: Tensor, target: Tensor) -> Tensor:
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
        return _log_mass(log_rates, counts).clamp(min=torch.finfo(log_rates.dtype).min).to(log_rates.dtype)

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
