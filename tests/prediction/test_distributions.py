"""Mixtures of all kinds of numbers: densities, probabilities, quantiles and moments against scipy's."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import Tensor, nn

import gumdrop as gd
from gumdrop import HomoscedasticNoise
from gumdrop.likelihoods import Gaussian, Likelihood, NegativeBinomial, Poisson, RegressionPrediction, StudentT
from gumdrop.likelihoods.incomplete_beta import incomplete_beta
from gumdrop.training import fit

S, N, D = 7, 5, 2
PROBABILITIES = (0.001, 0.3, 0.95)


def outputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    """What drawn functions return: two halves, (S, N, D) each."""
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, S, N, D, generator=generator, dtype=torch.float64)
    return first + 1, 0.7 * second - 0.5


def twin(likelihood: Likelihood, first: Tensor, second: Tensor) -> Any:
    """The distributions of scipy, one for each draw, row and output."""
    if isinstance(likelihood, StudentT):
        return stats.t(likelihood.degrees, first.numpy(), np.exp(second.numpy() / 2))
    if isinstance(likelihood, Gaussian):
        return stats.norm(first.numpy(), np.exp(second.numpy() / 2))
    if isinstance(likelihood, Poisson):
        return stats.poisson(np.exp(first.numpy()))
    size = np.exp(-second.numpy())
    return stats.nbinom(size, size / (size + np.exp(first.numpy())))


LIKELIHOODS = [Gaussian(), StudentT(degrees=2.7), StudentT(degrees=30.0), NegativeBinomial(), Poisson()]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_a_mixture_is_that_of_scipy(likelihood) -> None:
    first, second = outputs()
    output = first if isinstance(likelihood, Poisson) else torch.cat([first, second], -1)
    prediction = likelihood.predict([output[:3], output[3:]], S)
    each = twin(likelihood, first, second)
    mean, variance = each.stats("mv")
    np.testing.assert_allclose(prediction.mean, mean.mean(0), rtol=1e-9)
    np.testing.assert_allclose(prediction.epistemic, mean.var(0), rtol=1e-9)
    np.testing.assert_allclose(prediction.aleatoric, variance.mean(0), rtol=1e-9)
    np.testing.assert_allclose(prediction.std, (mean.var(0) + variance.mean(0)) ** 0.5, rtol=1e-9)
    y = torch.tensor(each.rvs(random_state=1)[0])
    of_draws = (each.logpdf if likelihood.is_density else each.logpmf)(y.numpy()).sum(2)
    np.testing.assert_allclose(prediction.log_prob(y.double()), special.logsumexp(of_draws, 0) - np.log(S), rtol=1e-9)
    torch.testing.assert_close(likelihood.nll(output[0], y), -torch.tensor(of_draws)[0])
    for value in (-1.0, 0.0, 0.4, 3.0, 40.0):
        np.testing.assert_allclose(prediction.cdf(torch.tensor(value)), each.cdf(value).mean(0), atol=1e-12)
    for p in PROBABILITIES:
        quantile = prediction.quantile(p)
        assert (prediction.cdf(quantile + 1e-6) >= p).all()
        below = quantile - (1e-6 if likelihood.is_density else 1)
        assert (prediction.cdf(below) < p).all()
    lean = likelihood.predict([output[:3], output[3:]], S, keep_draws=False)
    torch.testing.assert_close((lean.mean, lean.variance), (prediction.mean, prediction.variance))
    for found in (prediction.interval(0.9), prediction.interval()):
        torch.testing.assert_close(found, tuple(prediction.quantile(p) for p in (0.05, 0.95)))


@pytest.mark.parametrize("size", [1e-3, 0.5, 30.0, 1e5])
def test_the_incomplete_beta_function(size: float) -> None:
    x = np.concatenate([[0.0, 1.0], stats.beta(size, 2.5).ppf(np.linspace(0.01, 0.99, 9))])
    found = incomplete_beta(torch.tensor(size), torch.tensor(2.5), torch.from_numpy(x))
    np.testing.assert_allclose(found, special.betainc(size, 2.5, x), atol=1e-9)


def test_the_limits_are_a_gaussian_and_poisson_counts() -> None:
    mean, s, y = torch.randn(4, 3), torch.randn(4, 3), torch.randint(0, 9, (4, 3))
    gaussian = gd.gaussian_nll(mean.double(), s.double(), y.double())
    torch.testing.assert_close(
        gd.student_t_nll(mean.double(), s.double(), y.double(), 1e7), gaussian, atol=2e-3, rtol=0
    )
    poisson = gd.negative_binomial_nll(mean, torch.full_like(mean, -1e4), y)
    torch.testing.assert_close(poisson, gd.poisson_nll(mean, y), atol=1e-4, rtol=0)


@pytest.mark.parametrize("degrees", [1.5, 4.0, 1e6])
@pytest.mark.parametrize("log_square", [-80.0, -20.0, 0.0, 88.0, 300.0])
@pytest.mark.parametrize("target", [0.0, 1e-30, 1e-3, 2.0, 1e10, -1.9e19, 1e20, -3e38])
def test_a_heavy_tail_is_finite_wherever_a_float_is(target: float, log_square: float, degrees: float) -> None:
    """Value and slopes; the square of a standardised number is infinite from 1.8e19 on."""
    y, location, s = (torch.tensor([[each]], requires_grad=True) for each in (target, 0.0, log_square))
    nll = gd.student_t_nll(location, s, y.detach(), degrees)
    scale, exact = np.exp(log_square / 2), float(y.detach())
    assert nll.item() == pytest.approx(-stats.t(degrees, 0, scale).logpdf(exact), rel=1e-4, abs=1e-4)
    weight = (degrees + 1) / (degrees * scale**2 + exact**2)
    found = [each.item() for each in torch.autograd.grad(nll.sum(), [location, s])]
    assert found == pytest.approx([-weight * exact, 0.5 - 0.5 * weight * exact**2], rel=1e-3, abs=1e-5)
    if log_square < 88:
        prediction = StudentT(degrees=degrees).predict([torch.cat([location, s], 1).detach().repeat(3, 1, 1)], 3)
        torch.testing.assert_close(-prediction.log_prob(y.detach()), nll.detach(), rtol=1e-4, atol=1e-4)


def test_a_location_at_the_other_end_of_floats_has_a_tail() -> None:
    ends = torch.tensor([[-3e38], [3e38]])
    nll = gd.student_t_nll(ends, torch.zeros(2, 1), ends.flip(0))
    assert nll.tolist() == pytest.approx([-stats.t(4.0).logpdf(6e38)] * 2, rel=1e-5)
    far = StudentT().square_residuals(torch.cat([ends, torch.zeros(2, 1)], 1), ends.flip(0))
    assert far.item() == pytest.approx(5.0)


def test_quantiles_of_draws_that_are_far_apart_or_no_numbers_come_to_an_end() -> None:
    wide = torch.tensor([[[1e200, 0.0]], [[-1e200, 0.0]]], dtype=torch.float64)
    assert StudentT().predict([wide], 2).quantile(0.9).item() == pytest.approx(1e200, rel=1e-6)
    for bad in (np.nan, np.inf):
        assert StudentT().predict([wide.nan_to_num(0.0) * bad], 2).quantile(0.9).isnan().all()


def test_a_far_gaussian_is_finite_as_long_as_its_logarithm_is() -> None:
    y, s = torch.tensor([[2.5e19], [1e20]]), torch.tensor([[0.0], [80.0]])
    wanted = [0.5 * (np.log(2 * np.pi) + s[i].item() + y[i].item() ** 2 * np.exp(-s[i].item())) for i in range(2)]
    assert gd.gaussian_nll(torch.zeros(2, 1), s, y).tolist() == pytest.approx(wanted, rel=1e-5)
    nll, slope = Gaussian().slope(torch.cat([torch.zeros(2, 1), s], 1), y)
    assert nll.tolist() == pytest.approx(wanted, rel=1e-5)
    assert slope.isfinite().all()
    prediction = RegressionPrediction.gaussian(torch.zeros(2, 1), s.exp())
    assert (-prediction.log_prob(y)).tolist() == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("log_mean", [-300.0, 0.0, 30.0, 88.0])
@pytest.mark.parametrize("count", [0.0, 7.0, 1e6, 1e12])
def test_the_slope_of_a_count_far_from_its_mean(count: float, log_mean: float) -> None:
    output = torch.tensor([[log_mean, 1.0]], requires_grad=True)
    nll = NegativeBinomial().nll(output, torch.tensor([[count]]))
    size, mean, y = np.exp(-1.0), np.exp(log_mean), float(torch.tensor(count))
    logs = size * np.log1p(mean / size) + y * np.log1p(size / mean)
    wanted = logs - (special.gammaln(y + size) - special.gammaln(size) - special.gammaln(y + 1))
    assert nll.item() == pytest.approx(wanted, rel=1e-5, abs=1e-5)
    (slope,) = torch.autograd.grad(nll.sum(), output)
    assert slope[0, 0].item() == pytest.approx((mean - y) * size / (size + mean), rel=1e-5)
    assert slope.isfinite().all()


@pytest.mark.parametrize("degrees", [1.5, 2.0])
def test_tails_without_a_variance(degrees: float) -> None:
    prediction = StudentT(degrees=degrees).predict([torch.zeros(3, 4, 2)], 3)
    assert prediction.variance.isinf().all()
    assert prediction.quantile(0.999).squeeze().tolist() == pytest.approx([stats.t(degrees).ppf(0.999)] * 4, rel=1e-6)


def test_held_out_noise_is_the_scale_of_the_likelihood() -> None:
    """Where the squared scale is the mean of weighted squares, the likelihood is largest: closed form of EM."""
    residuals, likelihood = torch.tensor(stats.t(3.0).rvs(4000, random_state=0))[:, None], StudentT(degrees=3.0)
    log_square = torch.zeros(1, dtype=torch.float64)
    for _ in range(60):
        output = torch.cat([torch.zeros_like(residuals), log_square.expand_as(residuals)], -1)
        log_square = likelihood.square_residuals(output, residuals).log()
    found = stats.t.fit(residuals.numpy(), fdf=3.0, floc=0.0)[2]
    assert log_square.div(2).exp().item() == pytest.approx(found, rel=1e-3)


def test_one_far_value_moves_a_fit_little() -> None:
    y = torch.linspace(-1, 1, 64).unsqueeze(1)
    x, line = torch.cat([y, torch.ones_like(y)], dim=1), y.clone()
    y[40] = 60.0
    torch.manual_seed(0)
    model = nn.Sequential(gd.learn_dropout(nn.Linear(2, 1), p=0.01), HomoscedasticNoise(1))
    fit(model, (x, y), likelihood="student_t", epochs=100, lr=0.05, batch_size=64, lengthscale=1.0)
    assert (model.eval()(x)[:, :1] - line).abs().max() < 0.3


def test_errors() -> None:
    with pytest.raises(ValueError, match="`degrees` must be finite and above 1, where a mean begins, got 1"):
        StudentT(degrees=1.0)
    with pytest.raises(ValueError, match=r"end the model with 2 D outputs, or with `gumdrop.HomoscedasticNoise"):
        NegativeBinomial().nll(torch.zeros(4, 3), torch.zeros(4, 1))


@pytest.mark.parametrize("log_rate", [-80.0, 0.0, 12.0, 16.0])
def test_one_function_is_a_poisson_distribution_of_any_size(log_rate: float) -> None:
    prediction = Poisson().predict([torch.full((1, 1, 1), log_rate, dtype=torch.float64)], 1)
    for probability in (0.01, 0.5, 0.99):
        assert prediction.quantile(probability).item() == stats.poisson.ppf(probability, np.exp(log_rate))


def test_few_and_many_counts_in_one_row() -> None:
    """One output is summed count by count, the other searched for; each as scipy has it."""
    log_rates = torch.tensor([[0.0, 9.0], [9.0, 0.5], [0.2, 0.4]], dtype=torch.float64)
    output = torch.cat([log_rates, torch.full_like(log_rates, -1.0)], -1)
    prediction, size = NegativeBinomial().predict([output[None]], 1), np.exp(1.0)
    expected = stats.nbinom(size, size / (size + np.exp(log_rates.numpy())))
    for probability in (0.01, 0.5, 0.99):
        quantile = prediction.quantile(probability)
        np.testing.assert_array_equal(quantile, expected.ppf(probability))
        np.testing.assert_allclose(prediction.cdf(quantile), expected.cdf(quantile.numpy()), rtol=1e-9)


@pytest.mark.parametrize("log_rate", [-1e4, 1e4])
def test_rates_beyond_all_measure_stay_numbers(log_rate: float) -> None:
    model = gd.learn_dropout(nn.Linear(2, 1), p=0.5)
    nn.init.constant_(model.bias, log_rate)
    prediction = gd.predict_counts(model, torch.ones(2, 2), num_samples=5, seed=0)
    assert prediction.mean.isfinite().all()
    assert not prediction.quantile(0.9).isnan().any()
    assert not prediction.log_prob(torch.ones(2, 1)).isnan().any()


@pytest.mark.parametrize("wrong", [-1.0, 0.5, float("nan")])
def test_what_is_no_count_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="`target` must hold counts: 0, 1, 2"):
        Poisson().predict([torch.ones(1, 4, 2)], 1).log_prob(torch.full((4, 2), wrong))


@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 3)])
def test_counts_of_a_row_are_joint_whatever_their_dtype(shape: tuple[int, ...]) -> None:
    log_rates = torch.randn(7, *shape, dtype=torch.float64)
    y = torch.randint(0, 9, shape)
    each = stats.poisson.logpmf(y.numpy(), log_rates.exp().numpy()).reshape(7, 5, -1).sum(2)
    for target in (y, y.float(), y.double()):
        found = Poisson().predict([log_rates], 7).log_prob(target)
        np.testing.assert_allclose(found, special.logsumexp(each, axis=0) - np.log(7), rtol=1e-6)


def test_counts_of_a_network() -> None:
    model, x = gd.learn_dropout(nn.Linear(3, 2), p=0.3), torch.randn(5, 3)
    prediction = gd.predict_counts(model, x, num_samples=40, seed=2)
    rates = gd.sample(model, x, num_samples=40, seed=2).double().exp()
    for found, expected in (
        ("mean", rates.mean(0)),
        ("epistemic", rates.var(0, correction=0)),
        ("aleatoric", rates.mean(0)),
    ):
        torch.testing.assert_close(getattr(prediction, found).double(), expected)
