"""`gumdrop reproduce tables`, scaled down."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor

from gumdrop.likelihoods import ClassificationPrediction, RegressionPrediction
from gumdrop.tables import baselines
from gumdrop_experiments.tables import methods
from gumdrop_experiments.tables import study as tables
from gumdrop_experiments.tables.methods import METHODS, Method
from gumdrop_experiments.tables.study import summaries, verdicts
from gumdrop_experiments.tables.tasks import (
    QUANTILE_LEVELS,
    Quantiles,
    TableSet,
    Task,
    crps_of,
    gaussian_nll,
    pooled,
    rows_of,
    scores,
    table_sets,
    unseen_sets,
)

from builders.reproduced import reproduce, reproduced, results_of

EMPTY = Task(np.zeros((2, 1)), np.zeros(2), np.zeros((1, 1)), np.zeros(1))


def gaussian(mean: float, std: float, count: int) -> RegressionPrediction:
    middle, noise = torch.full((count, 1), mean).double(), torch.full((count, 1), std**2).double()
    return RegressionPrediction(middle, torch.zeros_like(middle), noise, middle[None], noise[None])


def test_scores_of_numbers_are_their_definitions_and_pool_over_folds() -> None:
    y = np.random.default_rng(0).normal(1, 2, 50)
    parts = [rows_of(gaussian(1.0, 2.0, 20), y[:20]), rows_of(gaussian(1.0, 2.0, 30), y[20:])]
    found = scores(pooled(parts))
    assert found["log_likelihood"] == pytest.approx(stats.norm(1, 2).logpdf(y).mean())
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y - 1) ** 2)))
    for level in (50, 90, 95):
        inside = np.abs(y - 1) <= 2 * stats.norm.ppf((1 + level / 100) / 2)
        assert found[f"coverage_{level}"] == pytest.approx(np.mean(inside))
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
    if METHODS[key].package:
        pytest.importorskip(METHODS[key].package, exc_type=ImportError)
    random = np.random.default_rng(0)
    x = random.normal(size=(90, 3))
    y = x[:, 0] + 0.1 * random.normal(size=90)
    if classes:
        y = np.digitize(y, [-0.5, 0.5])
    prediction = METHODS[key].run(Task(x[:70], y[:70], x[70:], y[70:], classes, epochs=30))
    found = scores(rows_of(prediction, y[70:]))
    assert all(math.isfinite(value) for value in found.values())
    assert found.get("accuracy", 1.0) > 0.5
    assert found.get("rmse", 0.0) < 1.0


def test_boosted_quantiles_are_those_of_their_gaussian() -> None:
    random = np.random.default_rng(0)
    x, y = np.zeros((2000, 1)), random.normal(3, 2, 2000)  # one leaf for all
    prediction = METHODS["quantiles"].run(Task(x, y, x[:5], y[:5]))
    lower, upper = prediction.gaussian().interval(0.9)
    for ends in ((lower.squeeze(1), upper.squeeze(1)), (prediction.at(0.05), prediction.at(0.95))):
        assert ends[0].numpy() == pytest.approx(np.quantile(y, 0.05), abs=0.01)
        assert ends[1].numpy() == pytest.approx(np.quantile(y, 0.95), abs=0.01)


def normal_quantiles(mean: float, std: float, count: int) -> Quantiles:
    values = np.tile(stats.norm(mean, std).ppf(QUANTILE_LEVELS), (count, 1))
    return Quantiles.of(values[:, ::-1], np.array([0.0, 0.1]))


def test_quantiles_of_a_gaussian_score_like_it() -> None:
    y = np.random.default_rng(0).normal(1, 2, 4000)
    exact, quantiles = gaussian(1.0, 2.0, len(y)), normal_quantiles(1.0, 2.0, len(y))
    assert crps_of(quantiles, y) == pytest.approx(crps_of(exact, y), rel=0.01)
    assert gaussian_nll(quantiles, y) == pytest.approx(-stats.norm(1, 2).logpdf(y).mean())
    ours, theirs = (scores(rows_of(each, y)) for each in (exact, quantiles))
    assert theirs == pytest.approx(ours, rel=1e-5)


def test_quantiles_that_coincide_have_a_gaussian_as_wide_as_the_step_of_the_targets() -> None:
    values = np.full((1, len(QUANTILE_LEVELS)), 5.0)
    prediction = Quantiles.of(values, np.array([3.0, 5.0, 5.0, 4.5])).gaussian()
    assert prediction.std.item() == pytest.approx(0.5 / math.sqrt(12))
    assert Quantiles.of(values, np.array([5.0, 5.0])).gaussian().std.item() == pytest.approx(1e-3)


def test_the_nll_of_a_mixture_is_also_that_of_the_gaussian_with_its_moments() -> None:
    y = np.array([0.3, -1.0])
    mixture = RegressionPrediction.mixture([gaussian(1.0, 2.0, 2), gaussian(3.0, 1.0, 2)])
    assert gaussian_nll(mixture, y) == pytest.approx(-stats.norm(2, math.sqrt(1 + 2.5)).logpdf(y).mean())


def test_a_set_lies_in_units_of_its_spread_and_each_fold_has_all_classes() -> None:
    first, second, *_ = table_sets(None)
    assert first.name == "diabetes"
    assert first.y.std() == pytest.approx(1)
    for task in second.folds(5, seed=0, epochs=None):
        assert len(task.y_train) + len(task.y_test) == len(second.y)
        assert set(task.y_test) == {0, 1}


def test_unseen_sets_have_one_target_whose_values_are_not_mostly_one() -> None:
    pytest.importorskip("statsmodels")
    sets = {table.name: (table.x.shape, table.num_classes) for table in unseen_sets()}
    assert sets == {
        "anes96": ((944, 5), 7),
        "cancer": ((301, 1), 0),
        "engel": ((235, 1), 0),
        "grunfeld": ((220, 14), 0),  # eleven firms are indicators
        "modechoice": ((840, 6), 2),
    }


def small_sets(data, most=None):
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 2))
    yield TableSet("numbers", x, x[:, 0] + random.normal(size=60), 0)
    yield TableSet("classes", x, (x[:, 0] > 0).astype(np.int64), 2)


def test_a_run_compares_all_methods_and_goes_on_after_a_stop(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tables.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(tables, "QUICK_EPOCHS", 1)
    monkeypatch.setattr(tables, "table_sets", small_sets)
    for place in (methods, baselines):
        monkeypatch.setattr(place, "HistGradientBoostingRegressor", partial(HistGradientBoostingRegressor, max_iter=3))
    for name in ("ConcreteDropoutClassifier", "ConcreteDropoutRegressor"):
        monkeypatch.setattr(methods, name, partial(getattr(methods, name), n_members=2))
    out = tmp_path / "out"
    results = reproduced("tables", out, "--quick")
    own = {key for key, method in METHODS.items() if method.package is None}
    assert set(results["sets"]["numbers"]["methods"]) == own
    assert set(results["sets"]["classes"]["methods"]) == own - {"quantiles", "deep-ensemble"}
    assert results["verdicts"]["classes"]["coverage"] is None
    assert "gap" not in results["sets"]["numbers"]["methods"]["gumdrop"]
    gap = results["sets"]["numbers"]["methods"]["linear"]
    ours = results["sets"]["numbers"]["methods"]["gumdrop"]
    expected = np.mean(
        [a["log_likelihood"] - b["log_likelihood"] for a, b in zip(gap["folds"], ours["folds"], strict=True)]
    )
    assert gap["gap"] == pytest.approx(expected)
    (out / "parts" / "classes.linear.1.json").unlink()
    assert reproduce("tables", out, "--quick", "--resume") == 0
    assert (out / "parts" / "classes.linear.1.json").exists()
    assert "boosted trees" in (out / "report.html").read_text()


def test_a_rival_that_is_absent_or_fails_is_named_and_stops_nothing(tmp_path, monkeypatch, capsys) -> None:
    def fails(task: Task) -> Quantiles:
        raise ValueError("no rows to stop by")

    monkeypatch.setattr(tables, "QUICK_EPOCHS", 1)
    monkeypatch.setattr(tables, "table_sets", lambda data, most: itertools.islice(small_sets(data), 1))
    monkeypatch.setitem(METHODS, "forest", Method("quantile forest", fails, classes=False, package="json"))
    monkeypatch.setitem(METHODS, "ngboost", Method("NGBoost", fails, classes=False, package="no_such_package"))
    out = tmp_path / "out"
    assert reproduce("tables", out, "--quick", "--methods", "gumdrop", "linear", "forest", "ngboost") == 0
    assert "no_such_package is not installed, so ngboost is left out" in capsys.readouterr().out
    found = results_of(out)["sets"]["numbers"]["methods"]
    assert set(found) == {"gumdrop", "linear", "forest"}
    assert found["forest"] == {"failed": "ValueError: no rows to stop by"}
    assert "failed: ValueError: no rows to stop by" in (out / "report.html").read_text()


def test_a_method_of_ours_that_fails_is_an_error(monkeypatch) -> None:
    monkeypatch.setitem(METHODS, "linear", Method("linear", lambda task: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        tables.measured("linear", EMPTY)


def test_memory_is_what_a_method_takes_at_most(monkeypatch, tmp_path) -> None:
    """The peak of the system less what was held before; its files are played, since what it frees is its own affair."""
    (tmp_path / "status").write_text("VmHWM:\t  150000 kB\nVmRSS:\t  100000 kB\n")

    def greedy(task: Task) -> RegressionPrediction:
        (tmp_path / "status").write_text("VmHWM:\t  148000 kB\nVmRSS:\t  100000 kB\n")
        return gaussian(0.0, 1.0, 1)

    monkeypatch.setitem(METHODS, "linear", Method("linear", greedy))
    monkeypatch.setattr(tables, "PROCESS", tmp_path)
    assert tables.measured("linear", EMPTY)["megabytes"] == 48
    assert (tmp_path / "clear_refs").read_text() == "5"
    monkeypatch.setattr(tables, "PROCESS", tmp_path / "nowhere")
    assert tables.measured("linear", EMPTY)["megabytes"] is None


def test_gaps_of_crps_stand_beside_those_of_the_log_likelihood() -> None:
    y = np.random.default_rng(0).normal(0, 1, 40)

    def parts(std: float) -> list[dict]:
        found = []
        for rows in (y[:15], y[15:]):
            prediction = gaussian(0.0, std, len(rows))
            part = {"rows": rows_of(prediction, rows), "crps": crps_of(prediction, rows)}
            found.append(part | {"seconds": 1.0, "megabytes": 2.0})
        return found

    found = summaries({"gumdrop": parts(1.0), "linear": parts(3.0)})
    assert found["linear"]["crps"] == pytest.approx(crps_of(gaussian(0.0, 3.0, 40), y))
    assert found["linear"]["crps_gap"] > 0 > found["linear"]["gap"]
    verdict = verdicts({"one": {"methods": found}})["one"]
    assert verdict["best_of_all"]
    assert verdict["best_crps"]


def test_further_sets_come_from_the_folder(tmp_path) -> None:
    folder = tmp_path / "uci" / "one"
    folder.mkdir(parents=True)
    np.savetxt(folder / "data.txt", np.random.default_rng(0).normal(size=(12, 3)))
    np.savetxt(folder / "index_features.txt", [0, 1])
    np.savetxt(folder / "index_target.txt", [2])
    names = [each.name for each in table_sets(tmp_path)]
    assert names == [each.name for each in table_sets(None)] + ["one"]


def test_a_verdict_allows_one_standard_error() -> None:
    methods = {
        "gumdrop": {"coverage_90": 0.9},
        "fixed": {"gap": 0.02, "gap_error": 0.03},
        "linear": {"gap": 0.5, "gap_error": 0.1},
    }
    verdict = verdicts({"one": {"methods": methods}})["one"]
    assert verdict == {"best_network": True, "best_of_all": False, "best_crps": True, "coverage": True}
