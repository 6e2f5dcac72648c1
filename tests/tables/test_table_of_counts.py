"""A target of counts: the noise is negative binomial where held-out rows prefer it, in tables and estimators."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from gumdrop.ensembles import RegressionEnsemble
from gumdrop.ensembles.noise import LARGEST_COUNT, NoiseFunction
from gumdrop.estimators import ConcreteDropoutRegressor
from gumdrop.export import export_table
from gumdrop.export.serving import ServedModel
from gumdrop.likelihoods import RegressionPrediction, TargetScale
from gumdrop.tables import fit_table, load_table_model
from gumdrop.tables.results import STEP_LIKELIHOOD, read_results

from builders.tables import QUICK

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
VISITS = RNG.poisson(np.exp(0.5 + 0.6 * X[:, 0]) * RNG.gamma(0.4, 2.5, 300))
TABLE = pd.DataFrame(X, columns=["age", "income"]).assign(visits=VISITS)
NOTE = "the counts of 'visits' are negative binomial: held-out rows prefer it to Gaussian noise"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counts") / "run"
    fit_table(TABLE, "visits", folder, settings=dataclasses.replace(QUICK, epochs=30, test_fraction=0.4))
    return folder


def test_a_table_of_counts(folder) -> None:
    model, results = load_table_model(folder), read_results(folder)
    assert NOTE in results.notes
    assert model.scale_notes[-1] == NOTE
    factor, dispersion = model.ensemble.noise.counts.tolist()
    assert 1 < dispersion < 6
    scores = {score.name: score.values[STEP_LIKELIHOOD] for score in results.scores}
    assert scores["learned dropout"] > scores["gradient-boosted trees"] + 0.1  # whose noise is Gaussian
    x = torch.from_numpy(model.schema.encode_inputs(TABLE).x)
    prediction = model.predict_encoded(x)
    assert prediction.scale.counts == (factor, dispersion)
    levels = torch.arange(100)
    shares = model.task.levels(prediction)
    assert sum(shares.values()).mean() > 0.95
    all_levels = prediction.level_probabilities(levels.tolist(), 1.0)[:, 0]
    calm = prediction.mean[:, 0] < 2
    torch.testing.assert_close((all_levels @ levels.float())[calm], prediction.mean[calm, 0], rtol=0.01, atol=0.01)
    held = prediction.interval(0.9)[0].squeeze(1).numpy() <= VISITS
    held &= prediction.interval(0.9)[1].squeeze(1).numpy() + 0.5 >= VISITS
    assert 0.85 < held.mean() < 1


@pytest.mark.slow
def test_an_exported_file_of_counts(folder, tmp_path) -> None:
    model = load_table_model(folder)
    export_table(model, tmp_path / "model.onnx", num_samples=150)
    served = ServedModel(tmp_path / "model.onnx").predict(TABLE.drop(columns="visits").to_dict("records"))
    many = dataclasses.replace(model, num_samples=150).predict(TABLE)
    np.testing.assert_allclose(served["mean"].mean(), many["prediction"].mean(), rtol=0.05)


def test_a_regressor_of_counts() -> None:
    model = ConcreteDropoutRegressor(hidden_layer_sizes=(12,), n_members=2, max_iter=30, random_state=0)
    model.fit(X, VISITS)
    assert model.predict_distribution(X).scale.counts
    draws = model.sample_y(X[:20], 4000)
    assert np.array_equal(draws, draws.round())
    assert (draws >= 0).all()
    mean, std = model.predict(X[:20], return_std=True)
    np.testing.assert_allclose(draws.mean(1), mean, rtol=0.15)
    np.testing.assert_allclose(draws.std(1), std, rtol=0.25)


def test_conformal_levels_of_counts() -> None:
    choices = {"hidden_layer_sizes": (12,), "n_members": 2, "max_iter": 30, "random_state": 0}
    model = ConcreteDropoutRegressor(**choices, conformal=True).fit(X[:200], VISITS[:200])
    assert model.predict_distribution(X).scale.counts
    levels = np.array([0.1, 0.5, 0.8, 0.9])
    values = model.conformalize(X[200:], VISITS[200:]).predict_quantiles(X[200:], levels)
    assert (np.diff(values, axis=1) >= 0).all()
    below = (VISITS[200:, None] <= values + 0.5).mean(0)
    assert (below > levels - 0.02).all()


def fitted(y: np.ndarray, mean: float, variance: float) -> NoiseFunction:
    """Noise that is fitted to counts of which draws say one mean and variance."""
    counts = torch.from_numpy(y).double()[:, None]
    prediction = RegressionPrediction.gaussian(torch.full_like(counts, mean), torch.full_like(counts, variance))
    prediction = prediction.on(TargetScale(least=0.0, step=1.0))
    noise, before = NoiseFunction(1, 1), prediction.log_probability(counts - 0.5, counts + 0.5)
    noise.tail = torch.tensor([0.4])
    noise.fit_counts(prediction, counts, before, torch.ones(len(y)))
    return noise


def test_the_dispersion_is_found_and_the_tail_goes() -> None:
    random = np.random.default_rng(0)
    noise = fitted(random.poisson(4 * random.gamma(1.0, 1.0, 800)), 4.0, 20.0)
    factor, dispersion = noise.counts.tolist()
    assert dispersion == pytest.approx(1.0, abs=0.2)
    assert noise.tail == 0
    assert RegressionEnsemble([], noise).scaling.scale.counts == (factor, dispersion)


def test_counts_that_vary_less_than_poisson_and_large_ones_keep_their_noise() -> None:
    random = np.random.default_rng(0)
    even = np.rint(random.normal(4, 0.8, 500))
    large = random.poisson(400 * random.gamma(1.0, 1.0, 500))
    assert large.max() > LARGEST_COUNT
    for noise in (fitted(even, 4.0, 0.7), fitted(large, 400.0, 160_000.0)):
        assert not noise.counts.any()
        assert noise.tail > 0
