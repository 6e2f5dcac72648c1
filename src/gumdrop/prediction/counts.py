"""Predict counts: a mixture of Poisson distributions for each row."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.functional.floats import finite_exp, widened
from gumdrop.prediction.inputs import Arguments, Batches, Inputs, by_batches
from gumdrop.prediction.running import RunningMoments
from gumdrop.prediction.ways.evaluate import drawn

__all__ = ["CountPrediction", "predict_counts"]


@dataclass(frozen=True)
class CountPrediction:
    """A mixture of Poisson distributions for each row, one for each drawn function; N rows, S draws."""

    mean: Tensor
    """Expected count, shape (N, ...): the mean of the drawn functions' rates."""
    epistemic: Tensor
    """Variance of the drawn functions' rates, (N, ...): what more data would remove."""
    draw_log_rates: Tensor | None
    """Log of each draw's rate, (S, N, ...); None if the draws were not kept."""

    @property
    def aleatoric(self) -> Tensor:
        """Mean of the drawn functions' noise variances, (N, ...): of Poisson counts it is ``mean``."""
        return self.mean

    @property
    def variance(self) -> Tensor:
        """Total predictive variance, ``epistemic + aleatoric``, shape (N, ...)."""
        return self.epistemic + self.aleatoric

    @property
    def std(self) -> Tensor:
        """Predictive standard deviation, shape (N, ...)."""
        return self.variance.sqrt()

    @staticmethod
    def joined(parts: Sequence["CountPrediction"]) -> "CountPrediction":
        """Put predictions of different rows one below the other.

        Args:
            parts: Predictions with the same number of draws each.

        Returns:
            One prediction with the rows of all, and with the draws if all parts have theirs.
        """
        mean, epistemic = (torch.cat([getattr(part, name) for part in parts]) for name in ("mean", "epistemic"))
        draws = [part.draw_log_rates for part in parts if part.draw_log_rates is not None]
        return CountPrediction(mean, epistemic, torch.cat(draws, dim=1) if len(draws) == len(parts) else None)

    def _log_rates(self) -> Tensor:
        if self.draw_log_rates is None:
            raise ValueError("the draws were not kept; predict with `keep_draws=True`")
        return self.draw_log_rates

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
        if target.shape != self.mean.shape:
            raise ValueError(f"`target` must have shape {tuple(self.mean.shape)}, got {tuple(target.shape)}")
        if not ((target >= 0) & (target % 1 == 0)).all():
            raise ValueError("`target` must hold counts: 0, 1, 2, ...")
        log_rates = self._log_rates()
        counts = target.to(log_rates.dtype)
        log_p = counts * log_rates - finite_exp(log_rates) - torch.lgamma(counts + 1)
        return torch.logsumexp(log_p.flatten(2).sum(2) if log_p.ndim > 2 else log_p, dim=0) - math.log(len(log_rates))

    def cdf(self, value: Tensor) -> Tensor:
        """Probability that the count is at most a value.

        Args:
            value: Broadcasts to the shape of ``mean``.

        Returns:
            The shape of ``mean``, in [0, 1], in float64.

        Raises:
            ValueError: If the draws were not kept.
        """
        rates = finite_exp(self._log_rates().double())
        at_most = torch.special.gammaincc(value.double().floor().clamp(min=0) + 1, rates).mean(0)
        return torch.where(value < 0, 0.0, at_most)

    def quantile(self, probability: float) -> Tensor:
        """Smallest count that is not exceeded with a given probability.

        Args:
            probability: In (0, 1).

        Returns:
            Whole numbers of the shape of ``mean``.

        Raises:
            ValueError: If ``probability`` is out of range or the draws were not kept.
        """
        if not 0 < probability < 1:
            raise ValueError(f"`probability` must be strictly between 0 and 1, got {probability}")
        rates = finite_exp(self._log_rates().double())
        mean, variance = rates.mean(0), rates.mean(0) + rates.var(0, correction=0)
        # Cantelli's inequality puts the quantile above the one and at most at the other, with room for rounding.
        odds, room = probability / (1 - probability), 1.01 * variance.sqrt()
        low = (mean - room * odds**-0.5).clamp(min=0).floor() - 1
        high = (mean + room * odds**0.5).clamp(max=2.0**53).ceil() + 1
        while (high - low > 1).any():
            middle = ((low + high) / 2).floor()
            below = self.cdf(middle) < probability
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return high.to(self.mean)

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval that holds the count with at least a given probability; counts are whole, so often more.

        Args:
            coverage: Probability, in (0, 1).

        Returns:
            Lower and upper ends, both inside, each of the shape of ``mean``.

        Raises:
            ValueError: If ``coverage`` is out of range or the draws were not kept.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"`coverage` must be strictly between 0 and 1, got {coverage}")
        return self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)


def predict_counts(
    model: nn.Module,
    x: Inputs | Batches,
    *,
    num_samples: int = 100,
    seed: int | None = None,
    batch_size: int | None = None,
    keep_draws: bool = True,
    shared: Collection[int | str] = (),
    output: Callable[[Any], Tensor] | None = None,
) -> CountPrediction:
    """Predict a mixture of Poisson distributions for each row.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``, that was trained on `gumdrop.poisson_nll`: it
            returns the log of the expected count, shape (N, ...).
        x: Input with rows in dimension 0; a tuple or mapping is passed as arguments; a DataLoader or another iterable
            is predicted batch by batch, see `sample`.
        num_samples: Number of draws, S.
        seed: Same seed, same prediction.
        batch_size: Rows that run at once, which bounds memory; all if None. It does not change the
            result, save for dropout without masks (see `docs/gotchas.md`).
        keep_draws: Keep each draw's log rate, S N numbers, for `log_prob` and `quantile`.
        shared: Places or names of the arguments that have no rows, see `sample`.
        output: Takes the output tensor out of what the model returns.

    Returns:
        Expected count, its variance, and the draws.

    Raises:
        ValueError: If a number is out of range, ``x`` or ``shared`` is wrong as `sample` says, or nothing in the
            model is stochastic.
        TypeError: If ``x`` holds something else than tensors, or the model does not return a tensor and ``output``
            is None.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 1), p=0.2)
        >>> prediction = predict_counts(model, torch.randn(5, 8), seed=0)
        >>> prediction.mean.shape, prediction.log_prob(torch.ones(5, 1)).shape
        (torch.Size([5, 1]), torch.Size([5]))
    """

    def predict(part: Arguments, seed: int | None) -> CountPrediction:
        moments, kept = RunningMoments(), []
        for result in drawn(model, part, num_samples, seed, batch_size, output):
            log_rates = widened(result)
            moments.add(finite_exp(log_rates))
            if keep_draws:
                kept.append(log_rates)
        return CountPrediction(moments.mean, moments.variance, torch.cat(kept) if kept else None)

    return by_batches(predict, CountPrediction.joined, model, x, shared, seed)
