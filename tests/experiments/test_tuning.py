"""`gumdrop reproduce tuning`, scaled down, on real data that comes with scikit-learn."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from gumdrop.ensembles import EnsembleSettings
from gumdrop_experiments.tuning import study as tuning
from gumdrop_experiments.uci import methods, work

from builders.reproduced import reproduced
from builders.uci import write_set


@pytest.mark.slow
def test_tuning_never_sees_a_test_row_and_writes_its_page(tmp_path, constants) -> None:
    constants(methods, NUM_SAMPLES=5)
    constants(work, NUM_SAMPLES=5, EnsembleSettings=partial(EnsembleSettings, num_members=3))
    constants(tuning, UCI=("diabetes",), SIMULATED=(), QUICK_SPLITS=1, QUICK_EPOCHS=1)
    folder = tmp_path / "data" / "uci" / "diabetes"
    write_set(folder, splits=1)
    np.savetxt(folder / "index_test_0.txt", range(80, 90))  # test rows that would be noticed
    np.savetxt(folder / "data.txt", np.vstack([np.loadtxt(folder / "data.txt"), np.full((10, 11), 1e30)]))
    results = reproduced("tuning", tmp_path / "out", "--quick", data=tmp_path / "data")
    assert list(results["summary"]) == ["diabetes"]
    for rows in results["summary"].values():
        assert list(rows) == list(tuning.CANDIDATES)
        assert all(math.isfinite(row["log_likelihood"]) for row in rows.values())


@pytest.mark.parametrize(("name", "inputs"), [("friedman-30", 10), ("linear-30", 20), ("sine-30", 1)])
def test_simulated_sets_repeat_and_differ(name, inputs) -> None:
    first, second = tuning.simulated(name, 2, seed=3)
    again, _ = tuning.simulated(name, 2, seed=3)
    assert first.x_train.shape == (30, inputs)
    assert first.x_test.shape == (500, inputs)
    assert torch.equal(first.y_train, again.y_train)
    assert not torch.equal(first.y_train, second.y_train)
