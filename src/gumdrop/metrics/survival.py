"""Scores of predictions of numbers that are known in part, such as times of which some are not over.

What is known of N rows has shape (N, 2): both ends, equal where the number was seen, infinite where there is none. A
survival is the probability of more than a time. The log likelihood of such rows is ``prediction.log_prob(observed)``.
"""

import torch
from torch import Tensor

from gumdrop.likelihoods.prediction import NumberPrediction

MOST_EVENTS = 500
"""Times of events at which the concordance compares all rows, evenly spread: every one asks for all survivals."""
LEAST_LEFT = 0.02
"""Probability of not being censored that a weight divides by, at least."""


def survival(prediction: NumberPrediction, times: Tensor) -> Tensor:
    """Return the probability of more than each of T times, for each row, (N, T).

    Example:
        >>> from gumdrop.likelihoods import RegressionPrediction
        >>> prediction = RegressionPrediction.gaussian(torch.tensor([[1.0], [2.0], [4.0]]), torch.ones(3, 1))
        >>> survival(prediction, torch.tensor([2.0])).T
        tensor([[0.1587, 0.5000, 0.9772]])
    """
    at = [1 - prediction.cdf(time.to(prediction.mean)) for time in times]
    return torch.cat(at, dim=1) if at else prediction.mean[:, :0]


def kaplan_meier(times: Tensor, events: Tensor, at: Tensor, *, before: bool = False) -> Tensor:
    r"""Return the survival of a whole sample, with what is not seen, at some times or just before them, in float64.

    .. math:: S(t) = \prod_{t_i \le t} \Big(1 - \frac{d_i}{n_i}\Big)

    References:
        Kaplan & Meier 1958, "Nonparametric estimation from incomplete observations" (JASA 53).

    Example:
        >>> kaplan_meier(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True]), torch.tensor([1.5, 3.0]))
        tensor([0.6667, 0.0000], dtype=torch.float64)
    """
    distinct, index = times.double().unique(return_inverse=True)
    counts, seen = torch.zeros_like(distinct), torch.zeros_like(distinct)
    counts.index_add_(0, index, torch.ones_like(times, dtype=torch.float64))
    seen.index_add_(0, index, events.double())
    at_risk = counts.flip(0).cumsum(0).flip(0)
    steps = torch.cat([distinct.new_ones(1), (1 - seen / at_risk).cumprod(0)])
    return steps[torch.searchsorted(distinct, at.double().contiguous(), right=not before)]


def brier_scores(survivals: Tensor, times: Tensor, observed: Tensor) -> Tensor:
    r"""Return the square error of survivals, (N, T), at T times, with rows weighted by their chance not to be censored.

    .. math:: \frac1N \sum_i \Big[ \frac{S_i(t)^2}{G(t_i-)} [t_i \le t, \text{seen}] + \frac{(1 - S_i(t))^2}{G(t)}
        [t_i > t] \Big]

    References:
        Graf et al. 1999, "Assessment and comparison of prognostic classification schemes for survival data" (Statistics
        in Medicine 18).

    Example:
        >>> observed = torch.tensor([[1.0, 1.0], [3.0, torch.inf]])
        >>> brier_scores(torch.tensor([[0.2], [0.6]]), torch.tensor([2.0]), observed)
        tensor([0.1000], dtype=torch.float64)
    """
    lower, seen = observed[:, 0].double(), observed[:, 0] == observed[:, 1]
    # Of rows that end at one time those that are seen come first, so they were not at risk to be censored there.
    gap = _least_gap(lower) / 2
    apart = torch.where(seen, lower, lower + gap)
    left_at = kaplan_meier(apart, ~seen, times.double() + gap).clamp(min=LEAST_LEFT)
    left = kaplan_meier(apart, ~seen, apart, before=True).clamp(min=LEAST_LEFT)
    over, values = lower[:, None] <= times, survivals.double()
    died = values.square() * (over & seen[:, None]) / left[:, None]
    lives = (1 - values).square() * ~over / left_at
    return (died + lives).mean(0)


def _least_gap(values: Tensor) -> float:
    gaps = values.unique().diff()
    return float(gaps.min()) if len(gaps) else 1.0


def times_between(observed: Tensor, count: int = 100, *, least: float = 0.1, most: float = 0.9) -> Tensor:
    """Times, evenly spaced between two quantiles of all that end, shape (T,): beyond, few rows are left."""
    ends = torch.quantile(observed[:, 0].double(), observed.new_tensor([least, most], dtype=torch.float64))
    return torch.linspace(float(ends[0]), float(ends[1]), count, dtype=torch.float64, device=observed.device)


def integrated_brier(prediction: NumberPrediction, observed: Tensor) -> Tensor:
    """Return the mean of `brier_scores` over time, between the .1 and the .9 quantile of the times that end.

    It is 1/4 if all survivals are 1/2.

    Example:
        >>> from gumdrop.likelihoods import RegressionPrediction
        >>> prediction = RegressionPrediction.gaussian(torch.tensor([[1.0], [2.0], [4.0]]), torch.ones(3, 1))
        >>> observed = torch.tensor([[1.0, 1.0], [3.0, torch.inf], [4.0, 4.0]])
        >>> round(integrated_brier(prediction, observed).item(), 4)
        0.1038
    """
    times = times_between(observed)
    return mean_over_time(brier_scores(survival(prediction, times), times, observed), times)


