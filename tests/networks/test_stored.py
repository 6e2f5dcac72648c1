"""Programs of torch.export have modules again, under their names, and compute what they did."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gumdrop as gd
from gumdrop.networks.stored import load_network, modules_of


class Mixed(nn.Module):
    """Layers, dropout and functions of each kind that a program calls."""

    def __init__(self) -> None:
        super().__init__()
        self.strided = nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2)
        self.same = nn.Conv2d(8, 8, 3, padding="same", bias=False)
        self.channels, self.units = nn.Dropout2d(0.2), nn.Dropout(0.3)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.twice, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.channels(self.same(self.strided(x).relu())).flatten(2).transpose(1, 2)
        h = self.twice(self.twice(self.encoder(h))).mean(1)
        return self.head(F.dropout(self.units(h), 0.4, self.training))


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return Mixed().eval()


@pytest.fixture(scope="module")
def stored(network):
    example = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    program = torch.export.export(network, (example,), dynamic_shapes=({0: torch.export.Dim("n")},))
    return modules_of(program)


def test_layers_and_dropout_stand_under_their_names(stored) -> None:
    kinds = {name: type(module) for name, module in stored.named_modules()}
    for name in ("strided", "same"):
        assert kinds[name] is nn.Conv2d
    for name in ("twice", "head", "encoder.linear1", "encoder.linear2", "encoder.self_attn.out_proj"):
        assert kinds[name] is nn.Linear
    rates = {name: module.p for name, module in stored.named_modules() if isinstance(module, nn.Dropout)}
    assert {name: p for name, p in rates.items() if not name.startswith("encoder")} == {"units": 0.3, "dropout_4": 0.4}
    assert kinds["channels"] is nn.Dropout2d
    assert stored.channels.p == 0.2


def test_a_program_of_modules_computes_the_same(network, stored) -> None:
    x = torch.randn(7, 4, 8, 8, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(stored(x), network(x))
    assert stored.state_dict().keys() == network.state_dict().keys()


def test_a_stored_network_is_converted_as_one_of_ones_own(tmp_path) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    example = torch.randn(2, 3)
    program = torch.export.export(network, (example,), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.export.save(program, tmp_path / "network.pt2")
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    predictions = [
        gd.predict(gd.learn_dropout(model, p=0.3), x, "gaussian", num_samples=20, seed=0)
        for model in (network, load_network(str(tmp_path / "network.pt2")))
    ]
    torch.testing.assert_close(predictions[0].mean, predictions[1].mean)
