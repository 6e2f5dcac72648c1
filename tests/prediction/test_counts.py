"""Predictions of counts: a mixture of Poisson distributions, against scipy's."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import nn

import gumdrop as gd
from gumdrop.likelihoods.counts import CountPrediction


def mixture(*shape: int, size: int = 7, scale: float = 1.0) -> CountPrediction:
    generator = torch.Generator().manual_seed(0)
    log_rates = scale * torch.randn(size, *shape, generator=generator, dtype=torch.float64) + 1
    rates = log_rates.exp()
    return CountPrediction(rates.mean(0), rates.var(0, correction=0), log_rates)


def test_prediction_of_a_network() -> None:
    model: Any = gd.learn_dropout(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)), p=0.3)
    x = torch.randn(5, 3)
    prediction = gd.predict_counts(model, x, num_samples=40, seed=2)
    rates = gd.sample(model, x, num_samples=40, seed=2).double().exp()
    torch.testing.assert_close(prediction.mean.double(), rates.mean(0))
    torch.testing.assert_close(prediction.epistemic.double(), rates.var(0, correction=0))
    torch.testing.assert_close(prediction.aleatoric.double(), rates.mean(0))
    y = torch.randint(0, 6, (5, 2))
    nll = torch.stack([gd.poisson_nll(draw, y) for draw in gd.sample(model, x, num_samples=40, seed=2)])
    torch.testing.assert_close(prediction.log_prob(y), torch.logsumexp(-nll, 0) - np.log(40))


@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 3)])
def test_log_probability_of_a_row_is_joint_over_its_counts(shape: tuple[int, ...]) -> None:
    prediction = mixture(*shape)
    y = torch.randint(0, 9, shape, generator=torch.Generator().manual_seed(1))
    each = stats.poisson.logpmf(y.numpy(), prediction.draw_log_rates.exp().numpy()).reshape(7, 5, -1).sum(2)
    expected = special.logsumexp(each, axis=0) - np.log(7)
    for target in (y, y.float(), y.double()):
        np.testing.assert_allclose(prediction.log_prob(target), expected, rtol=1e-6)


@pytest.mark.parametrize("log_rate", [-80.0, 0.0, 12.0, 16.0])
def test_one_function_is_a_poisson_distribution_of_any_size(log_rate: float) -> None:
    rate = torch.full((1, 1), log_rate, dtype=torch.float64)
    prediction = CountPrediction(rate.exp()[0], 0 * rate[0], rate)
    for probability in (0.01, 0.5, 0.99):
        assert prediction.quantile(probability).item() == stats.poisson.ppf(probability, np.exp(log_rate))


@pytest.mark.parametrize("log_rate", [-1e4, 1e4])
def test_rates_beyond_all_measure_stay_numbers(log_rate: float) -> None:
    model: Any = gd.learn_dropout(nn.Linear(2, 1), p=0.5)
    nn.init.constant_(model.bias, log_rate)
    prediction = gd.predict_counts(model, torch.ones(2, 2), num_samples=5, seed=0)
    assert prediction.mean.isfinite().all()
    assert not prediction.quantile(0.9).isnan().any()
    assert not prediction.log_prob(torch.ones(2, 1)).isnan().any()


def test_what_is_no_count_is_refused() -> None:
    for wrong in (-1.0, 0.5, float("nan")):
        with pytest.raises(ValueError, match="`target` must hold counts: 0, 1, 2"):
            mixture(4, 2).log_prob(torch.full((4, 2), wrong))
