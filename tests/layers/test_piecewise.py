"""The piecewise-linear encoding of numbers."""

import itertools

import pytest
import torch

from gumdrop import predict_regression
from gumdrop.export.draws import Draws
from gumdrop.layers import PiecewiseLinear
from gumdrop.networks import mlp


def rows(count: int = 200) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, 3, generator=generator)
    x[:, 1] = (x[:, 1] > 0).float()  # two values
    x[:, 2] = x[:, 2].round()  # a few
    return x


def by_hand(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """One input, one bin after the other."""
    columns = []
    for low, high in itertools.pairwise(edges):
        columns.append(((x - low) / (high - low)).clamp(0, 1))
    return torch.stack(columns, -1)


def test_bins_are_those_of_the_formula_and_the_input_goes_on_beside_them() -> None:
    x = rows()
    encoding = PiecewiseLinear.fitted(x, 5)
    places = torch.linspace(-6, 6, 50)
    given = encoding(torch.stack([places, places * 0, places * 0], -1)) / encoding.scale
    edges = torch.quantile(x[:, 0], torch.linspace(0, 1, 6))
    torch.testing.assert_close(given[:, 3:8], by_hand(places, edges), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(given[:, 0], places)


def test_an_input_of_two_values_needs_no_bins_and_one_of_few_has_an_edge_at_each() -> None:
    x = rows()
    encoding = PiecewiseLinear.fitted(x, 16)
    few = len(x[:, 2].unique())
    assert encoding.column.bincount(minlength=3).tolist() == [16, 0, few - 1]
    assert encoding.num_outputs == 3 + 16 + few - 1


def test_constants_make_no_bins() -> None:
    x = torch.ones(10, 2)
    encoding = PiecewiseLinear.fitted(x, 4)
    assert encoding.num_bins == 0
    torch.testing.assert_close(encoding(x), x * 0.5**0.5)


def test_values_far_outside_stay_finite_in_float32_and_float64() -> None:
    encoding = PiecewiseLinear.fitted(rows(), 8)
    far = torch.full((1, 3), 1e6)
    assert encoding(far).isfinite().all()
    assert encoding.double()(far.double()).isfinite().all()


@pytest.mark.parametrize(("x", "bins"), [(torch.zeros(3), 4), (torch.zeros(3, 1), 0)])
def test_wrong_arguments_are_refused(x: torch.Tensor, bins: int) -> None:
    with pytest.raises(ValueError, match="must have shape"):
        PiecewiseLinear.fitted(x, bins)


def test_networks_behind_an_encoding_are_drawn_as_chains_and_exported() -> None:
    x = rows(40)
    torch.manual_seed(0)
    model = mlp(3, 1, hidden=[8], homoscedastic_noise=True, activation="silu", p=0.3,
                encoding=PiecewiseLinear.fitted(x, 6))  # fmt: skip
    prediction = predict_regression(model, x, num_samples=20, seed=0)
    assert (prediction.epistemic > 0).all()
    analytic = predict_regression(model, x, method="moments")
    many = predict_regression(model, x, num_samples=4000, seed=0)
    torch.testing.assert_close(analytic.mean, many.mean, rtol=0.1, atol=0.1)
    assert Draws(model).takes_positions


def test_an_encoding_of_other_inputs_is_refused() -> None:
    with pytest.raises(ValueError, match="`encoding` must be of 2 inputs, got one of 3"):
        mlp(2, 1, encoding=PiecewiseLinear.fitted(rows(), 4))
