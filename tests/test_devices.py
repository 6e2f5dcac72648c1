"""Whole fits and predictions on a device that is not the CPU, without one: no tensors of two devices are mixed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop import predict
from gumdrop.attribution import FIDO, FIDOSettings
from gumdrop.ensembles import EnsembleSettings, Rows
from gumdrop.ensembles import fit as fit_ensemble
from gumdrop.estimators import ConcreteDropoutClassifier, ConcreteDropoutRegressor
from gumdrop.likelihoods import LIKELIHOODS, Categorical, RegressionPrediction
from gumdrop.metrics import concordance, integrated_brier
from gumdrop.metrics.survival import d_calibration
from gumdrop.networks import mlp
from gumdrop.prediction import propagate_moments
from gumdrop.training import fit, fit_rates, fit_stacked, tune_strength
from test_gpu import on_cpu
from test_no_wait import NETWORKS

from builders.pretend_gpu import IS_POSSIBLE, pretend_gpu

pytestmark = pytest.mark.skipif(not IS_POSSIBLE, reason="needs a torch to which Python can give a device")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)
CLASSES = np.digitize(Y, [-0.5, 0.5])


@pytest.fixture
def gpu() -> Iterator[torch.device]:
    with pretend_gpu() as device:
        yield device


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x, there: x + there,
        lambda x, there: there.sum() + x,
        lambda x, there: x[there > 0],
        lambda x, there: there.gather(0, x.long()),
        lambda x, there: torch.cat([x, there]),
        lambda x, there: torch.stack([there[0], x[0]]),
        lambda x, there: torch.where(there > 0, x, there),
        lambda x, there: there @ x,
        lambda x, there: x[0].add_(there[0]),
        lambda x, there: there.uniform_(generator=torch.Generator()),
        lambda x, there: nn.functional.linear(x[None], there[None]),
        lambda x, there: there.numpy(),
    ],
)
def test_the_pretend_device_refuses(mixed: Callable[[Tensor, Tensor], Any], gpu: torch.device) -> None:
    with pytest.raises((RuntimeError, TypeError), match="device"):
        mixed(torch.ones(3), torch.ones(3, device=gpu))


def test_the_pretend_device_lets_pass(gpu: torch.device) -> None:
    x = torch.arange(3.0, device=gpu)
    assert (x * torch.tensor(2.0) + 1)[torch.tensor([2])].tolist() == [5.0]
    x[torch.tensor([True, False, True])] = 7.0
    x[1:].copy_(torch.ones(2))
    assert (x.device, x.cpu().tolist(), x.to("cpu").numpy().sum()) == (gpu, [7.0, 1.0, 1.0], 9.0)


def structured(**fields: np.ndarray) -> np.ndarray:
    """A record for each row."""
    result = np.zeros(len(X), dtype=[(name, values.dtype) for name, values in fields.items()])
    for name, values in fields.items():
        result[name] = values
    return result


TARGETS: dict[str, np.ndarray] = {
    "two outputs": np.stack([Y, X[:, 1] ** 2], axis=1),
    "positive": np.exp(3 * Y),
    "counts": RNG.poisson(np.exp(Y)),
    "times": structured(event=RNG.random(60) < 0.7, time=np.exp(Y)),
    "ranges": structured(lower=Y, upper=Y + RNG.choice([0.0, 0.3, np.inf], 60)),
}
SMALL: dict[str, Any] = {"random_state": 0, "max_iter": 1, "n_members": 2, "n_mc_samples": 10}
FIXED = SMALL | {"hidden_layer_sizes": [8], "strength": 1.0}


@pytest.mark.parametrize("kind", TARGETS)
def test_regressor(kind: str, gpu: torch.device) -> None:
    y = TARGETS[kind]
    model = ConcreteDropoutRegressor(**FIXED, device=gpu).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    lower, upper = model.predict_interval(X)
    assert (lower <= upper).all()
    model.predict_quantiles(X)
    model.sample_y(X, random_state=0)
    assert np.isfinite(model.log_prob(X, y)).any()


def test_regressor_that_chooses_its_network(gpu: torch.device) -> None:
    model = ConcreteDropoutRegressor(**SMALL, conformal=True, device=gpu).fit(X, Y, RNG.random(60), groups=CLASSES)
    model.conformalize(X, Y).update(X, Y).predict_interval(X)


@pytest.mark.parametrize("options", [{}, {"early_stopping": True, "class_weight": "balanced"}])
def test_classifier(options: dict[str, Any], gpu: torch.device) -> None:
    model = ConcreteDropoutClassifier(**SMALL, **options, conformal=True, device=gpu).fit(X, CLASSES, RNG.random(60))
    assert model.predict_proba(X).sum(1) == pytest.approx(1)
    model.predict_set(X)
    model.log_prob(X, CLASSES)
    assert model.conformalize(X, CLASSES).update(X, CLASSES).predict_set(X).any(1).all()


def test_fit_of_a_stream(gpu: torch.device, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(np.c_[X, Y], columns=list("abcy"))
    table.to_parquet(tmp_path / "rows.parquet")
    model = ConcreteDropoutRegressor(**SMALL, device=gpu).fit_stream(tmp_path / "rows.parquet", "y")
    assert np.isfinite(model.predict(table[list("abc")])).all()


def network(likelihood: str) -> nn.Module:
    outputs = 2 if likelihood in ("categorical", "negative_binomial") else 1
    return mlp(3, outputs, hidden=[8], homoscedastic_noise=LIKELIHOODS[likelihood].is_density)


def rows(likelihood: str, home: torch.device | str) -> tuple[Tensor, Tensor]:
    y = torch.from_numpy(Y).float().unsqueeze(1)
    if likelihood == "categorical":
        y = (y[:, 0] > 0).long()
    elif not LIKELIHOODS[likelihood].is_density:
        y = (y > 0).float()
    return torch.from_numpy(X).float().to(home), y.to(home)


@pytest.mark.parametrize(("likelihood", "home"), [*((name, "pretend") for name in LIKELIHOODS), ("gaussian", "cpu")])
def test_training(likelihood: str, home: str, gpu: torch.device) -> None:
    data, settings = rows(likelihood, home), {"likelihood": likelihood, "epochs": 1, "batch_size": 30, "seed": 0}
    model = network(likelihood).to(gpu)
    fit(model, data, validation=data, max_norm=1.0, accumulate=2, **settings)
    fit_stacked([network(likelihood).to(gpu) for _ in range(2)], [data] * 2, weights=[torch.rand(60)] * 2, **settings)
    assert tune_strength(model, data, data, num_samples=4, **settings).strength
    prediction = predict(model, rows(likelihood, gpu)[0], likelihood, num_samples=4, seed=0, batch_size=20)
    y = rows(likelihood, gpu)[1]
    assert prediction.log_prob(y.long() if likelihood == "bernoulli" else y).isfinite().all()


def test_rates_of_a_trained_network(gpu: torch.device) -> None:
    assert fit_rates(network("poisson").to(gpu), rows("poisson", "cpu"), likelihood="poisson", seed=0).scores


@pytest.mark.parametrize("home", ["cpu", "pretend"])
def test_ensemble_of_grouped_rows(home: str, gpu: torch.device) -> None:
    x, y = rows("categorical", home)
    data = Rows(x, y, torch.rand(60).to(home), groups=(torch.arange(60) // 6).to(home))
    settings = EnsembleSettings(num_members=2, epochs=1, seed=0)
    fitted = fit_ensemble(lambda *_: network("categorical").to(gpu), data, settings, Categorical())
    assert fitted.model.predict(x.to(gpu), num_samples=4, seed=0).log_prob(y.to(gpu)).isfinite().all()


KINDS = [name for name in NETWORKS if name != "recurrent"]
"""All but those whose cells torch computes in one go, by a function that the CPU lacks."""


@pytest.mark.parametrize("name", KINDS)
def test_steps_and_predictions_of_kinds_of_networks(name: str, gpu: torch.device) -> None:
    model, x = on_cpu(name)
    expected = gd.sample(model, x, num_samples=5, seed=0), gd.draw(model, seed=3)(x)
    model, x = model.to(gpu), x.to(gpu)
    found = gd.sample(model, x, num_samples=5, seed=0), gd.draw(model, seed=3)(x)
    torch.testing.assert_close([each.cpu() for each in found], list(expected))
    gd.predict_regression(model, x, num_samples=5, seed=0, batch_size=4)
    nll = gd.categorical_nll(model.train()(x), torch.zeros(6, dtype=torch.long, device=gpu))
    gd.negative_elbo(nll, model, num_data=100, likelihood="categorical").backward()


def test_moments(gpu: torch.device) -> None:
    assert propagate_moments(network("gaussian").to(gpu), rows("gaussian", gpu)[0]).mean.device == gpu


@pytest.mark.parametrize("infill", ["zeros", "blur", "local_shuffle"])
def test_attribution(infill: str, gpu: torch.device) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)).to(gpu).eval()
    fido = FIDO(model, FIDOSettings(iterations=3))
    target = torch.tensor([0, 1])
    assert fido.attribute(torch.randn(2, 3, 16, 16, device=gpu), target, infill=infill, seed=0).isfinite().all()


def test_scores_of_times(gpu: torch.device) -> None:
    times = torch.rand(60, device=gpu).double()
    observed = torch.stack([times, torch.where(torch.rand(60, device=gpu) < 0.7, times, torch.inf)], dim=1)
    prediction = RegressionPrediction.gaussian(times.unsqueeze(1), torch.ones(60, 1, device=gpu))
    for score in (integrated_brier, concordance, d_calibration):
        assert score(prediction, observed).isfinite()
