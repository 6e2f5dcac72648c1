"""Counts that vary more than Poisson's."""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gumdrop.functional.floats import finite_exp, widened
from gumdrop.likelihoods.incomplete_beta import incomplete_beta
from gumdrop.likelihoods.likelihood import Likelihood, check_same_shape, per_example
from gumdrop.likelihoods.poisson import CountPrediction
from gumdrop.likelihoods.prediction import kept
from gumdrop.likelihoods.running import RunningMoments

LEAST, LARGEST = math.log(1e-8), math.log(1e8)
"""Log dispersions beyond are taken as these: below, no count tells them from Poisson's."""
FEW = 100
"""Below this count a sum of probabilities is quicker than the incomplete beta function."""


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
    size, log_sum = log_size.exp(), torch.logaddexp(log_size, log_mean)
    of_counts = torch.lgamma(y + size) - torch.lgamma(size) - torch.lgamma(y + 1)
    return of_counts - size * torch.nn.functional.softplus(log_mean - log_size) + y * (log_mean - log_sum)


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
        size, log_share = log_size.exp(), torch.nn.functional.logsigmoid(log_rates - log_size)
        log_mass = -size * torch.nn.functional.softplus(log_rates - log_size)
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
