"""Targets that end at 0: found, said, on the scale that held-out rows prefer, and never predicted below."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from gumdrop.cli import main
from gumdrop.ensembles.scaling import Scaling
from gumdrop.export import export_table
from gumdrop.export.serving import ServedModel
from gumdrop.export.table_graph import ScaledMoments
from gumdrop.likelihoods import RegressionPrediction, TargetScale
from gumdrop.tables import load_table_model, read_table
from gumdrop.tables.fitting.settings import PredictionSettings
from gumdrop.tables.prediction import predict_frame

ALONE = ["--epochs", "2", "--members", "1", "--hidden", "6", "--draws", "6", "--quiet"]
"""A network alone: its graph is short, and that of several is in other tests of exports."""
CHOOSING = ["--epochs", "20", "--members", "2", "--draws", "12", "--quiet"]


@pytest.fixture(scope="module")
def paid(tmp_path_factory, quick):
    """Salaries that are log-normal, and how many of them there are; the first as networks see them, and as they are."""
    place = tmp_path_factory.mktemp("positive")
    rng = np.random.default_rng(0)
    years, town = rng.uniform(0, 20, 240), rng.choice(["north", "south"], 240)
    salary = 9000 * np.exp(0.1 * years + 0.3 * (town == "south") + rng.normal(0, 0.6, 240))
    count = rng.poisson(np.exp(0.1 * years - 1))
    frame = pd.DataFrame({"years": years, "town": town, "salary": salary, "children": count})
    frame.to_csv(place / "people.csv", index=False)
    for name, target, flags in (("log", "salary", CHOOSING), ("cut", "salary", quick), ("counts", "children", ALONE)):
        other = "children" if target == "salary" else "salary"
        words = ["fit", str(place / "people.csv"), "--target", target, "--drop", other, "--task", "regression"]
        assert main([*words, "--no-compare", "--out", str(place / name), *flags]) == 0
    return place


@pytest.mark.parametrize(("name", "kind"), [("log", "log"), ("cut", "identity"), ("counts", "identity")])
def test_nothing_is_predicted_below_0(paid, tmp_path, name, kind) -> None:
    model = load_table_model(paid / name)
    assert model.ensemble.scaling.scale.kind == kind
    words = ["predict", str(paid / name), str(paid / "people.csv"), "--coverage", ".999", "--quantiles", ".0001"]
    assert main([*words, "--out", str(tmp_path / "p.csv")]) == 0
    found = pd.read_csv(tmp_path / "p.csv")
    assert (found[["prediction", "lower", "q0.01", "std"]] >= 0).all().all()
    assert (found["lower"] < found["upper"]).all()


def test_the_choice_is_said(paid, shell) -> None:
    results = json.loads((paid / "log" / "results.json").read_text())
    assert results["settings"]["target_scale"] == "log"
    assert any("prefer its logarithm" in note for note in results["notes"])
    for name, words in (("log", "held-out rows prefer its logarithm"), ("cut", "predicted densities end there")):
        assert f"'salary' is never below 0 in training: {words}" in shell.said("info", paid / name)


def test_the_levels_of_counts_from_0_on_add_up(paid) -> None:
    model, frame = load_table_model(paid / "counts"), read_table(paid / "people.csv").frame
    assert model.schema.target.steps.first == 0
    found = predict_frame(model, frame, PredictionSettings(levels=True)).frame
    total = found[[name for name in found if name.startswith("p(")]].sum(axis=1)
    assert ((total > 0.8) & (total <= 1 + 1e-5)).all()


def test_scores_of_targets_below_0_are_numbers(paid, tmp_path, shell) -> None:
    frame = pd.read_csv(paid / "people.csv").head(20).assign(salary=-5.0)
    frame.to_csv(tmp_path / "debts.csv", index=False)
    for name in ("log", "cut"):
        scores = shell.told("evaluate", paid / name, tmp_path / "debts.csv")["scores"]
        assert all(np.isfinite(value) for value in scores.values())
        assert scores["log likelihood"] < -80


def test_a_stream_ends_at_0_too(paid, tmp_path, quick) -> None:
    pd.read_csv(paid / "people.csv").drop(columns="children").to_parquet(tmp_path / "people.parquet", row_group_size=60)
    words = ["fit", str(tmp_path / "people.parquet"), "--target", "salary", "--stream", "--out", str(tmp_path / "run")]
    assert main([*words, *quick]) == 0
    written = pd.read_csv(tmp_path / "run" / "predictions.csv")
    assert (written["lower"] >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variants"),
    [("log", ["moments"]), ("counts", ["deterministic"]), ("cut", ["moments"]), ("root", ["noise", "draw"])],
)
def test_an_exported_file_gives_the_moments_of_predict(paid, tmp_path, name, variants) -> None:
    pytest.importorskip("onnxruntime")
    model = replace(load_table_model(paid / ("counts" if name == "root" else name)), num_samples=60)
    if name == "root":
        numbers = model.ensemble.scaling.scale
        seen = Scaling(replace(numbers, kind="sqrt"), center=1.0, spread=0.5).numbers
        model.ensemble.target_scaling = torch.tensor(seen, dtype=torch.float64)
    model.ensemble.noise.tail.fill_(0.4)
    rows = read_table(paid / "people.csv").frame.head(40)
    expected = model.predict_encoded(torch.from_numpy(model.schema.encode_inputs(rows).x))
    for variant in variants:  # each is held to the model before it is left
        served = ServedModel(export_table(model, tmp_path / f"{variant}.onnx", variant=variant, num_samples=60))
        if variant in ("moments", "deterministic"):
            found = served.predict(rows.drop(columns=model.schema.target.name).to_dict("records"))
            assert (found["mean"] >= 0).all()
            variance = found["epistemic"] + found["aleatoric"]
            for ours, theirs in ((found["mean"], expected.mean), (variance, expected.variance)):
                assert abs(np.log(np.median(ours / theirs.numpy()))) < 0.15  # of few draws, rows scatter


def test_an_exported_file_sees_the_same_draws_as_the_formula(paid) -> None:
    """Draws through the graph's own operators are what the library makes of the same draws."""
    model = load_table_model(paid / "log")
    ensemble = model.ensemble
    ensemble.noise.tail.fill_(0.4)
    x = torch.from_numpy(model.schema.encode_inputs(read_table(paid / "people.csv").frame.head(30)).x)
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(12, 30, 1, generator=generator)
    variances = 0.1 + torch.rand(12, 30, 1, generator=generator)
    for kind, least in (("identity", -1.0), ("sqrt", -1.5), ("log", -2.0)):
        scaling = Scaling(TargetScale(least, 0.1, kind), center=0.3, spread=0.8)
        ensemble.target_scaling = torch.tensor(scaling.numbers, dtype=torch.float64)
        parts = [RegressionPrediction.gaussian(m, v) for m, v in zip(means, variances, strict=True)]
        mixture = RegressionPrediction.mixture(parts)
        noisy = ensemble.noise.with_tail(mixture.scale_noise(ensemble.noise(x, mixture.mean)))
        expected = ensemble.scaling.in_units(noisy)
        found = ScaledMoments(ensemble, 12)(means, variances * ensemble.noise(x, means.mean(0)), means[..., 1:])
        for each in ("mean", "epistemic", "aleatoric"):
            torch.testing.assert_close(getattr(found, each), getattr(expected, each), rtol=1e-4, atol=1e-5)


def test_draws_that_stand_for_moments_have_them(paid) -> None:
    generator = torch.Generator().manual_seed(0)
    mean, epistemic, aleatoric = (0.2 + torch.rand(30, 1, generator=generator) for _ in range(3))
    part = RegressionPrediction(mean, epistemic, aleatoric, None, None)
    means, variances = ScaledMoments(load_table_model(paid / "log").ensemble, 12).spread([part])
    torch.testing.assert_close(means.mean(0), mean)
    torch.testing.assert_close(means.var(0, correction=0), epistemic)
    torch.testing.assert_close(variances, aleatoric.expand_as(variances))
