"""`gumdrop reproduce tables`, scaled down."""

import json
import math

import numpy as np
import pytest
import torch
from scipy import stats

from gumdrop.cli import main
from gumdrop.prediction import ClassificationPrediction, RegressionPrediction
from gumdrop_experiments.tables import study as tables
from gumdrop_experiments.tables import work as tables_work
from gumdrop_experiments.tables.methods import METHODS
from gumdrop_experiments.tables.results import verdicts
from gumdrop_experiments.tables.work import TableSet, Task, pooled, rows_of, scores, table_sets


def run(*words) -> int:
    return main(["reproduce", *map(str, words)])


def gaussian(mean: float, std: float, count: int) -> RegressionPrediction:
    middle, noise = torch.full((count, 1), mean).double(), torch.full((count, 1), std**2).double()
    return RegressionPrediction(middle, torch.zeros_like(middle), noise, middle[None], noise[None])


def test_scores_of_numbers_are_their_definitions_and_pool_over_folds() -> None:
    y = np.random.default_rng(0).normal(1, 2, 50)
    parts = [rows_of(gaussian(1.0, 2.0, 20), y[:20]), rows_of(gaussian(1.0, 2.0, 30), y[20:])]
    found = scores(pooled(parts))
    assert found["log_likelihood"] == pytest.approx(stats.norm(1, 2).logpdf(y).mean())
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y - 1) ** 2)))
    assert found["coverage"] == pytest.approx(np.mean(np.abs(y - 1) <= 2 * stats.norm.ppf(0.95)))
    assert found["width"] == pytest.approx(4 * stats.norm.ppf(0.95), rel=1e-5)


def test_scores_of_classes_are_their_definitions() -> None:
    p = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]])
    log_p = torch.from_numpy(p).log()
    found = scores(rows_of(ClassificationPrediction(log_p, torch.zeros(2)), np.array([0, 1])))
    assert found["log_likelihood"] == pytest.approx((math.log(0.7) + math.log(0.3)) / 2)
    assert found["accuracy"] == 0.5
    assert found["brier"] == pytest.approx((0.3**2 + 0.2**2 + 0.1**2 + 0.3**2 + 0.7**2 + 0.4**2) / 2)
    assert found["ece"] == pytest.approx((0.3 + 0.4) / 2, abs=1e-6)


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("key", METHODS)
def test_each_method_predicts_all_rows_without_their_targets(key, classes) -> None:
    if classes and not METHODS[key].classes:
        pytest.skip("there is none for classes")
    random = np.random.default_rng(0)
    x = random.normal(size=(90, 3))
    y = x[:, 0] + 0.1 * random.normal(size=90)
    if classes:
        y = np.digitize(y, [-0.5, 0.5])
    prediction = METHODS[key].run(Task(x[:70], y[:70], x[70:], classes, seed=0, epochs=30))
    found = scores(rows_of(prediction, y[70:]))
    assert all(math.isfinite(value) for value in found.values())
    assert found.get("accuracy", 1.0) > 0.5
    assert found.get("rmse", 0.0) < 1.0


def test_boosted_quantiles_are_those_of_their_gaussian() -> None:
    random = np.random.default_rng(0)
    x, y = np.zeros((2000, 1)), random.normal(3, 2, 2000)  # one leaf for all
    prediction = METHODS["quantiles"].run(Task(x, y, x[:5], 0, seed=0, epochs=None))
    lower, upper = prediction.interval(0.9)
    assert lower.numpy() == pytest.approx(np.quantile(y, 0.05), abs=0.01)
    assert upper.numpy() == pytest.approx(np.quantile(y, 0.95), abs=0.01)


def test_a_set_lies_in_units_of_its_spread_and_each_fold_has_all_classes() -> None:
    first, second, *_ = table_sets(None)
    assert first.name == "diabetes"
    assert first.y.std() == pytest.approx(1)
    for train, test in second.folds(5, seed=0):
        assert not set(train) & set(test)
        assert set(second.y[test]) == {0, 1}


def small_sets(data, most=None):
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 2))
    yield TableSet("numbers", x, x[:, 0] + random.normal(size=60), 0)
    yield TableSet("classes", x, (x[:, 0] > 0).astype(np.int64), 2)


def test_a_run_compares_all_methods_and_goes_on_after_a_stop(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tables, "table_sets", small_sets)
    out = tmp_path / "out"
    assert run("tables", "--quick", "--out", out) == 0
    results = json.loads((out / "results.json").read_text())["results"]
    assert set(results["sets"]["numbers"]["methods"]) == set(METHODS)
    assert set(results["sets"]["classes"]["methods"]) == set(METHODS) - {"quantiles"}
    assert results["verdicts"]["classes"]["coverage"] is None
    assert "gap" not in results["sets"]["numbers"]["methods"]["gumdrop"]
    gap = results["sets"]["numbers"]["methods"]["linear"]
    ours = results["sets"]["numbers"]["methods"]["gumdrop"]
    expected = np.mean(
        [a["log_likelihood"] - b["log_likelihood"] for a, b in zip(gap["folds"], ours["folds"], strict=True)]
    )
    assert gap["gap"] == pytest.approx(expected)
    (out / "parts" / "classes.linear.1.json").unlink()
    assert run("tables", "--quick", "--out", out, "--resume") == 0
    assert (out / "parts" / "classes.linear.1.json").exists()
    assert "boosted trees" in (out / "report.html").read_text()
    assert run("tables", "--methods", "magic", "--out", tmp_path / "other") == 2


def test_further_sets_come_from_the_folder(tmp_path) -> None:
    folder = tmp_path / "uci" / "one"
    folder.mkdir(parents=True)
    np.savetxt(folder / "data.txt", np.random.default_rng(0).normal(size=(12, 3)))
    np.savetxt(folder / "index_features.txt", [0, 1])
    np.savetxt(folder / "index_target.txt", [2])
    names = [each.name for each in table_sets(tmp_path)]
    assert names == [each.name for each in table_sets(None)] + ["one"]
    assert tables_work.LEVEL == 0.9


def test_a_verdict_allows_one_standard_error() -> None:
    methods = {
        "gumdrop": {"coverage": 0.9},
        "fixed": {"gap": 0.02, "gap_error": 0.03},
        "linear": {"gap": 0.5, "gap_error": 0.1},
    }
    verdict = verdicts({"one": {"methods": methods}})["one"]
    assert verdict == {"best_network": True, "best_of_all": False, "coverage": True}
