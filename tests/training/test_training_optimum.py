"""The rate that training finds minimises the objective under relaxed masks, and is near that of Bernoulli masks."""

import math

import pytest
import torch
from torch import nn

import gumdrop as gd

from builders import reference as ref
from builders.optimum import train


@pytest.mark.parametrize("num_data", [20, 60, 200])
def test_trained_rate_is_that_of_the_exact_objective(num_data: int) -> None:
    problem = ref.linear_problem(num_data)
    exact = problem.best_p(ref.hard_moments)
    relaxed = problem.best_p(lambda p: ref.soft_moments(p, 0.1))
    assert 0.05 < exact < 0.45
    trained = train(problem, temperature=0.1)
    assert trained == pytest.approx(relaxed, abs=0.01)  # what soft masks of this temperature aim at
    assert trained == pytest.approx(exact, abs=0.02)  # what the user wants


def test_high_temperature_biases_the_rate_upwards_as_predicted() -> None:
    problem = ref.linear_problem(200)
    exact = problem.best_p(ref.hard_moments)
    relaxed = problem.best_p(lambda p: ref.soft_moments(p, 2 / 3))
    trained = train(problem, temperature=2 / 3)
    assert trained == pytest.approx(relaxed, abs=0.02)
    assert trained - exact > 0.08  # why 0.1 is the default temperature


def test_objective_of_the_library_is_the_reference() -> None:
    """NLL of a relaxed mask by Monte Carlo over many rows, KL exactly."""
    problem = ref.linear_problem(60)
    p, temperature = 0.3, 0.1
    weight = problem.best_weight(p, *ref.hard_moments(p))
    model = gd.learn_dropout(nn.Linear(problem.num_units, 1, bias=False), p=p, temperature=temperature)
    model.weight.data = torch.tensor(weight, dtype=torch.float32)[None]
    copies = 4000
    x = torch.tensor(problem.x, dtype=torch.float32).repeat(copies, 1)
    y = torch.tensor(problem.y, dtype=torch.float32).repeat(copies).unsqueeze(1)
    nll = gd.gaussian_nll(model(x), torch.tensor(math.log(problem.noise_variance)), y).detach()
    error = nll.std().item() / math.sqrt(len(nll))
    expected = problem.nll(weight, *ref.soft_moments(p, temperature)) / problem.num_data
    assert nll.mean().item() == pytest.approx(expected, abs=4 * error)
    loss = gd.negative_elbo(nll.mean(), model, num_data=60, lengthscale=math.sqrt(problem.precision))
    assert loss.kl.item() == pytest.approx(problem.kl(weight, p) / problem.num_data, rel=1e-5)