def mean_over_time(scores: Tensor, times: Tensor) -> Tensor:
    """Mean of scores (T,) at times (T,) by the trapezoidal rule."""
    if times[-1] <= times[0]:
        return scores.mean()
    return torch.trapezoid(scores, times) / (times[-1] - times[0])


def concordance(prediction: NumberPrediction, observed: Tensor) -> Tensor:
    r"""Return the share of pairs of which the row that ends first had the smaller survival then; equal ones count half.

    .. math:: P\big(S_i(t_i) < S_j(t_i) \mid t_i < t_j, i \text{ seen}\big)

    It is 1/2 where no two rows can be compared.

    References:
        Antolini, Boracchi & Biganzoli 2005, "A time-dependent discrimination index for survival data" (Statistics in
        Medicine 24).

    Example:
        >>> from gumdrop.likelihoods import RegressionPrediction
        >>> prediction = RegressionPrediction.gaussian(torch.tensor([[1.0], [2.0], [4.0]]), torch.ones(3, 1))
        >>> observed = torch.tensor([[1.0, 1.0], [3.0, torch.inf], [4.0, 4.0]])
        >>> concordance(prediction, observed)
        tensor(1., dtype=torch.float64)
    """
    rows = (observed[:, 0] == observed[:, 1]).nonzero()[:, 0]
    rows = rows[torch.linspace(0, len(rows) - 1, min(len(rows), MOST_EVENTS)).round().long()]
    return concordance_at(survival(prediction, observed[rows, 0]), rows, observed)


def concordance_at(survivals: Tensor, rows: Tensor, observed: Tensor) -> Tensor:
    """As `concordance`, of survivals (N, E) at the times of E rows that were seen."""
    times, seen = observed[rows, 0], observed[:, 0] == observed[:, 1]
    later = (observed[:, :1] > times) | ((observed[:, :1] == times) & ~seen[:, None])
    own = survivals[rows, torch.arange(len(rows))]
    won = (survivals > own).double() + 0.5 * (survivals == own).double()
    return (won * later).sum() / later.sum() if later.any() else torch.tensor(0.5, dtype=torch.float64)


def share_below(prediction: NumberPrediction, observed: Tensor, levels: Tensor) -> Tensor:
    """Return how far rows are below L quantiles of their predictions, (N, L): 0 or 1 if seen, else the expected share.

    Over rows the mean is near the levels if the prediction is calibrated.

    Example:
        >>> from gumdrop.likelihoods import RegressionPrediction
        >>> prediction = RegressionPrediction.gaussian(torch.tensor([[1.0], [2.0], [4.0]]), torch.ones(3, 1))
        >>> observed = torch.tensor([[1.0, 1.0], [3.0, torch.inf], [4.0, 4.0]])
        >>> share_below(prediction, observed, torch.tensor([0.6, 0.9])).tolist()[0]
        [1.0, 1.0]
    """
    low, high = (prediction.cdf(end.to(prediction.mean)).double() for end in observed.split(1, dim=1))
    low, high = low.masked_fill(observed[:, :1].isneginf(), 0.0), high.masked_fill(observed[:, 1:].isposinf(), 1.0)
    return ((levels.double() - low) / (high - low).clamp(min=1e-12)).clamp(0.0, 1.0)


def d_calibration(prediction: NumberPrediction, observed: Tensor, *, num_bins: int = 10) -> Tensor:
    """Return the p-value of the hypothesis that probabilities of the prediction are right, by a chi-squared test.

    Each row falls into one of ten bins of its predicted distribution function, or if not seen into several in part;
    right predictions fill all alike.

    References:
        Haider et al. 2020, "Effective ways to build and evaluate individual survival distributions" (JMLR 21).

    Example:
        >>> from gumdrop.likelihoods import RegressionPrediction
        >>> prediction = RegressionPrediction.gaussian(torch.tensor([[1.0], [2.0], [4.0]]), torch.ones(3, 1))
        >>> observed = torch.tensor([[1.0, 1.0], [3.0, torch.inf], [4.0, 4.0]])
        >>> round(d_calibration(prediction, observed, num_bins=2).item(), 3)
        0.083
    """
    inner = torch.arange(1, num_bins, dtype=torch.float64, device=observed.device) / num_bins
    below = share_below(prediction, observed, inner)
    ends = torch.cat([below.new_zeros(len(below), 1), below, below.new_ones(len(below), 1)], dim=1)
    return uniform_p_value(ends.diff(dim=1).sum(0))


def uniform_p_value(counts: Tensor) -> Tensor:
    """Return the p-value of the hypothesis that counts are of bins that are filled alike.

    Example:
        >>> round(uniform_p_value(torch.tensor([9.0, 11.0, 10.0, 10.0])).item(), 3)
        0.978
    """
    expected = counts.mean()
    statistic = ((counts - expected).square() / expected).sum()
    half = torch.tensor((len(counts) - 1) / 2, dtype=torch.float64)
    return torch.special.gammaincc(half, statistic.double() / 2)
