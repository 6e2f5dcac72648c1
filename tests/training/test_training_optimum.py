"""The rate that training finds minimises the objective under relaxed masks, and is near that of Bernoulli masks."""

import pytest

from builders import reference as ref
from builders.optimum import train


@pytest.mark.parametrize("num_data", [20, 200])
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
