"""`fit_distance`: what it leaves on a model, which rows and layers it looks at, and what it refuses."""

import pickle

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.training import fit_distance, fit_rates, frozen, held_out_distance, held_out_rates


def data(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def model_of(depth: int = 1) -> nn.Module:
    torch.manual_seed(0)
    hidden = [part for _ in range(depth) for part in (nn.Linear(4, 4), nn.Tanh())]
    return gd.learn_dropout(nn.Sequential(*hidden, nn.Linear(4, 2)))


def test_the_distance_stays_with_the_model_and_out_of_its_state_dict() -> None:
    model, x = model_of(), data(60, 4)
    names = list(model.state_dict())
    distance = fit_distance(model, x)
    assert model.feature_distance is distance
    assert list(model.state_dict()) == names
    again = pickle.loads(pickle.dumps(model))
    expected = gd.predict(model, 3 * x[:5], "gaussian", seed=0).outlier_p_value
    assert torch.equal(gd.predict(again, 3 * x[:5], "gaussian", seed=0).outlier_p_value, expected)
    other = model_of()
    other.feature_distance = distance  # as after loading a state dict
    assert torch.equal(gd.predict(other, 3 * x[:5], "gaussian", seed=0).outlier_p_value, expected)


def test_many_rows_and_layers_are_thinned_out_by_the_seed(monkeypatch) -> None:
    monkeypatch.setattr(held_out_distance, "MOST_ROWS", 20)
    monkeypatch.setattr(held_out_distance, "MOST_LAYERS", 3)
    model, x = model_of(depth=6), data(50, 4)
    found = [fit_distance(model, x, seed=seed) for seed in (0, 0, 1)]
    assert found[0].layers == ("0", "6", "12")
    assert len(found[0].reference) == 20
    assert torch.equal(found[0].reference, found[1].reference)
    assert not torch.equal(found[0].reference, found[2].reference)


def test_rates_come_with_the_distance_of_the_same_rows(monkeypatch) -> None:
    monkeypatch.setattr(held_out_rates, "STEPS", 1)
    monkeypatch.setattr(frozen, "JUDGES", 2)
    network, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)), data(40, 4)
    fitted = fit_rates(network, (x, data(40, 1, seed=1)), likelihood="gaussian")
    assert network.feature_distance is fitted.distance
    p = gd.predict(network, torch.cat([x, 50 * x]), fitted.likelihood, seed=0).outlier_p_value
    assert p[:40].mean() > 0.4
    assert p[40:].max() < 0.1


class Own(nn.Module):
    """Has no layer that is known."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def test_what_has_no_distance() -> None:
    with pytest.raises(ValueError, match="must have at least 8 rows, and `batch_size` must be at least 1, got 7 and"):
        fit_distance(model_of(), data(7, 4))
    with pytest.raises(ValueError, match="`model` has no dense, convolutional or recurrent layer that reads every row"):
        fit_distance(Own(), data(20, 4))
    with pytest.raises(ValueError, match="as finite numbers"):
        fit_distance(model_of(), data(20, 4) * torch.nan)
