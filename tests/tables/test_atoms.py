"""A target of which many rows are exactly 0: its probability is a number of its own, and intervals reach it."""

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from gumdrop.estimators import ConcreteDropoutRegressor
from gumdrop.export import ExportError, export_table
from gumdrop.export.serving import ServedModel
from gumdrop.likelihoods import HurdlePrediction
from gumdrop.likelihoods.hurdle import Hurdle
from gumdrop.tables import fit_table, load_table_model
from gumdrop.tables.errors import TableError
from gumdrop.tables.schema.schema import TableSchema, Target
from gumdrop.tables.task import task_of

from builders.tables import QUICK

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
RAIN = np.where(X[:, 0] + 0.3 * RNG.normal(size=400) > -0.7, np.exp(1 + X[:, 1] + 0.2 * RNG.normal(size=400)), 0.0)
TABLE = pd.DataFrame(X, columns=["a", "b", "c"]).assign(rain=RAIN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("atoms") / "run"
    fit_table(TABLE, "rain", folder, settings=dataclasses.replace(QUICK, epochs=30))
    return folder


def test_predictions_have_the_probability_of_0_and_intervals_reach_it(folder) -> None:
    model = load_table_model(folder)
    found = model.predict(TABLE, quantiles=[0.02])
    dry = RAIN == 0
    assert found["p(0)"][dry].mean() > 0.5 > 0.2 > found["p(0)"][~dry].mean()
    assert ((found["p(0)"] >= 0) & (found["p(0)"] <= 1)).all()
    assert (found["lower"][dry] == 0).mean() > 0.9  # to the bit
    held = (found["lower"] <= RAIN) & (found["upper"] >= RAIN)
    assert held[dry].mean() > 0.8
    assert 0.8 < held.mean() < 0.995
    assert ((found["q2"] == 0) == (found["p(0)"] >= 0.02)).mean() > 0.99
    assert model.task.levels(None) == {}  # `--levels` has nothing to add
    assert isinstance(model.task.likelihood, Hurdle)
    schema = model.schema
    assert schema.target.atoms == (0.0,)
    assert TableSchema.from_json(schema.to_json()) == schema
    with pytest.raises(TableError, match="atoms is"):
        TableSchema.from_json(schema.to_json() | {"target": schema.to_json()["target"] | {"atoms": [1.0, 0.0]}})


def test_to_exceed_an_atom_among_steps_is_not_to_be_it() -> None:
    """The size of steps such as .1 is rounded, so that their multiples miss an atom by a bit."""
    target = Target("y", "regression", 2.0, 1.0, step=0.1 - 2**-56, last=3.9, positive=True, atoms=(0.0, 3.9))
    at_itself: Any = SimpleNamespace(mean=torch.zeros(1, dtype=torch.float64), cdf=lambda value: value.view(1, 1))
    found = task_of(target).columns_on_request(at_itself, (), (0.0, 0.05, 3.8, 3.9, 3.95), False)
    np.testing.assert_allclose([1 - values[0] for values in found.values()], [0, 0, 3.85, 3.9, 3.9])


@pytest.mark.slow
def test_an_exported_file_has_the_probability_of_0(folder) -> None:
    model = load_table_model(folder)
    export_table(model, folder / "model.onnx", num_samples=400)
    served = ServedModel(folder / "model.onnx").predict(TABLE.drop(columns="rain").to_dict("records"))
    many = dataclasses.replace(model, num_samples=400).predict(TABLE)
    np.testing.assert_allclose(served["atom_probabilities"][:, 0], many["p(0)"], atol=0.1)
    np.testing.assert_allclose(served["mean"].mean(), many["prediction"].mean(), rtol=0.05)
    with pytest.raises(ExportError, match="values that many rows share"):
        export_table(model, folder / "model.onnx", variant="draw")


def test_scores_of_all_models_are_of_the_same_kind(folder) -> None:
    results = json.loads((folder / "results.json").read_text())
    assert any("'p(0)'" in note for note in results["notes"])
    likelihoods = [score["values"]["log likelihood"] for score in results["scores"]]
    assert len(likelihoods) > 3
    assert np.isfinite(likelihoods).all()


def test_an_estimator() -> None:
    model = ConcreteDropoutRegressor(hidden_layer_sizes=(16,), n_members=2, max_iter=40, random_state=0).fit(X, RAIN)
    prediction = model.predict_distribution(X)
    assert isinstance(prediction, HurdlePrediction)
    draws, zeros = model.sample_y(X, 200), prediction.atom_probabilities[:, 0].numpy()
    np.testing.assert_allclose((draws == 0).mean(1), zeros, atol=0.15)
    np.testing.assert_allclose((draws == 0).mean(), zeros.mean(), atol=0.01)
    lower, upper = model.predict_interval(X)
    assert ((lower <= RAIN) & (upper >= RAIN))[RAIN == 0].mean() > 0.8
    assert np.isfinite(model.log_prob(X, RAIN)).all()
    percent = ConcreteDropoutRegressor(hidden_layer_sizes=(16,), n_members=2, max_iter=20, random_state=0)
    low, high = percent.fit(X, 100 - np.minimum(RAIN, 90)).predict_interval(X)
    assert ((low <= 100) & (high >= 100))[RAIN == 0].mean() > 0.8
