"""`gumdrop reproduce cartpole` on a small scale."""

import json

import pytest
import torch
from PIL import Image

from gumdrop import cli
from gumdrop_experiments.cartpole import references, study
from gumdrop_experiments.cartpole.study import VARIANTS


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    for name, value in {"hidden": (8, 8), "model_steps": 8, "policy_steps": 2, "num_policies": 2}.items():
        monkeypatch.setitem(study.QUICK, name, value)
    monkeypatch.setattr(references, "HELD_OUT_TRIALS", 3)
    monkeypatch.setattr(references, "NUM_STARTS", 10)


@pytest.mark.slow
def test_two_short_trials_leave_every_figure_and_number(tmp_path, capsys):
    state = torch.get_rng_state()
    words = ["reproduce", "cartpole", "--quick", "--trials", "2", "--seeds", "2", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    assert torch.equal(torch.get_rng_state(), state)
    assert "learned, seed 1, trial 2 of 2: reward" in capsys.readouterr().out
    contents = json.loads((tmp_path / "results.json").read_text())
    assert contents["figures"] == [f"cartpole-{name}.png" for name in ("reward", "rates", "uncertainty", "fan", "film")]
    results = contents["results"]
    assert list(results["arms"]) == list(results["settings"]) == list(VARIANTS)
    for variant, runs in results["arms"].items():
        assert [len(run) for run in runs] == [2, 2]
        first, second = runs[0]
        assert "held_out" not in first
        assert second["held_out"]["error"] > 0
        assert (second["held_out"]["epistemic"] > 0) == (variant != "none")
        assert len(second["rates"]) == (3 if variant == "learned" else 0)
        assert len(second["distance"]) == 25
        assert results["summary"][variant]["median"] == pytest.approx(sum(run[-1]["reward"] for run in runs) / 2)
    starts = [results["arms"][variant][0][0] for variant in VARIANTS]
    assert starts[0]["distance"] == starts[1]["distance"] == starts[2]["distance"]  # the same random trial for all
    assert "states" in starts[0]
    assert "states" not in starts[1]
    with Image.open(tmp_path / "cartpole.gif") as picture:
        assert picture.n_frames > 10
    page = (tmp_path / "report.html").read_text()
    for text in ("A quick run", "16.5", "Without a model", "learned rates"):
        assert text in page
    _again(tmp_path, words, results)


def _again(folder, words, results):
    """Searches go on from their states: with a part deleted, the same numbers come without a new trial."""
    (folder / "parts" / "learned-0.json").unlink()
    assert cli.main([*words, "--resume"]) == 0
    assert json.loads((folder / "results.json").read_text())["results"] == results


@pytest.mark.slow
def test_pendulum_runs_by_a_flag_and_several_searches_at_once(tmp_path):
    words = ["reproduce", "cartpole", "--quick", "--environment", "pendulum", "--trials", "2", "--seeds", "1"]
    assert cli.main([*words, "--jobs", "2", "--out", str(tmp_path)]) == 0
    contents = json.loads((tmp_path / "results.json").read_text())
    assert contents["results"]["summary"]["learned"]["median"] < 0
    assert not (tmp_path / "cartpole.gif").exists()
