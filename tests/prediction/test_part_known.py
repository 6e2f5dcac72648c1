"""Numbers that are known in part: the mass of an interval, the density of what is seen."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm, truncnorm
from torch.testing import assert_close

from gumdrop.likelihoods import PartKnown, RegressionPrediction, TargetScale
from gumdrop.likelihoods.part_known import expected, interval_log_likelihood, interval_moments

INF = math.inf
ENDS = torch.tensor(
    [[0.4, 0.4], [0.4, INF], [-INF, 0.4], [-1.2, 3.0], [9.0, INF], [-INF, -9.0], [7.0, 7.5], [-INF, INF]]
).double()


def naive(mean: float, std: float, lower: float, upper: float) -> float:
    if lower == upper:
        return float(norm.logpdf(lower, mean, std))
    if lower > mean:  # in the tail that keeps its digits
        lower, upper, mean = -upper, -lower, -mean
    return float(np.log(norm.cdf(upper, mean, std) - norm.cdf(lower, mean, std)))


def test_the_likelihood_and_its_slope_are_those_of_the_formula() -> None:
    output = torch.tensor([[0.3, 0.5]]).double().repeat(len(ENDS), 1)
    std = math.exp(0.25)
    expect = [-naive(0.3, std, *ends) for ends in ENDS.tolist()]
    assert_close(PartKnown().nll(output, ENDS), torch.tensor(expect).double())
    nll, slope = PartKnown().slope(output, ENDS)
    assert slope.isfinite().all()
    for column in (0, 1):
        step = torch.zeros(2).double()
        step[column] = 1e-5
        both = [PartKnown().nll(output + sign * step, ENDS) for sign in (1, -1)]
        assert_close(slope[:, column], (both[0] - both[1]) / 2e-5, rtol=1e-5, atol=1e-7)
    assert_close(PartKnown().nll(output.float(), ENDS.float()), nll.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [1e-7, 9.9e-3, 1.1e-2])
def test_a_narrow_interval_is_its_density_times_its_width(width) -> None:
    lower, zero = torch.tensor([0.7]).double(), torch.zeros(1).double()
    found = interval_log_likelihood(zero, zero, lower, lower + width)
    assert found.item() == pytest.approx(norm.logpdf(0.7 + width / 2) + math.log(width), abs=1e-5)


def test_what_is_expected_of_an_interval() -> None:
    low, high = torch.tensor([[-1.0, 0.5], [0.3, INF], [-INF, 2.0], [0.6, 0.6]]).double().clamp(-1e6, 1e6).unbind(1)
    mean, square = expected(low, high)
    for i in range(3):
        within = truncnorm(float(low[i]), float(high[i]))
        assert mean[i].item() == pytest.approx(within.mean(), abs=1e-6)
        assert square[i].item() == pytest.approx(within.var() + within.mean() ** 2, abs=1e-6)
    assert (mean[3].item(), square[3].item()) == pytest.approx((0.6, 0.36))
    output, target = torch.tensor([[0.5, 0.8]]).double().repeat(2, 1), torch.tensor([[0.9, 0.9], [0.2, INF]]).double()
    std = math.exp(0.4)
    after = truncnorm((0.2 - 0.5) / std, np.inf)
    squares = [0.4**2, std**2 * (after.var() + after.mean() ** 2)]
    assert PartKnown().square_residuals(output, target).item() == pytest.approx(np.mean(squares), rel=1e-6)


def test_moments_of_numbers_of_which_half_are_not_seen() -> None:
    rng = np.random.default_rng(0)
    numbers, ends = rng.normal(3, 2, 4000), rng.normal(3, 2, 4000)
    lower, upper = np.minimum(numbers, ends), np.where(numbers <= ends, numbers, np.inf)
    lower, upper = np.append(lower, -np.inf), np.append(upper, np.inf)
    mean, std = interval_moments(torch.tensor(lower), torch.tensor(upper), torch.ones(4001))
    assert mean == pytest.approx(3, abs=0.12)
    assert std == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("kind", ["identity", "sqrt", "log"])
def test_a_prediction_gives_intervals_their_mass_and_what_is_seen_its_density(kind) -> None:
    generator = torch.Generator().manual_seed(0)
    means = 0.5 + 0.3 * torch.randn(6, 4, 1, generator=generator).double()
    prediction = RegressionPrediction(*[torch.ones(4, 1).double()] * 3, means, torch.full_like(means, 0.3))
    prediction = prediction.on(TargetScale(least=0.0, kind=kind))
    target = torch.tensor([[1.3, 1.3], [0.4, INF], [-INF, 2.0], [0.5, 0.9]]).double()
    found = prediction.log_prob(target)
    assert found[0] == pytest.approx(prediction.log_prob(target[:, :1].clamp(min=0.1))[0])
    low, high = (prediction.cdf(end) for end in (target[:, :1].clamp(min=0.0), target[:, 1:].clamp(max=1e9)))
    assert_close(found[1:], (high - low)[1:, 0].log())
    with pytest.raises(ValueError, match="must have shape"):
        prediction.log_prob(target.repeat(1, 2))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (torch.tensor([[0.0, 1.0], [2.0, 1.0]]), "got 2 and 1 in row 2"),
        (torch.tensor([[INF, INF]]), "must not be above the upper one"),
        (torch.zeros(3, 1), r"shape \(N, 2\), got \(3, 1\)"),
    ],
)
def test_what_is_no_interval_is_refused(target, message) -> None:
    with pytest.raises(ValueError, match=message):
        PartKnown().check(target, "train")
