"""`gumdrop reproduce rates`, scaled down, on tables that come with scikit-learn."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from gumdrop.ensembles import EnsembleSettings
from gumdrop_experiments.rates import sets
from gumdrop_experiments.rates import study as rates
from gumdrop_experiments.rates.results import ELBO, GRID, HELD_OUT, LABELS, OFF, summary
from gumdrop_experiments.rates.sets import SETS

from builders.digits import write_digits
from builders.reproduced import reproduced


def test_every_way_to_a_rate_is_scored_and_drawn(tmp_path, constants) -> None:
    constants(rates, NUM_SAMPLES=10, QUICK_SETS=("diabetes", "cancer"), QUICK_SPLITS=1, QUICK_EPOCHS=1)
    constants(rates, LARGE=400)  # which breast cancer has
    constants(rates, EnsembleSettings=partial(EnsembleSettings, num_members=3))
    results = reproduced("rates", tmp_path / "out", "--quick")
    for size in ("ensemble", "single"):
        assert list(results[size]["random"]["worst"]) == list(LABELS)
        for table in results[size]["tables"].values():
            assert all(math.isfinite(value) for value in table["log_likelihood"].values())
            assert min(regret for regret, _ in table["regret"].values()) == 0
            assert table["log_likelihood"][GRID] in [
                value for way, value in table["log_likelihood"].items() if way not in (GRID, ELBO, HELD_OUT)
            ]
        (large,) = results["large"][size].values()
        assert large["gain"][GRID] == [0, 0]
        scores = results[size]["tables"]["cancer"]["log_likelihood"]
        assert large["gain"][OFF][0] == pytest.approx(scores[OFF] - scores[GRID])
        assert large["error_beside"][ELBO] == pytest.approx(large["error"][ELBO] / large["error"][GRID] - 1)


def test_the_regret_is_what_is_lost_on_the_best_way_for_a_table() -> None:
    def part(of: dict[str, float]) -> dict:
        scores = dict.fromkeys(LABELS, -2.0) | of
        return {"ensemble": (one := {"log_likelihood": scores, "strength": 1.0, "rates": [0.1]}), "single": one}

    found = summary({
        "one": [part({OFF: -1.0, HELD_OUT: -1.5}), part({OFF: -1.2, HELD_OUT: -1.1})],
        "other": [part({HELD_OUT: -1.0}), part({HELD_OUT: -1.0})],
        "gap": [part({OFF: -9.0, HELD_OUT: -3.0})],
    }, gaps=["gap"])["ensemble"]  # fmt: skip
    assert found["tables"]["one"]["best"] == OFF
    assert found["tables"]["one"]["regret"][HELD_OUT] == pytest.approx((0.2, 0.3))
    assert found["random"]["worst"][OFF] == pytest.approx(1.0)
    assert found["random"]["mean"][HELD_OUT] == pytest.approx(0.1)
    assert found["gaps"]["worst"][OFF] == pytest.approx(7.0)


def test_splits_repeat_keep_test_rows_apart_and_are_standardised() -> None:
    for name in ("noisy", "friedman", "smooth", "diabetes", "cancer"):
        one, again = SETS[name].read(None, 2, 0), SETS[name].read(None, 2, 0)
        assert len(one) == 2
        assert not torch.equal(one[0].x_train[:50], one[1].x_train[:50])
        for rows, same in zip(one, again, strict=True):
            assert torch.equal(rows.x_train, same.x_train)
            assert rows.x_train.mean(0).abs().max() < 1e-4
            assert len(rows.y_test) == len(rows.x_test)
            train = {tuple(np.round(row, 5)) for row in rows.x_train.tolist()}
            assert not train & {tuple(np.round(row, 5)) for row in rows.x_test.tolist()}


def test_the_steps_of_a_long_table_are_bounded() -> None:
    assert rates._most_epochs(400_000, None) is None
    assert rates._most_epochs(400_000, 1000) == 2  # of 1,024 rows
    assert rates._most_epochs(40_000, 1000) == 25
    assert rates._most_epochs(200, 100_000) == rates.schedule(200)[1]


def test_classes_are_drawn_with_known_odds() -> None:
    (rows,) = sets._classes(4000, None, 1, 0)
    assert rows.y_train.shape == (3200,)
    assert rows.y_train.unique().tolist() == [0, 1, 2, 3]
    high, low = rows.x_train[:, 4] > 1, rows.x_train[:, 4] < -1
    assert (rows.y_train[high] == 3).float().mean() > 2 * (rows.y_train[low] == 3).float().mean()


def test_digits_become_a_table_of_half_their_width(tmp_path) -> None:
    write_digits(tmp_path / "mnist", count=30)
    (rows,) = SETS["digits"].read(tmp_path, 1, 0)
    assert rows.x_train.shape == rows.x_test.shape == (30, 14 * 14)
    assert rows.x_train.mean() == pytest.approx(0, abs=1e-5)
    assert rows.x_train.std() == pytest.approx(1, abs=1e-5)
