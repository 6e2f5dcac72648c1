"""Targets that end at 0: held-out rows decide between them and their logarithm, and nothing is said below 0."""

import copy
from functools import cache, partial

import numpy as np
import pytest
import torch
from torch import Tensor

from gumdrop.ensembles import Architecture, EnsembleFit, EnsembleSettings, RegressionEnsemble, Rows, choose, fit
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.ensembles.scaling import AS_IT_IS, Scaling
from gumdrop.likelihoods import PLAIN, Gaussian, RegressionPrediction, TargetScale
from gumdrop.likelihoods.target_scale import Kind
from gumdrop.networks import mlp

QUICK = EnsembleSettings(num_members=2, epochs=40, batch_size=32)
SCALE = TargetScale(least=0.0)


def build(architecture: Architecture, encoding: object) -> torch.nn.Module:
    return mlp(2, 1, hidden=(16,), homoscedastic_noise=True, activation=architecture.activation)


def table(kind: str, num_rows: int = 300) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_rows, 2, generator=generator)
    noise = torch.randn(num_rows, 1, generator=generator).double()
    if kind == "log-normal":
        return x, torch.exp(x[:, :1].double() + 0.5 * noise)
    if kind == "squared":
        return x, (3 + x[:, :1].double() + 0.8 * noise).square()
    return x, (6 + x[:, :1].double() - 0.5 * noise.square()).clamp(min=0.1)


@pytest.fixture(autouse=True)
def plain_networks(monkeypatch) -> None:
    one = partial(lambda *_, **__: [Architecture((16,), "silu")])
    monkeypatch.setattr("gumdrop.ensembles.choosing.candidates", one)


@pytest.mark.parametrize(("kind", "scale"), [("log-normal", "log"), ("left-skewed", "identity"), ("squared", "sqrt")])
def test_held_out_rows_decide_for_a_scale(kind: str, scale: Kind) -> None:
    x, y = table(kind, 400)
    mean, std = y.mean().item(), y.std().item()
    rows, bounded = Rows(x, (y - mean) / std), SCALE.rescaled(1 / std, -mean / std)
    assert choose(build, rows, QUICK, Gaussian(), scale=bounded).target_scale == scale


def test_there_is_no_other_scale_without_a_bound_or_with_targets_on_it() -> None:
    x, y = table("log-normal")
    assert choose(build, Rows(x, y), QUICK, Gaussian()).target_scale == "identity"
    y[3] = 0.0
    assert choose(build, Rows(x, y), QUICK, Gaussian(), scale=SCALE).target_scale == "identity"


@cache
def fitted_on(kind: Kind) -> EnsembleFit:
    architecture = Architecture((16,), "silu", target_scale=kind)
    return fit(build, Rows(*table("log-normal")), QUICK, Gaussian(), architecture=architecture, scale=SCALE)


@pytest.mark.parametrize("kind", ["identity", "sqrt", "log"])
def test_log_likelihoods_are_comparable_and_predictions_stay_above_the_bound(kind: Kind) -> None:
    (x, y), fitted = table("log-normal"), fitted_on(kind)
    prediction = fitted.model.predict(x, seed=0)
    assert prediction.scale == TargetScale(least=0.0, kind=kind)
    assert (prediction.interval(0.99)[0] >= 0).all()
    assert (prediction.mean > 0).all()
    # Held-out rows in units of the target: near those of the training rows, with either scale.
    assert fitted.scores.nanmean().item() == pytest.approx(prediction.log_prob(y.float()).mean().item(), abs=0.4)


def test_the_scale_travels_in_the_state() -> None:
    (x, y), model = table("log-normal"), fitted_on("log").model
    assert isinstance(model, RegressionEnsemble)
    assert model.scaling.scale.kind == "log"
    np.testing.assert_allclose([model.scaling.center, model.scaling.spread], [y.log().mean(), y.log().std()], rtol=0.01)
    other = RegressionEnsemble([build(Architecture((16,), "silu"), None) for _ in range(2)], copy.deepcopy(model.noise))
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other.eval().predict(x, seed=0).mean, model.eval().predict(x, seed=0).mean)
    old = {name: value for name, value in model.state_dict().items() if name != "target_scaling"}
    other.load_state_dict(old)
    assert other.scaling == AS_IT_IS
    assert other.predict(x, seed=0).scale == PLAIN


@pytest.mark.parametrize("kind", ["identity", "sqrt", "log"])
def test_a_density_of_what_networks_see_is_that_of_the_target(kind: Kind) -> None:
    y = torch.tensor([[1e-12], [1e-9], [3.0], [1e5]], dtype=torch.float64) + (kind == "sqrt")
    scaling = Scaling.fitted(TargetScale(least=0.0, kind=kind), y)
    prediction = RegressionPrediction.gaussian(torch.linspace(-1, 1, 4)[:, None], torch.full((4, 1), 0.7))
    found = scaling.log_prob(prediction, scaling.encoded(y))
    expected = scaling.in_units(prediction).log_prob(y)
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)


def test_what_networks_see_is_standardised() -> None:
    _, y = table("log-normal")
    weights = torch.arange(len(y)).float()
    scaling = Scaling.fitted(TargetScale(least=0.0, step=0.1, kind="log"), y, weights)
    seen = scaling.encoded(y)
    assert seen.dtype == torch.float32
    torch.testing.assert_close((weights.double() @ seen.double()).item(), 0.0, atol=0.01, rtol=0)
    assert Scaling.of_numbers(scaling.numbers) == scaling


@pytest.mark.parametrize("kind", ["identity", "sqrt", "log"])
def test_the_noise_of_counts_is_that_of_their_cells(kind: Kind) -> None:
    """Half a step to both sides as networks see them, none below the lowest; what is rounded is not taken for noise."""
    scale, y = TargetScale(0.0, 1.0, kind), torch.tensor([[0.0], [1.0], [7.0]])
    scaling = Scaling.fitted(scale, y)
    ends = scaling.cells(scaling.encoded(y))
    expected = [(scale.to_gaussian(y + side) - scaling.center) / scaling.spread for side in (-0.5, 0.5)]
    torch.testing.assert_close(ends[1:], torch.cat(expected, dim=1)[1:], rtol=1e-4, atol=1e-5)
    assert ends[0].tolist() == [-torch.inf, pytest.approx(expected[1][0].item(), abs=1e-5)]
    for other in (TargetScale(0.0, 0.0), TargetScale(0.0, 1.0, atoms=(0.0,))):
        assert Scaling(other).cells(y) is y
    latent = 9 + 0.4 * torch.randn(3000, 1, generator=torch.Generator().manual_seed(0))
    at = torch.full((2, 3000, 1), 9.0)
    said, noise = RegressionPrediction(at[0], 0 * at[0], 0 * at[0] + 1, at, 0 * at + 1), NoiseFunction(1, 1)
    noise.fit(torch.zeros(3000, 1), Scaling(TargetScale(0.0, 1.0)).cells(latent.round()), said)
    assert noise.offset.exp().item() == pytest.approx(0.16, abs=0.03)  # and not 1/12 more
