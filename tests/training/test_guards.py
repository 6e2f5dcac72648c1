"""Faults that would be silent: noise learned by heart, averaged likelihoods, a wrong number of data."""

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gumdrop as gd
from gumdrop.networks import mlp, set_strength
from gumdrop.objective import elbo
from gumdrop.training import fit, fit_stacked


def waves(rows: int = 400) -> tuple[Tensor, Tensor]:
    """A function without noise."""
    x = torch.randn(rows, 6, generator=torch.Generator().manual_seed(1))
    return x, torch.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3]


def network(p: float = 1e-3) -> nn.Sequential:
    """Small rates from the start, so that a test need not wait for them to fall."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return mlp(6, 2, hidden=(64,), p=p)


def by_hand(model: nn.Module, epochs: int, *, average: bool = False, fixed_noise: bool = False) -> None:
    """README's loop."""
    torch.manual_seed(0)
    x, y = waves()
    optimizer = torch.optim.AdamW(gd.parameter_groups(model), lr=1e-2)
    for _ in range(epochs):
        for rows in torch.arange(len(x)).split(50):
            mean, log_variance = model(x[rows]).chunk(2, dim=-1)
            nll = gd.gaussian_nll(mean, torch.tensor(-3.0) if fixed_noise else log_variance, y[rows])
            loss = gd.negative_elbo(nll.mean() if average else nll, model, num_data=len(x))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


BY_HEART = r"passes over the data the weights cost \S+ nats a row and no dropout is left.*validation="


def test_a_long_loop_that_learns_its_rows_by_heart() -> None:
    with pytest.warns(UserWarning, match=BY_HEART) as caught:
        by_hand(network(), 70)
    assert [each.filename for each in caught] == [__file__]  # once is enough


def test_not_while_it_begins_nor_with_dropout_nor_with_known_noise() -> None:
    by_hand(network(), 20)
    by_hand(network(0.1), 40, fixed_noise=True)
    elbo.warn_if_by_heart(kl=2.0, largest_rate=0.02, passes=100, stacklevel=1)
    elbo.warn_if_by_heart(kl=0.4, largest_rate=0.0, passes=100, stacklevel=1)


def test_a_fit_without_held_out_rows_says_so_and_one_with_them_does_not() -> None:
    with pytest.warns(UserWarning, match=BY_HEART) as caught:
        fit(network(), waves(), likelihood="gaussian", epochs=60, batch_size=50)
    assert caught[0].filename == __file__
    fit(network(), waves(), likelihood="gaussian", epochs=60, batch_size=50, validation=waves(50), validation_samples=2)


def test_a_density_that_was_averaged_gets_the_prior_of_classes_and_is_told_so() -> None:
    model = network()
    with pytest.warns(UserWarning, match=r'the mean of `nll` is -\d.*lengthscale="regression"'):
        by_hand(model, 40, average=True)


@pytest.mark.parametrize("reduce", [lambda nll: nll.mean(), lambda nll: nll.unsqueeze(1)])
def test_a_likelihood_without_a_value_for_each_example_is_refused(reduce) -> None:
    x, y = waves()

    def likelihood(output: Tensor, target: Tensor) -> Tensor:
        return reduce(F.mse_loss(output[:, :1], target, reduction="none").sum(1))

    message = r"`likelihood` must give one value for each example, shape \(\d+,\), got"
    with pytest.raises(ValueError, match=message):
        fit(network(), (x, y), likelihood=likelihood, epochs=1)
    with pytest.raises(ValueError, match=message):
        fit_stacked([network(), network()], [(x, y)] * 2, likelihood=likelihood, epochs=1)


def test_the_size_of_a_batch_as_that_of_the_data() -> None:
    with pytest.warns(UserWarning, match="`num_data` is 32, and `train` has 400 rows") as caught:
        fit(network(), waves(), likelihood="gaussian", epochs=1, num_data=32)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("temperature", [0.6, 1.0, 5.0])
def test_a_temperature_whose_masks_are_not_those_of_a_prediction(temperature: float) -> None:
    with pytest.warns(UserWarning, match=rf"`temperature={temperature:g}` makes masks.*0\.1 is the usual") as caught:
        gd.learn_dropout(nn.Linear(3, 2), temperature=temperature)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gd.learn_dropout(nn.Linear(3, 2), temperature=0.5)


def test_the_record_names_rates_that_are_gone() -> None:
    model = network(0.1)
    model[2].concrete_dropout.start_at(1e-4)
    result = fit(model, waves(), likelihood="gaussian", epochs=1, lr=1e-4)
    assert result.gone == ["2"]


def test_rates_that_have_fallen_come_back() -> None:
    """The gradient of a logit is proportional to a small rate: Adam's usual `eps` would leave it where it is."""
    model = set_strength(network(1e-12), 10)
    result = fit(model, waves(20), likelihood="gaussian", epochs=100, batch_size=20, rate_lr=0.05)
    assert not result.gone
