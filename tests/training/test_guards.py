"""Faults that would be silent: averaged likelihoods, a wrong number of data, rates that are gone."""

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gumdrop as gd
from gumdrop.networks import mlp, set_strength
from gumdrop.training import fit, fit_stacked


def waves(rows: int = 400) -> tuple[Tensor, Tensor]:
    x = torch.randn(rows, 6, generator=torch.Generator().manual_seed(1))
    return x, torch.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3]


def network(p: float = 0.1) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return mlp(6, 2, hidden=(64,), p=p)


@pytest.mark.parametrize("reduce", [lambda nll: nll.mean(), lambda nll: nll.unsqueeze(1)])
def test_a_likelihood_without_a_value_for_each_example_is_refused(reduce) -> None:
    x, y = waves()

    def likelihood(output: Tensor, target: Tensor) -> Tensor:
        return reduce(F.mse_loss(output[:, :1], target, reduction="none").sum(1))

    options = {"likelihood": likelihood, "epochs": 1, "lengthscale": "classification"}
    message = r"`likelihood` must give one value for each example, shape \(\d+,\), got"
    with pytest.raises(ValueError, match=message):
        fit(network(), (x, y), **options)
    with pytest.raises(ValueError, match=message):
        fit_stacked([network(), network()], [(x, y)] * 2, **options)


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
    model = network()
    model[2].concrete_dropout.start_at(1e-4)
    result = fit(model, waves(), likelihood="gaussian", epochs=1, lr=1e-4)
    assert result.gone == ["2"]


def test_rates_that_have_fallen_come_back() -> None:
    """The gradient of a logit is proportional to a small rate: Adam's usual `eps` would leave it where it is."""
    model = set_strength(network(1e-12), 10)
    result = fit(model, waves(20), likelihood="gaussian", epochs=100, batch_size=20, rate_lr=0.05)
    assert not result.gone
