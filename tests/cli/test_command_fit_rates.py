"""``gumdrop fit-rates``: a stored network and held-out rows in, rates and a file that predicts with them out."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from gumdrop.cli import main
from gumdrop.training import fit_rates, frozen, held_out_rates

ROWS = 120


def data(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def make_network() -> nn.Module:
    """A network that has learned its training rows by heart, so that doubt helps."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    x = data(60, 20, seed=5)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(200):
        optimizer.zero_grad()
        (network(x) - x[:, :1] - data(60, 1, seed=6)).square().mean().backward()
        optimizer.step()
    return network.eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("rates")
    sizes = ({0: torch.export.Dim("n")},)
    torch.export.save(torch.export.export(make_network(), (data(2, 20),), dynamic_shapes=sizes), place / "net.pt2")
    x = data(ROWS, 20, seed=7)
    y = x[:, 0] + data(ROWS, 1, seed=8)[:, 0]
    np.savez(place / "rows.npz", x=x, y=y)
    np.savez(place / "few.npz", x=x[:, :3], y=y)
    np.savez(place / "two.npz", left=x, right=x, y=y)
    np.savez(place / "targets.npz", y=y)
    np.save(place / "alone.npy", x)
    return place


@pytest.fixture(autouse=True)
def quick(monkeypatch, folder) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "my_models", sys.modules[__name__])
    monkeypatch.setattr(held_out_rates, "STEPS", 3)
    monkeypatch.setattr(frozen, "JUDGES", 16)


def test_a_stored_network_gets_the_rates_of_fit_rates(folder, shell) -> None:
    told = shell.told("fit-rates", "net.pt2", "rows.npz", "--likelihood", "gaussian", "--out", "doubt.pt2")
    rows = np.load(folder / "rows.npz")
    x, y = torch.as_tensor(rows["x"]), torch.as_tensor(rows["y"]).unsqueeze(1)
    fitted = fit_rates(make_network(), (x, y), likelihood="gaussian")
    assert told["kept"] == fitted.kept == "one rate"
    assert told["out"] == "doubt.pt2"
    assert told["rates"] == pytest.approx(fitted.rates)
    assert told["temperature"] == pytest.approx(fitted.temperature, rel=1e-4)
    prediction = torch.export.load(folder / "doubt.pt2").module()(x)
    assert prediction["epistemic"].min() > 0
    variance = fitted.likelihood.log_variance.exp() * fitted.temperature
    torch.testing.assert_close(prediction["aleatoric"], variance.expand(ROWS, 1), rtol=1e-4, atol=0)


def test_a_network_that_can_be_imported_and_words_for_people(shell) -> None:
    said = shell.said("fit-rates", "my_models:make_network", "rows.npz", "--likelihood", "gaussian")
    assert "temperature" in said
    assert "each layer" in said


@pytest.mark.slow
def test_a_network_whose_rates_are_all_zero_predicts_without_draws(monkeypatch, folder) -> None:
    monkeypatch.setattr(held_out_rates, "is_beyond_chance", lambda gain: False)
    assert main(["fit-rates", "net.pt2", "rows.npz", "--likelihood", "gaussian", "--out", "sure.onnx"]) == 0
    pytest.importorskip("onnxruntime")
    from onnxruntime import InferenceSession

    x = np.load(folder / "rows.npz")["x"]
    mean, epistemic, _ = InferenceSession(folder / "sure.onnx").run(None, {"x": x})
    np.testing.assert_allclose(mean, make_network()(torch.as_tensor(x)).detach(), rtol=1e-4, atol=1e-5)
    assert epistemic.max() == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent.pt2", "rows.npz"], "absent.pt2 is not there"),
        (["net.pt2", "absent.npz"], r"write it with numpy.savez('absent.npz', x=inputs, y=targets)"),
        (["net.pt2", "net.pt2"], "no file of numpy.savez"),
        (["net.pt2", "alone.npy"], "no file of numpy.savez"),
        (["net.pt2", "targets.npz"], "must hold the targets as 'y' and an input, got y"),
        (["net.pt2", "few.npz"], "must have 20 units at dimension -1, got shape (32, 3)"),
        (["net.pt2", "two.npz"], "does not take the arrays of two.npz: "),
        (["net.pt2", "rows.npz", "--out", "net.pt2"], "exists already"),
        (["net.pt2", "rows.npz", "--out", "net.csv"], "must end in .onnx or .pt2"),
    ],
)
def test_what_cannot_be_used(shell, words, message) -> None:
    assert message in shell.refused("fit-rates", "--likelihood", "gaussian", *words)


class Unpickled:
    """Leaves a file where it is read."""

    def __reduce__(self):
        return Path.touch, (Path("ran"),)


def test_a_file_of_arrays_runs_nothing(folder, shell) -> None:
    np.savez(folder / "objects.npz", x=np.array([Unpickled()], dtype=object), y=np.zeros(1))
    said = shell.refused("fit-rates", "net.pt2", "objects.npz", "--likelihood", "gaussian")
    assert "no file of numpy.savez with arrays of numbers" in said
    assert not (folder / "ran").exists()


def test_classes_are_integers(shell) -> None:
    assert "'y' of rows.npz must hold classes as integers from 0" in shell.refused(
        "fit-rates", "net.pt2", "rows.npz", "--likelihood", "categorical"
    )
