"""`gumdrop reproduce targets`, scaled down."""

import pytest

from gumdrop_experiments.targets import study

from builders.reproduced import reproduced


def test_targets_are_no_inputs_and_the_noise_is_correlated_as_it_is_said() -> None:
    for name, read in study.SETS.items():
        x, y = read()
        assert len(x) == len(y), name
        assert y.shape[1] >= 3
        assert not any((x[:, i] == y[:, j]).all() for i in range(x.shape[1]) for j in range(y.shape[1]))


def test_a_quick_run_scores_the_same_networks_with_and_without_the_correlation(tmp_path) -> None:
    found = reproduced("targets", tmp_path / "out", "--quick", "--sets", "wine")
    each = found["sets"]["wine"]
    assert (each["targets"], each["rows"], found["splits"]) == (4, 142, 1)
    alone, together = (each["scores"][way] for way in (study.ALONE, study.TOGETHER))
    gain = together["log_density"][0] - alone["log_density"][0]
    assert each["gain"]["log_density"][0] == pytest.approx(gain)
    assert found["ahead"]["log_density"] == (gain > 0)
    assert (each["chosen"] == 0) == (gain == 0)
    assert 0 < together["energy"][0] < 3
    assert 0 <= together["inside_50"][0] <= together["inside_90"][0] <= 1
