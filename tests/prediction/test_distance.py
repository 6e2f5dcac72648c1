"""The distance of rows by what layers read: its closed forms, what counts as features, and the field of predictions."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.likelihoods import ClassificationPrediction, RegressionPrediction
from gumdrop.metrics import outlier_p_values
from gumdrop.prediction import FeatureDistance
from gumdrop.prediction.distance import _blocks, _spread, features_of
from gumdrop.prediction.inputs import arguments


def data(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def scaled(features: torch.Tensor) -> torch.Tensor:
    """What the Gaussian is of, but for its centre."""
    return torch.cat([block / _spread(block) for block in _blocks(features.double())], dim=1)


@pytest.mark.parametrize(("rows", "size"), [(40, 5), (12, 30)], ids=["many rows", "few rows"])
def test_the_gaussian_has_the_covariance_of_ledoit_and_wolf(rows: int, size: int) -> None:
    covariance = pytest.importorskip("sklearn.covariance")
    mixing = data(size, size, seed=3)
    x, new = data(rows, size, seed=1) @ mixing, 2 * data(7, size, seed=2)
    distance = FeatureDistance.of({"layer": x})
    known = scaled(x).numpy()
    fitted = covariance.LedoitWolf().fit(known)
    blocks = torch.cat([b / _spread(k) for b, k in zip(_blocks(new.double()), _blocks(x.double()), strict=True)], dim=1)
    expected = fitted.mahalanobis(blocks.numpy())
    np.testing.assert_allclose(distance.distances({"layer": new}), expected, rtol=1e-3)


def test_each_known_row_is_compared_with_the_others() -> None:
    x = data(9, 4) @ data(4, 4, seed=1)
    distance, z = FeatureDistance.of({"layer": x}), scaled(x)
    centred = z - z.mean(0)
    covariance = torch.linalg.inv((distance.axes * distance.precision) @ distance.axes.T + _across(distance)).double()
    shrunken = covariance - torch.eye(8) / distance.rest  # (1 - a) S
    weight = torch.trace(shrunken) / torch.trace(centred.T @ centred)
    expected = []
    for i in range(9):
        others = z[torch.arange(9) != i]
        scatter = (others - others.mean(0)).T @ (others - others.mean(0))
        move = z[i] - others.mean(0)
        expected.append(move @ torch.linalg.solve(weight * scatter + torch.eye(8) / distance.rest, move))
    torch.testing.assert_close(distance.reference.double(), torch.stack(expected).sort().values, rtol=2e-3, atol=0)


def _across(distance: FeatureDistance) -> torch.Tensor:
    return distance.rest * (torch.eye(len(distance.axes)) - distance.axes @ distance.axes.T)


def test_p_values_are_those_of_outlier_p_values_and_hold_what_they_promise() -> None:
    alarms, found = 0, []
    model = nn.Linear(6, 1)
    for seed in range(200):
        x = data(31, 6, seed=seed) * torch.tensor([1, 1, 1, 5, 5, 0.1])
        distance = FeatureDistance.of({"": x[:30]})
        p = distance.p_values(model, arguments(x[30:]))
        expected = outlier_p_values(distance.distances({"": x[30:]}), distance.reference)
        np.testing.assert_allclose(p, expected, rtol=1e-6)
        alarms += int(p <= 0.1)
        found.append(p.item())
    assert alarms <= 33  # of 20 expected, 3 standard deviations
    assert np.mean(found) == pytest.approx(0.5, abs=0.07)


def test_rows_that_are_far_out_or_whose_columns_do_not_belong_together_are_unlike_the_rest() -> None:
    base = data(300, 1)
    x = torch.cat([base, base + 0.1 * data(300, 1, seed=1), data(300, 1, seed=2)], dim=1)
    distance = FeatureDistance.of({"": x[:200]})
    far, torn = 20 * x[200:], torch.cat([x[200:, :1], x[200:, 1:2].flip(0), x[200:, 2:]], dim=1)
    p = [distance.p_values(nn.Linear(3, 1), arguments(rows)) for rows in (x[200:], far, torn)]
    assert (p[0] <= 0.05).float().mean() < 0.12
    assert (p[1] <= 0.05).float().mean() > 0.9
    assert (p[2] <= 0.05).float().mean() > 0.7


def test_layers_that_are_always_alike_count_nothing_and_what_is_not_finite_is_far() -> None:
    x = data(20, 3)
    alone, beside = FeatureDistance.of({"a": x}), FeatureDistance.of({"a": x, "dead": torch.full((20, 4), 0.1)})
    new = {"a": torch.cat([x[:2], x[:1] * torch.nan]), "dead": torch.full((3, 4), 0.1)}
    order = [each.distances(new)[:2].argsort().tolist() for each in (alone, beside)]
    assert order[0] == order[1]
    assert beside.distances(new).isfinite().tolist() == [True, True, False]
    dead = FeatureDistance.of({"dead": torch.zeros(10, 4)})
    assert dead.distances({"dead": torch.zeros(2, 4)}).isfinite().all()


class Tokens(nn.Module):
    """Reads sequences with their rows second, and a layer of rows of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.lstm, self.head = nn.Conv1d(3, 5, 1), nn.LSTM(5, 4), nn.Linear(4, 2)
        self.other = nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        read, _ = self.lstm(self.conv(x).permute(2, 0, 1))
        return self.head(read[-1]) + self.other(torch.zeros(7, 1)).sum()


