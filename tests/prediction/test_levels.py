"""Probabilities of the levels of a target that is recorded in steps."""

import math

import pytest
import torch

from gumdrop.likelihoods import RegressionPrediction


def mixture(num_rows: int = 4) -> RegressionPrediction:
    generator = torch.Generator().manual_seed(0)
    parts = [
        RegressionPrediction.gaussian(
            3 + torch.randn(num_rows, 1, generator=generator), 0.2 + torch.rand(num_rows, 1, generator=generator)
        )
        for _ in range(5)
    ]
    return RegressionPrediction.mixture(parts)


def test_a_log_probability_is_that_of_the_cell_and_joint_over_outputs() -> None:
    prediction, y = mixture(), torch.tensor([[2.0], [3.0], [4.0], [5.0]])
    inside = (prediction.cdf(y + 0.25) - prediction.cdf(y - 0.25)).double()
    torch.testing.assert_close(prediction.log_probability(y - 0.25, y + 0.25), inside[:, 0].log(), rtol=1e-4, atol=1e-5)
    levels = prediction.level_probabilities([k / 2 for k in range(-20, 31)], 0.5)
    torch.testing.assert_close(levels.sum(-1), torch.ones(4, 1))
    torch.testing.assert_close(levels[range(4), 0, [24, 26, 28, 30]].double(), inside[:, 0], rtol=1e-3, atol=1e-5)
    two = RegressionPrediction.gaussian(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 4.0]]))
    both = two.log_probability(torch.tensor([-1.0, -1.0]), torch.tensor([1.0, 3.0]))
    assert both.exp().item() == pytest.approx(math.erf(1 / 2**0.5) ** 2)


def test_log_probabilities_are_finite_far_out_and_of_narrow_cells() -> None:
    standard = RegressionPrediction.gaussian(torch.zeros(1, 1), torch.ones(1, 1))
    for y in (-30.0, 30.0):
        at = torch.tensor(y)
        assert standard.log_probability(at - 0.5, at + 0.5).item() == pytest.approx(-(29.5**2) / 2 - 4.305, abs=0.01)
    narrow = standard.log_probability(torch.tensor(0.3), torch.tensor(0.3).double() + 1e-6)
    assert narrow.item() == pytest.approx(standard.log_prob(torch.tensor([[0.3]])).item() + math.log(1e-6), abs=2e-2)


def test_a_step_must_be_positive() -> None:
    with pytest.raises(ValueError, match="`step` must be positive, got 0"):
        mixture().level_probabilities([1.0], 0)
