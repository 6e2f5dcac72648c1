"""What the library does on a GPU, where there is one: the same as on the CPU, and without waiting in a step."""

import math
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.attribution import FIDO, FIDOSettings
from gumdrop.export import export_model
from gumdrop.layers import dropout_blocks
from gumdrop.networks import mlp
from gumdrop.training import fit, fit_rates, fit_stacked
from test_no_wait import LIKELIHOODS, NETWORKS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can use")
GPU = torch.device("cuda")


@contextmanager
def no_wait() -> Iterator[None]:
    """Fail where something waits for the GPU."""
    try:
        with warnings.catch_warnings():  # it says that it is a prototype
            warnings.simplefilter("ignore")
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def on_cpu(name: str) -> tuple[nn.Module, Tensor]:
    make, shape, options = NETWORKS[name]
    model = gd.learn_dropout(make(), p=0.3, report=lambda report: None, **options)
    x = torch.randint(9, shape) if name == "words" else torch.randn(shape)
    with torch.no_grad():  # rates for each unit have their sizes with the first input
        model.train()(x)
    return model.eval(), x


def rows(n: int = 256) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 4)
    return x, x[:, :1].sin() + 0.1 * torch.randn(n, 1)


@pytest.mark.parametrize("name", NETWORKS)
def test_steps_do_not_wait(name: str) -> None:
    model, x = on_cpu(name)
    model, x, y = model.to(GPU).train(), x.to(GPU), torch.randint(2, (6,), device=GPU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        loss = gd.negative_elbo(gd.categorical_nll(model(x), y), model, num_data=100, likelihood="categorical")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    step()
    with no_wait():
        step()
    assert all(block.weight.grad is not None and block.weight.grad.isfinite().all() for block in dropout_blocks(model))


@pytest.mark.parametrize("name", NETWORKS)
def test_predictions_and_drawn_networks_are_those_of_the_cpu(name: str) -> None:
    model, x = on_cpu(name)
    expected = gd.sample(model, x, num_samples=20, seed=0), gd.draw(model, seed=3)(x)
    model, x = model.to(GPU), x.to(GPU)
    found, again = (gd.sample(model, x, num_samples=20, seed=0) for _ in range(2))
    assert found.device.type == "cuda"
    torch.testing.assert_close((found.cpu(), gd.draw(model, seed=3)(x).cpu()), expected, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(again, found)


def test_gradients_of_the_objective_are_those_of_the_cpu() -> None:
    gradients = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        model = gd.learn_dropout(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), p=0.2).to(device)
        kl = gd.kl_divergence(model, lengthscale="fan_in")
        gradients.append([g.cpu() for g in torch.autograd.grad(kl, list(model.parameters()))])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("home", ["cpu", "cuda"])
@pytest.mark.parametrize(
    "options",
    [{}, {"max_norm": 1.0}, {"held_out_noise": True}, {"autocast": torch.bfloat16}],
    ids=["plain", "max_norm", "noise", "bfloat16"],
)
def test_fit(home: str, options: dict[str, Any], tmp_path: Path) -> None:
    x, y = rows()
    train, held_out = (x[:200].to(home), y[:200].to(home)), (x[200:].to(home), y[200:].to(home))

    def trained(checkpoint: Path) -> tuple[nn.Module, list[float]]:
        torch.manual_seed(0)
        model = mlp(4, 1, hidden=[32], homoscedastic_noise=True).to(GPU)
        settings = {"epochs": 5, "lr": 1e-2, "batch_size": 32, "seed": 0, **options}
        result = fit(model, train, validation=held_out, likelihood="gaussian", checkpoint=checkpoint, **settings)
        return model, [record.nll for record in result.history]

    model, first = trained(tmp_path / "a")
    second = trained(tmp_path / "b")[1]
    assert first == pytest.approx(second, rel=1e-3)
    assert gd.predict_regression(model, x.to(GPU), num_samples=10, seed=0).mean.isfinite().all()
    assert trained(tmp_path / "b")[1] == pytest.approx(second)


def test_fit_stacked() -> None:
    x, y = rows()
    models = [mlp(4, 1, hidden=[16], homoscedastic_noise=True).to(GPU) for _ in range(3)]
    fit_stacked(models, [(x, y)] * 3, epochs=5, lr=1e-2, batch_size=32, seed=0, likelihood="gaussian")
    assert all(parameter.isfinite().all() for model in models for parameter in model.parameters())


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_estimators(device: str) -> None:
    from gumdrop.estimators import ConcreteDropoutClassifier, ConcreteDropoutRegressor

    x, y = (values.numpy() for values in rows(120))
    model = ConcreteDropoutRegressor(random_state=0, max_iter=20, device=device).fit(x, y[:, 0])
    mean, std = model.predict(x, return_std=True)
    again = pickle.loads(pickle.dumps(model))
    assert (std > 0).all()
    assert again.predict(x) == pytest.approx(mean, rel=1e-4, abs=1e-4)
    classifier = ConcreteDropoutClassifier(random_state=0, max_iter=20, device=device).fit(x, y[:, 0] > 0)
    assert classifier.score(x, y[:, 0] > 0) > 0.7


def test_rates_of_a_trained_network() -> None:
    x, y = rows()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1)).to(GPU)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(50):
        optimizer.zero_grad()
        (model(x.to(GPU)) - y.to(GPU)).square().mean().backward()
        optimizer.step()
    found = fit_rates(gd.learn_dropout(model), (x.to(GPU), y.to(GPU)), likelihood="gaussian", seed=0)
    assert all(map(math.isfinite, found.scores.values()))


@pytest.mark.parametrize("name", ["dense", "spatial", "attention"])
def test_export(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model, x = on_cpu(name)
    export_model(model.to(GPU), x.to(GPU), tmp_path / "model.onnx", variant="draw", likelihood="categorical")
    assert (tmp_path / "model.onnx").stat().st_size


def test_attribution() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    fido = FIDO(model.to(GPU).eval(), FIDOSettings(iterations=5))
    found = fido.attribute(torch.randn(2, 3, 16, 16, device=GPU), target=torch.tensor([0, 1]), seed=0)
    assert found.isfinite().all()


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning",
    "ignore:TensorFloat32 tensor cores",
    "ignore:\\s*Online softmax:UserWarning",
)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_compiled_steps(likelihood: str) -> None:
    model, x = on_cpu("dense")
    model, x = model.to(GPU).train(), x.to(GPU)
    nll = LIKELIHOODS[likelihood]
    loss_of = torch.compile(lambda x: gd.negative_elbo(nll(model(x)), model, num_data=100, likelihood=likelihood))
    loss_of(x).backward()
    assert all(block.weight.grad is not None for block in dropout_blocks(model))