def test_features_are_averaged_over_positions_and_batches_do_not_matter() -> None:
    torch.manual_seed(0)
    model, x = Tokens().train(), data(6, 3, 9)
    found = features_of(model, arguments(x))
    assert list(found) == ["conv", "lstm", "head"]
    torch.testing.assert_close(found["conv"], x.mean(2))
    torch.testing.assert_close(found["lstm"], model.conv(x).mean(2).detach())
    for name, each in features_of(model, arguments(x), 4).items():
        torch.testing.assert_close(each, found[name])
    assert model.training
    assert not any(layer._forward_pre_hooks for layer in model.modules())


@pytest.mark.parametrize("rows", [slice(None), [torch.arange(2), torch.arange(2, 5)]], ids=["rows", "batches"])
def test_predictions_of_a_model_with_a_distance_have_p_values(rows) -> None:
    torch.manual_seed(0)
    model, x = gd.learn_dropout(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))), data(5, 3)
    before = gd.predict_regression(model, x, seed=0)
    assert before.outlier_p_value is None
    model.feature_distance = FeatureDistance.of(features_of(model, arguments(data(40, 3, seed=1))))
    inputs = x if isinstance(rows, slice) else [x[each] for each in rows]
    batches = inputs if isinstance(inputs, torch.Tensor) else iter(inputs)
    after = gd.predict_regression(copy.deepcopy(model), batches, seed=0)
    torch.testing.assert_close(after.mean, before.mean)
    torch.testing.assert_close(after.epistemic, before.epistemic)
    expected = model.feature_distance.p_values(model, arguments(x))
    torch.testing.assert_close(after.outlier_p_value, expected)
    for other in (
        gd.predict_regression(model, x, method="moments"),
        gd.predict_classification(model, x, seed=0, batch_size=2),
    ):
        torch.testing.assert_close(other.outlier_p_value, expected)
    torch.testing.assert_close(after.rows(torch.tensor([3])).outlier_p_value, expected[3:4])


def test_a_mixture_has_no_p_value_of_one_of_its_parts() -> None:
    number = RegressionPrediction.gaussian(torch.zeros(2, 1), torch.ones(2, 1))
    classes = ClassificationPrediction.from_log_probabilities(torch.full((2, 2), 0.5).log())
    for part in (number, classes):
        with_p = replace(part, outlier_p_value=torch.tensor([0.1, 0.9]))
        assert type(part).mixture([with_p, with_p]).outlier_p_value is None
        assert type(part).joined([with_p, with_p]).outlier_p_value.tolist() == pytest.approx([0.1, 0.9] * 2)
