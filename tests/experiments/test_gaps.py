"""`gumdrop reproduce gaps`, scaled down, on real data that comes with scikit-learn."""

import math
from functools import partial

import numpy as np
import pytest

from gumdrop.estimators import ConcreteDropoutRegressor
from gumdrop_experiments.data.uci import held_out, read_rows, splits_of
from gumdrop_experiments.gaps import study as gaps
from gumdrop_experiments.tables import methods
from gumdrop_experiments.tables.methods import METHODS, Method

from builders.reproduced import reproduce, reproduced
from builders.uci import write_set


@pytest.fixture
def data(tmp_path):
    write_set(tmp_path / "data" / "uci" / "diabetes")
    return tmp_path / "data"


def test_a_gap_is_the_middle_third_and_tails_are_the_outer_sixths() -> None:
    column = np.random.default_rng(0).permutation(12).astype(float)
    assert sorted(column[held_out(column, "gap")]) == [4, 5, 6, 7]
    assert sorted(column[held_out(column, "tail")]) == [0, 1, 10, 11]
    assert held_out(np.zeros(7), "gap").tolist() == [False, False, True, True, True, False, False]


def test_there_is_a_split_for_each_input_and_none_of_its_rows_is_trained_on(data) -> None:
    folder = data / "uci" / "diabetes"
    x, y = read_rows(folder)
    for kind in ("gap", "tail"):
        splits = splits_of(folder, kind)
        assert len(splits) == x.shape[1]
        for column, split in zip(x.T, splits, strict=True):
            mask = held_out(column, kind)
            units = split.y_test.double() * split.y_std + split.y_mean
            np.testing.assert_allclose(units.numpy(), y[mask], rtol=1e-5)
            assert len(split.y_train) == (~mask).sum()
            assert split.y_train.mean().item() == pytest.approx(0, abs=1e-5)
    assert len(splits_of(folder, "gap", most=3)) == 3
    assert len(splits_of(folder, "random", most=2)) == 2


def test_scores_are_in_units_of_the_target(data) -> None:
    split = splits_of(data / "uci" / "diabetes", "gap", most=1)[0]
    (scores,) = gaps.part("linear", [split], 0, None)
    error = scores["rmse"]
    target = split.y_test.double() * split.y_std + split.y_mean
    assert 20 < error < 2 * target.std().item()
    assert scores["log_likelihood"] == pytest.approx(-math.log(error) - 0.5 * math.log(2 * math.pi) - 0.5, abs=0.2), (
        "a density per unit of the target"
    )
    assert 0.4 * error < scores["crps"] < 0.8 * error


def test_a_quick_run_compares_kinds_of_splits_and_goes_on_where_a_rival_fails(data, tmp_path, monkeypatch) -> None:
    def fails(task) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(gaps, "QUICK_EPOCHS", 1)
    monkeypatch.setattr(methods, "ConcreteDropoutRegressor", partial(ConcreteDropoutRegressor, n_members=2))
    monkeypatch.setitem(METHODS, "forest", Method("quantile forest", fails, package="json"))
    out = tmp_path / "out"
    words = ("--quick", "--methods", "gumdrop", "linear", "forest")
    results = reproduced("gaps", out, *words, data=data)
    assert list(results["kinds"]) == ["random", "gap", "tail"]
    for kind, sets in results["kinds"].items():
        found = sets["diabetes"]["methods"]
        assert found["forest"] == {"failed": "RuntimeError: out of memory"}
        assert len(found["gumdrop"]["by_split"]) == sets["diabetes"]["splits"] == 2
        assert results["means"][kind]["linear"] == pytest.approx(found["linear"]["log_likelihood"][0])
        assert results["means"][kind]["forest"] is None
    assert "diabetes, tail splits" in (out / "report.html").read_text()
    (out / "parts" / "diabetes-gap-linear.json").unlink()
    assert reproduce("gaps", out, *words, "--resume", data=data) == 0
