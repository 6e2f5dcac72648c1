"""Counts that are negative binomial under each draw, spread over the cells of a target in steps: against scipy's."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from gumdrop.likelihoods import RegressionPrediction, TargetScale
from gumdrop.likelihoods.counts import FEW
from gumdrop.likelihoods.scaled_mixture import draw_moments
from gumdrop.likelihoods.target_scale import Kind
from gumdrop.metrics import crps

FACTOR, DISPERSION = 1.3, 0.7
COUNTS = np.arange(2500)


def prediction(kind: Kind = "log", size: float = 0.5) -> RegressionPrediction:
    generator = torch.Generator().manual_seed(1)
    means = size + 0.4 * torch.randn(5, 4, 1, generator=generator, dtype=torch.float64)
    variances = 0.1 + 0.4 * torch.rand(5, 4, 1, generator=generator, dtype=torch.float64)
    parts = [RegressionPrediction.gaussian(m, v) for m, v in zip(means, variances, strict=True)]
    scale = TargetScale(least=-1.0, step=0.5, kind=kind, counts=(FACTOR, DISPERSION))
    return RegressionPrediction.mixture(parts).on(scale)


def rates_of(found: RegressionPrediction) -> np.ndarray:
    """Expected counts of each draw, (S, N)."""
    means = draw_moments(*found.components(), replace(found.scale, counts=()))[0][..., 0].numpy()
    return FACTOR * np.maximum((means + 1) / 0.5, 1e-3)


def masses(found: RegressionPrediction) -> np.ndarray:
    """Probability of each count for each row, (K, N)."""
    rates, size = rates_of(found), 1 / DISPERSION
    return stats.nbinom.pmf(COUNTS[:, None, None], size, size / (size + rates)).mean(1)


@pytest.mark.parametrize("kind", ["identity", "sqrt", "log"])
@pytest.mark.parametrize("size", [0.5, 3.0])
def test_masses_moments_and_quantiles(kind: Kind, size: float) -> None:
    found = prediction(kind, size)
    expected, levels = masses(found), COUNTS * 0.5 - 1
    mean = levels @ expected
    np.testing.assert_allclose(found.mean[:, 0], mean, rtol=1e-6)
    np.testing.assert_allclose(found.variance[:, 0], levels**2 @ expected - mean**2, rtol=1e-5)
    some = [0, 1, 7, 40]
    np.testing.assert_allclose(
        found.level_probabilities(levels[some].tolist(), 0.5)[:, 0].T, expected[some], atol=1e-12
    )
    for count in some:
        y = torch.full((4, 1), levels[count], dtype=torch.float64)
        of_cell = found.log_probability(y - 0.25, y + 0.25)
        np.testing.assert_allclose(of_cell, np.log(expected[count]), rtol=1e-9)
        np.testing.assert_allclose(found.log_prob(y), np.log(expected[count] / 0.5), rtol=1e-6)
    low, high = torch.tensor(-0.75).double(), torch.tensor(0.5).double()
    np.testing.assert_allclose(found.log_probability(low, high).exp(), expected[1:3].sum(0) + expected[3] / 2)
    up_to = expected.cumsum(0)
    for probability in (0.3, 0.9, 0.999):
        value = found.quantile(probability)
        np.testing.assert_array_equal(((value[:, 0] + 1) / 0.5).round(), (up_to < probability).sum(0))
        inner = value > -1
        torch.testing.assert_close(found.cdf(value)[inner], torch.full_like(value, probability)[inner])


def test_beyond_the_counts_that_are_summed_the_rest_is_the_same() -> None:
    found = prediction(size=4.0)
    up_to = masses(found).cumsum(0)
    assert (up_to[FEW] < 0.9).all()
    for count in (FEW - 1, FEW, 3 * FEW):
        value = torch.full((4, 1), count * 0.5 - 0.75, dtype=torch.float64)
        np.testing.assert_allclose(found.cdf(value)[:, 0], up_to[count], rtol=1e-9)
    quantile = found.quantile(0.95)[:, 0]
    np.testing.assert_array_equal(((quantile + 1) / 0.5).round(), (up_to < 0.95).sum(0))


def test_the_score_of_the_whole_distribution_is_that_of_its_cells() -> None:
    found = prediction()
    grid = torch.arange(-3, 60, 1e-2, dtype=torch.float64) + 5e-3  # cells and targets end between
    up_to = found.cdf(grid.expand(4, -1))
    for target in (-2.0, -1.0, 0.5, 0.7, 40.0, 2000.0):
        step = (grid >= target).double()
        expected = 1e-2 * (up_to - step).square().sum(1).mean().item() + max(0.0, target - 60)
        assert up_to.shape == (4, len(grid))  # several values for each row
        assert crps(found, torch.full((4, 1), target, dtype=torch.float64)).item() == pytest.approx(expected, rel=1e-3)


def test_other_units_and_what_lies_below() -> None:
    found, y = prediction(), torch.tensor([[-1.0], [0.0], [0.5], [3.0]], dtype=torch.float64)
    other = found.rescale(20.0, 3.0)
    assert other.scale.counts == (FACTOR, DISPERSION)
    torch.testing.assert_close(other.log_prob(20 * y + 3), found.log_prob(y) - np.log(20))
    torch.testing.assert_close(other.quantile(0.8), 20 * found.quantile(0.8) + 3)
    torch.testing.assert_close(other.on(other.scale).variance, other.variance)
    assert (found.cdf(torch.tensor(-1.25).double()) == 0).all()
    assert (found.log_probability(y - 2.25, y - 1.75)[:2] < -700).all()
    assert (found.interval(0.999)[0] >= -1).all()
