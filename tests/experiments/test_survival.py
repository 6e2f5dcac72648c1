"""`gumdrop reproduce survival`, scaled down; what is read from other packages is skipped where these are absent."""

import importlib.util

import numpy as np
import pandas as pd
import pytest
import torch

from gumdrop_experiments.survival import study
from gumdrop_experiments.survival.study import OBSERVED, Times, split_of

from builders.reproduced import reproduced

HAS_PACKAGES = all(importlib.util.find_spec(name) for name in ("sksurv", "lifelines"))
needs_packages = pytest.mark.skipif(not HAS_PACKAGES, reason="scikit-survival and lifelines are not installed")


def test_folds_test_each_row_once_and_standardise_by_the_training_rows() -> None:
    x = pd.DataFrame({"age": [*np.arange(20.0), np.nan, 400.0, 7.0], "same": 1.0})
    y = np.array(list(zip([True, False] * 11 + [True], np.arange(1.0, 24), strict=True)), dtype=OBSERVED)
    splits = [split_of(Times(x, y), number, 5, seed=0) for number in range(10)]
    for five in (splits[:5], splits[5:]):
        assert sorted(np.concatenate([split.y_test["time"] for split in five])) == list(range(1, 24))
    assert not np.array_equal(splits[0].y_test, splits[5].y_test)
    for split in splits:
        assert split.x_train.mean(0) == pytest.approx([0, 0], abs=1e-9)
        assert split.x_train.std(0) == pytest.approx([1, 0])
        assert np.isfinite(split.x_test).all()


def test_survivals_in_steps_are_a_prediction() -> None:
    steps = study.Steps(torch.tensor([1.0, 3.0]).double(), torch.tensor([[0.9, 0.4], [0.8, 0.7]]).double())
    for time, left in ((0.5, [1, 1]), (1.0, [0.9, 0.8]), (2.9, [0.9, 0.8]), (9.0, [0.4, 0.7])):
        assert (1 - steps.cdf(torch.tensor(time).double()))[:, 0].tolist() == pytest.approx(left)
    own = 1 - steps.cdf(torch.tensor([[3.0], [0.0]]).double())
    assert own[:, 0].tolist() == pytest.approx([0.4, 1])


@needs_packages
def test_a_quick_run(tmp_path) -> None:
    found = reproduced("survival", tmp_path / "out", "--quick", "--sets", "veterans", "rossi")
    assert found["veterans"]["rows"] == 137
    assert found["rossi"]["seen"] == pytest.approx(114 / 432)
    for each in found.values():
        briers = {label: result["brier"][0] for label, result in each["methods"].items()}
        assert all(0.05 < brier < 0.3 for brier in briers.values())
        assert each["methods"]["gumdrop"]["ours_ahead"] == [0, 0]
        assert each["methods"]["Kaplan-Meier"]["concordance"][0] == pytest.approx(0.5)
    assert "Not behind Cox" in (tmp_path / "out" / "report.html").read_text()
