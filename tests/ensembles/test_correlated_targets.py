"""Several targets whose noise is correlated: what is found of it, densities and moments by numpy and scipy."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from gumdrop.ensembles.correction import noise_correlation
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.likelihoods import RegressionPrediction, TargetScale
from gumdrop.metrics import crps, energy_score

R = torch.tensor([[1.0, 0.8, -0.5], [0.8, 1.0, -0.3], [-0.5, -0.3, 1.0]], dtype=torch.float64)


def prediction(num_draws: int, num_rows: int, correlation: Tensor | None = None) -> RegressionPrediction:
    """Draws that disagree, with noise of different size for each."""
    generator = torch.Generator().manual_seed(0)
    means, logs = torch.randn(2, num_draws, num_rows, 3, generator=generator, dtype=torch.float64)
    variances = (0.5 * logs).exp()
    epistemic, mean = torch.var_mean(means, 0, correction=0)
    return RegressionPrediction(mean, epistemic, variances.mean(0), means, variances, correlation=correlation)


def observed(said: RegressionPrediction, correlation: Tensor, seed: int = 1) -> Tensor:
    """A draw for each row, and its noise."""
    generator = torch.Generator().manual_seed(seed)
    means, variances = said.components()
    which, rows = torch.randint(len(means), means.shape[1:2], generator=generator), torch.arange(means.shape[1])
    noise = (
        torch.randn(means.shape[1:], generator=generator, dtype=torch.float64) @ torch.linalg.cholesky(correlation).T
    )
    return means[which, rows] + variances[which, rows].sqrt() * noise


def test_densities_and_covariances_are_those_of_correlated_gaussians() -> None:
    said = prediction(4, 5, R)
    y, (means, variances) = observed(said, R), said.components()
    expected, covariance = np.zeros(5), np.zeros((5, 3, 3))
    for s, n in itertools.product(range(4), range(5)):
        std = variances[s, n].sqrt().numpy()
        each = np.outer(std, std) * R.numpy()
        expected[n] += stats.multivariate_normal(means[s, n].numpy(), each).pdf(y[n].numpy()) / 4
        off = (means[s, n] - said.mean[n]).numpy()
        covariance[n] += (each + np.outer(off, off)) / 4
    np.testing.assert_allclose(said.log_prob(y), np.log(expected), rtol=1e-10)
    np.testing.assert_allclose(said.covariance, covariance, rtol=1e-10)
    torch.testing.assert_close(said.covariance.diagonal(dim1=1, dim2=2), said.variance)
    parts = [said.rows(torch.arange(2)), said.rows(torch.arange(2, 5))]
    torch.testing.assert_close(RegressionPrediction.joined(parts).log_prob(y), said.log_prob(y))
    factor = torch.tensor([2.0, 0.1, 5.0], dtype=torch.float64)
    torch.testing.assert_close(said.rescale(factor, 1.0).covariance, said.covariance * factor * factor[:, None])
    alone, unit = prediction(4, 5), torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(prediction(4, 5, unit).log_prob(y), alone.log_prob(y))
    torch.testing.assert_close(prediction(4, 5, unit).covariance, alone.covariance)


def test_the_correlation_of_the_noise_is_found_beside_what_functions_share() -> None:
    said = prediction(20, 1500)
    found = noise_correlation(observed(said, R), said, torch.ones(1500, dtype=torch.float64))
    torch.testing.assert_close(found, R, rtol=0.0, atol=0.08)
    torch.testing.assert_close(found.diagonal(), torch.ones(3, dtype=torch.float64))
    weights = torch.cat([torch.zeros(750), torch.ones(750)]).double()
    mixed = torch.cat([observed(said, torch.eye(3).double())[:750], observed(said, R)[750:]])
    weighted = noise_correlation(mixed, said, weights)
    torch.testing.assert_close(weighted, R, rtol=0.0, atol=0.12)


def test_none_is_found_where_there_is_none() -> None:
    said, ones = prediction(20, 400), torch.ones(400, dtype=torch.float64)
    assert noise_correlation(observed(said, torch.eye(3).double()), said, ones) is None
    y = observed(said, R)
    assert noise_correlation(y[:5], said.rows(torch.arange(5)), ones[:5]) is None
    one = RegressionPrediction.gaussian(torch.zeros(400, 1), torch.ones(400, 1))
    assert noise_correlation(y[:, :1], one, ones) is None
    noise = NoiseFunction(2, 3).double()
    assert noise.with_tail(said).correlation is None
    noise.correlation = R
    assert noise.with_tail(said).correlation is R


def test_the_energy_score_is_that_of_all_pairs_and_with_one_output_the_crps() -> None:
    draws, y = torch.randn(6, 3, 2), torch.randn(3, 2)
    expected = 0.0
    for n in range(3):
        pairs = [torch.dist(a[n], b[n]).item() for a, b in itertools.permutations(draws, 2)]
        expected += (np.mean([torch.dist(each[n], y[n]).item() for each in draws]) - np.mean(pairs) / 2) / 3
    assert energy_score(draws, y).item() == pytest.approx(expected, rel=1e-5)
    y = torch.randn(40, 1)
    exact = crps(RegressionPrediction.gaussian(torch.zeros(40, 1), torch.ones(40, 1)), y)
    assert energy_score(torch.randn(1000, 40, 1), y).item() == pytest.approx(exact.item(), abs=0.02)


def test_errors() -> None:
    said = prediction(4, 5, R)
    with pytest.raises(ValueError, match=r"`log_probability` is of independent noise, got a `correlation`"):
        said.log_probability(torch.tensor(0.0), torch.tensor(1.0))
    one = RegressionPrediction.gaussian(torch.ones(3, 1), torch.ones(3, 1)).on(TargetScale(0.0, kind="log"))
    with pytest.raises(ValueError, match=r"`covariance` is of several outputs on a plain scale, got TargetScale"):
        _ = one.covariance
    with pytest.raises(
        ValueError, match=r"`draws` must have shape \(S, N, D\) with at least two draws, got \(1, 3, 2\)"
    ):
        energy_score(torch.ones(1, 3, 2), torch.ones(3, 2))
    with pytest.raises(ValueError, match=r"`target` must have the shape of `draws\[0\]`, \(3, 2\), got \(3, 1\)"):
        energy_score(torch.ones(2, 3, 2), torch.ones(3, 1))
