"""Ridge regression tells where bins lose."""

import pytest
import torch
from torch import Tensor

from gumdrop.ensembles.architecture import _left_out, bins_lose
from gumdrop.layers import PiecewiseLinear


def inputs(num_rows: int = 300, num_inputs: int = 3) -> Tensor:
    return torch.randn(num_rows, num_inputs, generator=torch.Generator().manual_seed(0))


def lose(x: Tensor, y: Tensor, bins: int = 32) -> bool:
    return bins_lose(x, y, PiecewiseLinear.fitted(x, bins), seed=0)


def test_rows_are_left_out_as_by_fitting_the_others() -> None:
    x, y = inputs(20, 4).double(), inputs(20, 6)[:, 4:].double()
    x, y = x - x.mean(0), y - y.mean(0)
    penalty = 0.1 * x.square().sum() / 20  # one of those that are tried; the mean of 20 eigenvalues, 16 of them 0
    ones = torch.cat([x, torch.ones(20, 1, dtype=x.dtype)], dim=1)
    ridge = torch.diag(torch.tensor([1.0] * 4 + [0.0])).double() * penalty
    errors = []
    for i in range(20):
        others = torch.arange(20) != i
        a, b = ones[others], y[others]
        errors.append(y[i] - ones[i] @ torch.linalg.solve(a.T @ a + ridge, a.T @ b))
    squares = torch.stack(errors).square()
    expected = -0.5 * (squares.mean(0).log() + squares / squares.mean(0)).sum(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gumdrop.ensembles.architecture.PENALTIES", torch.tensor([0.1], dtype=torch.float64))
        torch.testing.assert_close(_left_out(x, y), expected)


def test_bins_lose_for_smooth_functions_and_not_for_steps_lines_or_noise() -> None:
    x = inputs()
    assert lose(x, x[:, :1] * x[:, 1:2])
    assert not lose(x, (2 * x).round() % 2)
    assert not lose(x, torch.randn(300, 1, generator=torch.Generator().manual_seed(1)))
    assert lose(x, torch.stack([x.sum(1).sin(), x[:, 0] * x[:, 1]], dim=1))  # two targets


@pytest.mark.parametrize(("factor", "shift"), [(1e-8, 0.0), (1e-8, 1e-6), (1e8, 0.0), (1e8, 1e10)])
def test_units_of_the_target_make_no_difference(factor: float, shift: float) -> None:
    x = inputs()
    assert lose(x, factor * x[:, :1] * x[:, 1:2] + shift)
    assert not lose(x, factor * ((2 * x[:, :1]).round() % 2) + shift)


def test_the_same_seed_tells_the_same_and_odd_tables_are_no_error() -> None:
    x = inputs()
    y = x[:, :1] * x[:, 1:2]
    assert lose(x, y) == lose(x.clone(), y.clone())
    rare = torch.zeros(1999, 1)
    rare[[1, 3]] = torch.tensor([[1.0], [2.0]])  # between the rows that are looked at
    assert not lose(rare, torch.randn(1999, 1, generator=torch.Generator().manual_seed(1)))
    assert not lose(x, torch.ones(300, 1))
    assert not lose(inputs(4, 1), inputs(4, 2)[:, 1:])
    assert lose(torch.cat([x, torch.zeros(300, 1)], dim=1), x[:, :1] * x[:, 1:2])
